"""Whatever is read must be a regular file: nothing hangs on a pipe, a socket or a device."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import glow_nb
from glow_nb.base.errors import GlowError
from glow_nb.codegen.cache import ObjectCache
from glow_nb.commands.arrays import read_npy
from glow_nb.network.files import load_constants, load_text
from glow_nb.system.regular_files import open_regular, read_text
from tests.unit.commands.samples import GRAPH, fails, write_dense
from tests.unit.formats.onnx.importer.models import FLOAT, one

SECONDS = 10


def external(location: str) -> onnx.ModelProto:
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return one("Add", ("x", "w"), weights=[tensor])  # type: ignore[no-any-return]


def in_time(call: Callable[[], object]) -> BaseException | None:
    """Return what *call* raises; fail if it has not ended in time."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # handed to the test
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert not thread.is_alive(), f"no end after {SECONDS} s"
    return raised[0] if raised else None


@pytest.fixture(params=["pipe", "link to a pipe", "socket", "device"])
def odd_file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Return the path of something that is no regular file, without a suffix."""
    path = tmp_path / "odd"
    if request.param == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            folder = os.open(tmp_path, os.O_RDONLY)
            listener.bind(f"/proc/self/fd/{folder}/odd")  # the name of a socket must be short
            os.close(folder)
            yield path
        return
    if request.param == "device":
        path.symlink_to("/dev/zero")
    elif request.param == "pipe":
        os.mkfifo(path)
    else:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to("pipe")
    yield path


def renamed(path: Path, suffix: str) -> Path:
    return path.rename(path.with_suffix(suffix))


def test_open(odd_file: Path) -> None:
    error = in_time(lambda: open_regular(odd_file))
    assert isinstance(error, OSError)
    assert (error.strerror, error.filename) == ("Not a regular file", str(odd_file))


def test_model(odd_file: Path) -> None:
    error = in_time(lambda: glow_nb.load(odd_file))
    assert isinstance(error, GlowError)
    assert str(error) == f"{odd_file}: cannot be read: Not a regular file; check the path"


def test_external_data(odd_file: Path) -> None:
    model = odd_file.parent / "model.onnx"
    model.write_bytes(external(odd_file.name).SerializeToString())
    error = in_time(lambda: glow_nb.load(model))
    assert isinstance(error, GlowError)
    assert odd_file.name in str(error)


def test_text(odd_file: Path) -> None:
    path = renamed(odd_file, ".glow")
    error = in_time(lambda: load_text(path))
    assert isinstance(error, GlowError)
    assert "Not a regular file" in str(error)


def test_constants_of_text(odd_file: Path) -> None:
    path = renamed(odd_file, ".npz")
    path.with_suffix(".glow").write_text(GRAPH + "// an external constant\n")
    for call in (lambda: load_constants(path), lambda: load_text(path.with_suffix(".glow"))):
        error = in_time(call)
        assert isinstance(error, GlowError)
        assert "Not a regular file" in str(error)


def test_feed(odd_file: Path) -> None:
    error = in_time(lambda: read_npy(str(odd_file)))
    assert isinstance(error, GlowError)
    assert str(error) == f"input file {odd_file}: cannot be read: Not a regular file"


def test_command(odd_file: Path) -> None:
    path = renamed(odd_file, ".onnx")
    message: list[str] = []
    assert in_time(lambda: message.append(fails("run", path))) is None
    assert "Not a regular file" in message[0]
    dense = write_dense(odd_file.parent)
    assert in_time(lambda: message.append(fails("run", dense, "--input", path))) is None
    assert "Not a regular file" in message[1]


def test_cached_object_is_made_anew(odd_file: Path) -> None:
    cache = ObjectCache(odd_file.parent / "cache")
    path = cache.path("kernel", "key")
    assert path is not None
    path.parent.mkdir()
    odd_file.rename(path)
    loaded: list[object] = []
    assert in_time(lambda: loaded.append(cache.load("kernel", "key"))) is None
    assert loaded == [None]


def test_links_to_regular_files_are_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    assert read_text(tmp_path / "link") == "text"


def test_folder_is_called_one(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)


def test_array_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3))
    assert read_npy(str(tmp_path / "x.npy")).tolist() == [0, 1, 2]


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "net.glow"
    path.write_bytes(b"\xef\xbb\xbf" + "text \u00e9".encode())
    assert read_text(path) == "text \u00e9"
