"""A file that is no model, or half of one, gives one error of ours with its path and the remedy."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.formats.onnx.importer.whole import whole_model
from tests.unit.formats.onnx.importer.complaints import complaint
from tests.unit.formats.onnx.importer.models import FLOAT, one, weight


def test_missing_file_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "nothing.onnx")
    assert complaint(path) == f"{path}: cannot be read: No such file or directory; check the path"


def test_directory_is_no_model(tmp_path: Path) -> None:
    assert "it is a folder" in complaint(tmp_path)


def test_empty_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "empty.onnx"
    path.write_bytes(b"")
    expected = "it is empty, not an ONNX model; export or download it again"
    assert complaint(path) == f"{path}: {expected}"


@pytest.mark.parametrize("large", [False, True])
def test_truncated_file_never_imports(tmp_path: Path, large: bool) -> None:
    numbers = np.ones((3, 1000 if large else 3), np.float32)
    whole = one("MatMul", ("x", "w"), weights=[weight("w", numbers)]).SerializeToString()
    path = tmp_path / "cut.onnx"
    for length in range(1, len(whole), max(len(whole) // 97, 1)):
        path.write_bytes(whole[:length])
        assert str(path) in complaint(path)


def test_random_bytes_are_no_model() -> None:
    source = random.Random(7)
    for length in [1, 2, 5, 17, 100, 5000] * 20:
        assert "<model>" in complaint(source.randbytes(length))


def test_text_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "readme.onnx"
    path.write_text("This is not a model.\n")
    assert "not an ONNX model" in complaint(path)


def external(location: str, **entries: str) -> onnx.ModelProto:
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    for key, text in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=text)
    return one("Add", ("x", "w"), weights=[tensor])  # type: ignore[no-any-return]


def test_external_data_is_read(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"skip" + np.array([1, 2, 3], "<f4").tobytes())
    onnx_path = tmp_path / "m.onnx"
    onnx_path.write_bytes(external("w.bin", offset="4", length="12").SerializeToString())
    (constant,) = import_onnx(onnx_path).constants
    assert constant.array.reshape(-1).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({"location": "none.bin"}, "cannot be read from 'none.bin': No such file or directory"),
        ({"location": "short.bin"}, "it has 8 bytes of data"),
        ({"location": "short.bin", "length": "12"}, "the file may be truncated"),
        ({"location": "short.bin", "offset": "1" * 19, "length": "12"}, "may be truncated"),
        ({"location": "short.bin", "offset": "-4"}, "is '-4', not a number"),
        ({"location": "../secret"}, "not a file in the model's folder"),
        ({"location": "/etc/hostname"}, "not a file in the model's folder"),
        ({"location": "link"}, "a link leads out of the model's folder"),
        ({"location": "out/secret"}, "a link leads out of the model's folder"),
        ({"location": "."}, "not a file in the model's folder"),
        ({"location": "a\0b"}, "not a file in the model's folder"),
        ({"location": ""}, "not a file in the model's folder"),
    ],
)
def test_bad_external_data(tmp_path: Path, entries: dict[str, str], expected: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"0" * 12)
    (folder / "short.bin").write_bytes(b"0" * 8)
    os.symlink(tmp_path / "secret", folder / "link")
    os.symlink(tmp_path, folder / "out")
    path = folder / "m.onnx"
    path.write_bytes(external(**entries).SerializeToString())
    message = complaint(path)
    assert f"{path}: weight 'w'" in message
    assert expected in message


def test_external_data_needs_a_path() -> None:
    assert "import the model by its path" in complaint(external("w.bin").SerializeToString())


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """Return the folder of a model as in the cache of a hub: its file is a link to ``blobs``."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "main"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "a1").write_bytes(external("m.data").SerializeToString())
    (tmp_path / "secret").write_bytes(np.ones(3, "<f4").tobytes())
    os.symlink("../../blobs/a1", snapshot / "m.onnx")
    return snapshot


def write_blob(hub: Path, name: str) -> None:
    (hub.parents[1] / "blobs" / name).write_bytes(np.array([1, 2, 3], "<f4").tobytes())


def numbers_in(model: Path) -> list[float]:
    (constant,) = import_onnx(model).constants
    return list(constant.array.reshape(-1).tolist())


def test_model_and_data_may_be_links_into_one_folder(hub: Path) -> None:
    write_blob(hub, "b2")
    os.symlink("../../blobs/b2", hub / "m.data")
    assert numbers_in(hub / "m.onnx") == [1, 2, 3]


def test_data_may_lie_where_the_link_to_the_model_leads(hub: Path) -> None:
    write_blob(hub, "m.data")
    assert numbers_in(hub / "m.onnx") == [1, 2, 3]


def test_data_beside_the_link_to_the_model_come_first(hub: Path) -> None:
    write_blob(hub, "m.data")
    (hub / "m.data").write_bytes(np.array([4, 5, 6], "<f4").tobytes())
    assert numbers_in(hub / "m.onnx") == [4, 5, 6]


def test_link_of_data_that_leads_elsewhere_is_refused(hub: Path) -> None:
    os.symlink("../../secret", hub / "m.data")
    assert "'m.data', where a link leads out of the model's folder" in complaint(hub / "m.onnx")


@pytest.mark.parametrize("location", ["../../blobs/b2", "../../secret", "../secret"])
def test_name_of_data_that_leads_elsewhere_is_refused(hub: Path, location: str) -> None:
    write_blob(hub, "b2")
    (hub.parents[1] / "blobs" / "a1").write_bytes(external(location).SerializeToString())
    assert "not a file in the model's folder" in complaint(hub / "m.onnx")


def test_folder_of_the_model_may_be_a_link(hub: Path) -> None:
    (hub / "m.data").write_bytes(np.array([4, 5, 6], "<f4").tobytes())
    os.symlink(hub, hub.parent / "latest")
    assert numbers_in(hub.parent / "latest" / "m.onnx") == [4, 5, 6]


def test_model_with_linked_data_is_had_as_one_message(hub: Path) -> None:
    write_blob(hub, "b2")
    os.symlink("../../blobs/b2", hub / "m.data")
    (tensor,) = whole_model(str(hub / "m.onnx")).graph.initializer
    assert numpy_helper.to_array(tensor).tolist() == [1, 2, 3]


def test_large_weights_of_the_file_itself_are_in_the_message(tmp_path: Path) -> None:
    numbers = np.arange(5000, dtype=np.float32)
    model = one("Add", ("x", "w"), weights=[weight("w", numbers)])
    onnx.save(model, tmp_path / "m.onnx")
    assert whole_model(str(tmp_path / "m.onnx")) == model
