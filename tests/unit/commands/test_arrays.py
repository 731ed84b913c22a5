"""Arrays between files and networks."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from glow_nb.base.errors import GlowError, OptionError
from glow_nb.base.random_arrays import random_array
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.commands.arrays import (
    assign_inputs,
    member_names,
    read_npy,
    save_npz,
)
from tests.unit.commands.samples import save_array


def test_reads_what_numpy_saves(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    np.testing.assert_array_equal(read_npy(str(save_array(tmp_path / "a.npy", array))), array)


def test_swaps_foreign_byte_order(tmp_path: Path) -> None:
    path = save_array(tmp_path / "a.npy", np.arange(3, dtype=">f4"))
    array = read_npy(str(path))
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, [0, 1, 2])


def test_reads_bfloat16_bits(tmp_path: Path) -> None:
    array = np.array([1.5, -2], ml_dtypes.bfloat16)
    loaded = read_npy(str(save_array(tmp_path / "a.npy", array.view("V2"))))
    assert loaded.dtype == array.dtype
    np.testing.assert_array_equal(loaded, array)


def test_scalars_and_empty_arrays(tmp_path: Path) -> None:
    assert read_npy(str(save_array(tmp_path / "a.npy", np.float32(3)))).shape == ()
    assert read_npy(str(save_array(tmp_path / "b.npy", np.empty((0, 4))))).shape == (0, 4)


def _pickled(path: Path) -> None:
    np.save(path, np.array([{"code": 1}], object), allow_pickle=True)


def _archive(path: Path) -> None:
    with path.open("wb") as stream:
        np.savez(stream, a=np.zeros(1))


def _larger_than_memory(path: Path) -> None:
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(
            stream, {"descr": "<f4", "fortran_order": False, "shape": (1 << 60,)}
        )


@pytest.mark.parametrize(
    "write",
    [
        _pickled,
        _archive,
        _larger_than_memory,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"no array"),
        lambda path: path.write_bytes(b"\x93NUMPY\x01\x00"),
        lambda path: path.write_bytes(b"PK\x03\x04 broken"),
        lambda path: path.mkdir(),
    ],
    ids=["pickle", "archive", "huge", "empty", "text", "cut", "zip", "folder"],
)
def test_refuses_what_is_no_array(tmp_path: Path, write: object) -> None:
    assert callable(write)
    path = tmp_path / "a.npy"
    write(path)
    with pytest.raises(OptionError, match="a.npy"):
        read_npy(str(path))


def test_missing_file_is_named() -> None:
    with pytest.raises(OptionError, match=r"nowhere.npy: cannot be read"):
        read_npy("nowhere.npy")


class TestAssignInputs:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return save_array(tmp_path / "a=b.npy", np.ones(2))

    def test_by_name(self, path: Path) -> None:
        assert list(assign_inputs([f"x={path}"], ["w", "x"])) == ["x"]

    def test_names_may_hold_equals(self, path: Path) -> None:
        assert list(assign_inputs([f"x=y={path}"], ["x", "x=y"])) == ["x=y"]

    def test_only_input_needs_no_name(self, path: Path) -> None:
        assert list(assign_inputs([str(path)], ["x"])) == ["x"]

    def test_several_inputs_need_names(self) -> None:
        with pytest.raises(OptionError, match="write NAME=FILE"):
            assign_inputs(["a.npy"], ["x", "y"])

    def test_unknown_name(self) -> None:
        with pytest.raises(OptionError, match="unknown input 'dat'.*did you mean 'data'"):
            assign_inputs(["dat=a.npy"], ["data"])

    @pytest.mark.parametrize("text", ["data=", ""])
    def test_no_file(self, text: str) -> None:
        with pytest.raises(OptionError, match=f"--input {text}: it names no file; write data="):
            assign_inputs([text], ["data"])

    def test_twice(self, path: Path) -> None:
        message = f"--input x=other.npy: input 'x' is given as {path}, too; leave one of them out"
        with pytest.raises(OptionError, match=re.escape(message)):
            assign_inputs([f"x={path}", "x=other.npy"], ["x"])


@pytest.mark.parametrize("kind", list(ElementKind))
def test_random_arrays_fit_their_type(kind: ElementKind) -> None:
    array = random_array(TensorType(kind, (50, 4)), np.random.default_rng(0))
    assert array.dtype == kind.dtype
    assert array.shape == (50, 4)
    assert len(np.unique(array.astype(np.float64))) >= 2
    again = random_array(TensorType(kind, (50, 4)), np.random.default_rng(0))
    np.testing.assert_array_equal(array, again)


def test_wide_integers_are_valid_indices() -> None:
    array = random_array(TensorType(ElementKind.INT64, (100,)), np.random.default_rng(0))
    assert set(array.tolist()) == {0, 1}


@pytest.mark.parametrize("name", ["prob", "gpu_0/softmax_1", "output:0", "file", "x.y-z", "arr_0"])
def test_plain_names_are_kept(name: str) -> None:
    assert member_names([name]) == {name: name}


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "/etc/passwd", "a/../../b", "a//b", "C:x", "a\\b", "ä", "a\nb", "x" * 300],
)
def test_other_names_become_positions(name: str) -> None:
    assert member_names(["first", name])[name] == "output_1"


def test_positions_do_not_collide() -> None:
    members = member_names(["..", "output_0", "/"])
    assert members == {"..": "output_0_", "output_0": "output_0", "/": "output_2"}


def test_saved_archive_loads(tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    arrays: dict[str, Array] = {
        "file": np.arange(3),
        "a/b": np.array(2, np.float32),
        "../x": np.ones(2, bool),
        "half": np.array([0.5], ml_dtypes.bfloat16),
    }
    save_npz(path, arrays)
    with np.load(path) as archive:
        assert sorted(archive) == ["a/b", "file", "half", "output_2"]
        np.testing.assert_array_equal(archive["file"], [0, 1, 2])
        assert archive["half"].dtype == np.float32
    assert all(".." not in name for name in zipfile.ZipFile(path).namelist())
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.npz"]


@pytest.mark.parametrize("place", ["", "missing/out.npz", "file.npz/out.npz", "folder.npz"])
def test_unwritable_place(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.npz").write_text("")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(GlowError):
        save_npz(Path(place), {"y": np.zeros(1)})
    assert {entry.name for entry in tmp_path.iterdir()} == {"file.npz", "folder.npz"}


def test_devices_are_not_replaced() -> None:
    with pytest.raises(GlowError, match="not a regular file"):
        save_npz(Path("/dev/null"), {"y": np.zeros(1)})
