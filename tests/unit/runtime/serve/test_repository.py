"""The folder of models: what has changed in it, and entries that no model can be loaded from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import glow_nb
from glow_nb.hlir.ops import Mul
from glow_nb.runtime.hosting.host import HostManager
from glow_nb.runtime.serve.application import application
from glow_nb.runtime.serve.limits import Limits
from glow_nb.runtime.serve.model_server import ModelServer
from glow_nb.runtime.serve.repository import ModelRepository
from tests.unit.runtime.serve.asgi_client import call
from tests.unit.runtime.serve.conftest import Served
from tests.unit.runtime.serve.onnx_models import DATA, scaling
from tests.unit.runtime.serve.requests import infer
from tests.unit.runtime.serve.test_pages import INDEX, load, states

NET = "/v2/models/net/infer"


def factor_of(served: Served, path: str = NET) -> float:
    """Return what the model multiplies by."""
    factor: float = infer(served.app, path=path).json["outputs"][0]["data"][0]
    return factor


def replace_unnoticed(path: Path, content: bytes) -> None:
    """Put *content* in the place of as many bytes, with the time of the old ones."""
    status = path.stat()
    assert status.st_size == len(content)
    fresh = path.with_name("fresh")
    fresh.write_bytes(content)
    os.utime(fresh, ns=(status.st_atime_ns, status.st_mtime_ns))
    fresh.rename(path)


def test_a_file_of_equal_size_and_time_is_another_one(served: Served) -> None:
    path = served.folder / "double.glow"
    replace_unnoticed(path, path.read_bytes().replace(b"2.0", b"3.0"))
    assert load(served.app, "double").status == 200
    assert factor_of(served, "/v2/models/double/infer") == 3.0


def test_an_unchanged_model_is_not_loaded_again(served: Served) -> None:
    scaling(served.folder / "net.onnx", 2.0, location=DATA)
    load(served.app, "net")
    networks = [served.models.find(name).network for name in ("double", "net")]
    for name in ("double", "net"):
        assert load(served.app, name).status == 200
    assert [served.models.find(name).network for name in ("double", "net")] == networks


def test_weights_in_another_file_belong_to_the_model(served: Served) -> None:
    scaling(served.folder / "net.onnx", 2.0, location=DATA)
    load(served.app, "net")
    replace_unnoticed(served.folder / DATA, np.full(2, 3.0, np.float32).tobytes())
    assert load(served.app, "net").status == 200
    assert factor_of(served) == 3.0


@pytest.mark.parametrize("linked", ["net.onnx", DATA, "both"])
def test_a_link_that_leads_elsewhere_is_another_model(served: Served, linked: str) -> None:
    """As in the cache of a model hub."""
    stores = [served.folder.parent / f"blobs{number}" for number in (2, 3)]
    for number, store in zip((2.0, 3.0), stores, strict=True):
        store.mkdir()
        scaling(store / "net.onnx", number, location=DATA)
        if linked == DATA:  # both files of weights lie beside the model
            (store / DATA).rename(served.folder / f"weights{number}")

    def link(index: int) -> None:
        targets = {"net.onnx": stores[index] / "net.onnx"}
        if linked == "both":
            targets[DATA] = stores[index] / DATA
        if linked == DATA:
            targets = {DATA: served.folder / f"weights{index + 2.0}"}
        for name, target in targets.items():
            (served.folder / name).unlink(missing_ok=True)
            (served.folder / name).symlink_to(target)

    if linked == DATA:
        (stores[0] / "net.onnx").rename(served.folder / "net.onnx")
    for index in (0, 1):
        link(index)
        assert load(served.app, "net").status == 200
        assert factor_of(served) == index + 2.0


def test_constants_beside_ir_text_belong_to_the_model(served: Served) -> None:
    path = served.folder / "large.glow"
    builder = glow_nb.Builder("large")
    numbers = builder.constant("numbers", np.arange(1 << 12, dtype=np.float32))
    builder.save(builder.emit(Mul(builder.input("x", "float32<4096>"), numbers)), "y")
    glow_nb.save_text(builder.function(), path)
    assert path.with_suffix(".npz").exists()
    load(served.app, "large")
    before = served.models.find("large").network
    os.utime(path.with_suffix(".npz"))
    load(served.app, "large")
    assert served.models.find("large").network != before


def odd_entries(folder: Path) -> Iterator[str]:
    """Make entries in *folder* that no model can be loaded from; yield what the index calls them"""
    (folder / "dangling.onnx").symlink_to(folder / "nowhere")
    yield "dangling"
    (folder / "loop.onnx").symlink_to(folder / "loop.onnx")
    yield "loop"
    os.mkfifo(folder / "pipe.onnx")
    yield "pipe"
    (folder / "nothing.onnx").touch()
    yield "nothing"
    (folder / "a model \n'\".onnx").write_bytes(b"x")
    yield "a model \n'\""
    (folder / "linked" / "1").mkdir(parents=True)
    (folder / "linked" / "1" / "model.onnx").symlink_to(folder / "nowhere")
    yield "linked"
    (folder / "twice" / "1").mkdir(parents=True)
    for suffix in (".onnx", ".glow"):
        (folder / "twice" / "1" / f"model{suffix}").touch()
    yield "twice"
    # what is no model at all
    (folder / "dangling").symlink_to(folder / "nowhere")
    (folder / "circle").symlink_to(folder / "circle")
    (folder / "scaled" / "11").touch()
    (folder / "scaled" / "12").symlink_to(folder / "nowhere")
    (folder / "scaled" / "13").symlink_to(folder / "scaled" / "13")
    (folder / "scaled" / "014").mkdir()
    (folder / "scaled" / "15").mkdir()
    (folder / "scaled" / ("9" * 200)).mkdir()
    (folder / "README").touch()
    (folder / ".hidden.onnx").touch()
    (folder / "folder.onnx").mkdir()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no such files")
def test_each_odd_entry_stands_for_itself(folder: Path, host: HostManager) -> None:
    odd = list(odd_entries(folder))
    models = ModelServer(host, ModelRepository([folder]))
    assert len(models.load_all()) == len(odd)
    app = application(models, Limits())
    ready = {name for (name, _), state in states(app).items() if state == "READY"}
    assert ready == {"double", "scaled"}
    assert {name for name, _ in states(app)} == {*ready, *odd}
    assert load(app, "double").status == load(app, "scaled").status == 200
    reasons = {entry["name"]: entry["reason"] for entry in call(app, "POST", INDEX).json}
    for name in odd:
        assert reasons[name]
        assert str(folder) not in reasons[name]
        assert f"model {name!r}, version 1: " in reasons[name]
    reply = load(app, "dangling")
    assert (reply.status, reply.error) == (
        400,
        "model 'dangling', version 1: dangling.onnx: cannot be read: No such file or directory; "
        "check the path",
    )


def test_a_folder_that_cannot_be_read_hides_no_other(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed(path: Path) -> list[str]:
        if path in closed:
            raise closed[path]
        return names_in(path)

    names_in = os.listdir
    denied = PermissionError(13, "Permission denied", str(served.folder / "scaled" / "2"))
    closed: dict[Path, OSError] = {served.folder / "scaled" / "2": denied}
    monkeypatch.setattr(os, "listdir", listed)
    reply = load(served.app, "scaled")
    assert (reply.status, reply.error) == (
        400,
        "model 'scaled', version 2: cannot be read: Permission denied",
    )
    assert states(served.app)["scaled", "2"] == "READY", "what is loaded stays"
    closed = {served.folder / "scaled": denied}
    assert load(served.app, "scaled").error == "'scaled': cannot be read: Permission denied"
    assert list(served.models.served["scaled"]) == ["2", "10"]
    closed = {served.folder / "scaled": FileNotFoundError(2, "No such file or directory")}
    assert load(served.app, "scaled").status == 404
    assert load(served.app, "double").status == 200
    assert [name for name, _ in states(served.app)] == ["double"]


def test_a_file_that_vanishes_is_an_error_of_its_own(served: Served) -> None:
    alone = ModelServer(served.host, ModelRepository([served.folder / "double.glow"]))
    (served.folder / "double.glow").unlink()
    (error,) = alone.load_all()
    assert str(error) == (
        "model 'double', version 1: double.glow: cannot be read as IR text: No such file or "
        "directory; check the path"
    )
