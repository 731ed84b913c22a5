"""Temporary files: what killed writers have left is removed, and nobody else's."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from glow_nb.system import temporary_files
from glow_nb.system.replaced_files import check_writable, replace_file
from glow_nb.system.temporary_files import temporary_beside
from tests.interrupts import interrupted_at_each_line

KILLED = """
import os, pathlib, sys
from glow_nb.system.temporary_files import temporary_beside
with temporary_beside(pathlib.Path(sys.argv[1])) as place:
    place.write_bytes(b"half")
    os._exit(9)
"""


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def dead_process() -> int:
    """Return the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_what_a_killed_writer_has_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert len(names(tmp_path)) == 1
    replace_file(path, lambda place: place.write_bytes(b"whole"))
    assert names(tmp_path) == ["checkpoint"]
    assert path.read_bytes() == b"whole"


def test_files_of_others_stay(tmp_path: Path) -> None:
    """Those of threads of this process, of other checkpoints, and of other names."""
    dead, is_over = dead_process(), threading.Event()
    thread = threading.Thread(target=is_over.wait)
    thread.start()
    kept = {
        f".checkpoint.{os.getpid()}.{thread.ident}",
        f".other.{dead}.1",
        f".checkpoint.{dead}.1.txt",
        f"checkpoint.{dead}.1",
    }
    for name in (*kept, f".checkpoint.{dead}.1"):
        (tmp_path / name).touch()
    check_writable(tmp_path / "checkpoint")
    is_over.set()
    thread.join()
    assert set(names(tmp_path)) == kept


def test_a_file_without_a_lock_is_left_whoever_has_the_number_of_its_writer(tmp_path: Path) -> None:
    """In a container each service is process 1: the number of a killed one is there again."""
    pytest.importorskip("fcntl")
    for process in (1, os.getppid()):
        (tmp_path / f".checkpoint.{process}.1").touch()
    check_writable(tmp_path / "checkpoint")
    assert names(tmp_path) == []


@pytest.mark.parametrize("has_none", ["module", "file_system"])
def test_without_locks_the_number_of_the_writer_decides(
    has_none: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_none == "module":
        monkeypatch.setattr(temporary_files, "fcntl", None)
    else:
        fcntl = pytest.importorskip("fcntl")
        monkeypatch.setattr(fcntl, "flock", no_locks)
    kept = f".checkpoint.{os.getppid()}.1"
    for name in (kept, f".checkpoint.{dead_process()}.1", f".checkpoint.{os.getpid()}.1"):
        (tmp_path / name).touch()
    check_writable(tmp_path / "checkpoint")
    assert names(tmp_path) == [kept]


def no_locks(*_: object) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


def test_a_file_that_somebody_holds_stays(tmp_path: Path) -> None:
    """A writer in another container has a number that says nothing here."""
    fcntl = pytest.importorskip("fcntl")
    held = tmp_path / f".checkpoint.{dead_process()}.1"
    with held.open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        check_writable(tmp_path / "checkpoint")
        assert held.exists()
    check_writable(tmp_path / "checkpoint")
    assert not held.exists()


def test_many_threads_save_one_file(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    faults: list[BaseException] = []

    def save(number: int) -> None:
        try:
            for _ in range(50):
                replace_file(path, lambda place: place.write_bytes(bytes([number]) * 1000))
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=save, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert names(tmp_path) == ["checkpoint"]
    assert len(set(path.read_bytes())) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # open files
def test_an_interrupted_writer_can_write_again(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"0")
    kept = []

    def save() -> None:
        try:
            replace_file(path, lambda place: place.write_bytes(b"1"))
        except KeyboardInterrupt as error:
            kept.append(error)  # with its open files
            raise

    for _ in interrupted_at_each_line(
        save,
        "glow_nb/network/files.py",
        "glow_nb/system/replaced_files.py",
        "glow_nb/system/temporary_files.py",
    ):
        assert path.read_bytes() in (b"0", b"1")
        replace_file(path, lambda place: place.write_bytes(b"0"))
    assert path.read_bytes() == b"1"
    assert names(tmp_path) == ["checkpoint"]
    kept.clear()
    gc.collect()  # the open files are gone here, not in a later test


def test_a_place_is_empty_and_its_own(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    with temporary_beside(path) as place:
        assert place.read_bytes() == b""
        assert place.parent == tmp_path
    assert names(tmp_path) == []
