"""IR text and the archive beside it are written and read as one."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from glow_nb.base.errors import GlowError, ModelError
from glow_nb.base.types import Array
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.network import files
from glow_nb.network.files import load_constants, load_text, save_text
from glow_nb.system.replaced_files import replace_file

SIZE = 1000
NUMBERS = np.random.default_rng(0).random(SIZE, np.float32)


def weighted(operator: type[ops.Add | ops.Mul], number: np.float32) -> Function:
    b = Builder()
    weights = b.constant("w", NUMBERS * number)
    b.save(b.emit(operator(b.input("x", f"float32<{SIZE}>"), weights)), "y")
    return b.function()


def result(path: Path) -> Array:
    function = load_text(path)
    assert isinstance(function, Function)
    return evaluate(function, {"x": np.ones(SIZE, np.float32)})["y"]


@pytest.mark.parametrize("full", ["constants", "text"])
def test_a_full_disk_leaves_text_and_constants_as_they_were(
    full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.glow"
    save_text(weighted(ops.Add, np.float32(1)), path)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if full == "constants":
        monkeypatch.setattr(files, "_save_constants", fail)
    else:
        monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(GlowError, match="cannot be written: No space left on device"):
        save_text(weighted(ops.Mul, np.float32(7)), path)
    np.testing.assert_array_equal(result(path), 1 + NUMBERS)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["net.glow", "net.npz"]


def test_an_archive_that_a_text_does_not_need_is_not_read(tmp_path: Path) -> None:
    b = Builder()
    b.save(b.emit(ops.Relu(b.input("x", f"float32<{SIZE}>"))), "y")
    save_text(b.function(), tmp_path / "net.glow")
    np.savez(tmp_path / "net.npz", samples=np.zeros(3))
    assert (result(tmp_path / "net.glow") == 1).all()


@pytest.mark.parametrize("content", [None, b"", b"samples"])
def test_another_archive_is_not_replaced(content: bytes | None, tmp_path: Path) -> None:
    archive = tmp_path / "net.npz"
    if content is None:
        np.savez(archive, samples=np.zeros(3))
    else:
        archive.write_bytes(content)
    before = archive.read_bytes()
    with pytest.raises(GlowError, match="not an archive of constants, which IR text keeps there"):
        save_text(weighted(ops.Add, np.float32(1)), tmp_path / "net.glow")
    assert archive.read_bytes() == before
    assert not (tmp_path / "net.glow").exists()


def test_constants_of_another_text_are_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "net.glow", tmp_path / "other.glow"
    save_text(weighted(ops.Add, np.float32(1)), path)
    save_text(weighted(ops.Add, np.float32(7)), other)
    other.with_suffix(".npz").replace(path.with_suffix(".npz"))
    with pytest.raises(
        ModelError, match=r"constants are \w{16}, but net\.npz has \w{16}: it belongs"
    ):
        load_text(path)
    path.write_text(path.read_text().partition("\n")[2])  # as an older version wrote it
    np.testing.assert_array_equal(result(path), 1 + 7 * NUMBERS)


def test_a_text_that_was_edited_keeps_its_constants(tmp_path: Path) -> None:
    path = tmp_path / "net.glow"
    save_text(weighted(ops.Add, np.float32(1)), path)
    path.write_text(path.read_text().replace("add", "mul"))
    np.testing.assert_array_equal(result(path), NUMBERS)


def test_the_file_that_a_link_leads_to_is_replaced(tmp_path: Path) -> None:
    held, link = tmp_path / "held.txt", tmp_path / "link.txt"
    held.write_text("old")
    link.symlink_to(held)
    replace_file(link, lambda place: place.write_text("new"))
    assert link.is_symlink()
    assert held.read_text() == "new"


def test_the_text_that_a_link_leads_to_keeps_its_constants(tmp_path: Path) -> None:
    (tmp_path / "v1").mkdir()
    held, link = tmp_path / "v1" / "net.glow", tmp_path / "latest.glow"
    save_text(weighted(ops.Add, np.float32(1)), held)
    link.symlink_to(held)
    save_text(weighted(ops.Add, np.float32(7)), link)
    for path in (held, link):
        np.testing.assert_array_equal(result(path), 1 + 7 * NUMBERS)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["latest.glow", "v1"]


def test_one_array_beside_a_text_is_no_archive(tmp_path: Path) -> None:
    with (tmp_path / "net.npz").open("wb") as stream:
        np.save(stream, np.zeros(3))
    with pytest.raises(ModelError, match="it holds one array; write the text again"):
        load_constants(tmp_path / "net.npz")
    with pytest.raises(ModelError, match=r"archive of constants: No such file") as caught:
        load_constants(tmp_path / "absent.npz")
    assert "Errno" not in str(caught.value)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "out" / "checkpoint"
    with pytest.raises(GlowError, match=r"there is no folder .*out; make it first"):
        replace_file(path, lambda place: place.write_bytes(b""))
