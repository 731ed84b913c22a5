"""Digests of files: right after every change, and read once for each content."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from glow_nb.system import file_digests
from glow_nb.system.file_digests import SETTLED_NS, FileDigests

REAL = file_digests.digest_of_file


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the files that are read, and let them be changed long ago."""
    done: list[Path] = []

    def digest(path: Path) -> str:
        done.append(path)
        return REAL(path)

    now = time.time_ns
    monkeypatch.setattr(file_digests, "digest_of_file", digest)
    monkeypatch.setattr(time, "time_ns", lambda: now() + 2 * SETTLED_NS)
    return done


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_file_is_read_once(reads: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    for _ in range(3):
        assert FileDigests(tmp_path / "notes").of([path]) == [digest_of(b"content")]
    assert reads == [path]
    assert FileDigests(tmp_path / "notes").of([path], again=True) == [digest_of(b"content")]
    assert FileDigests(None).of([path]) == [digest_of(b"content")]
    assert len(reads) == 3


@pytest.mark.parametrize("keeps_time", [False, True])
def test_a_file_that_changed_is_read_again(
    reads: list[Path], tmp_path: Path, keeps_time: bool
) -> None:
    path, digests = tmp_path / "file", FileDigests(tmp_path / "notes")
    path.write_bytes(b"one")
    digests.of([path])
    before = path.stat()
    path.write_bytes(b"two")
    if keeps_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert digests.of([path]) == [digest_of(b"two")]


def test_a_file_that_was_just_written_is_not_trusted(tmp_path: Path) -> None:
    path, digests = tmp_path / "file", FileDigests(tmp_path / "notes")
    path.write_bytes(b"one")
    assert digests.of([path]) == [digest_of(b"one")]
    assert not (tmp_path / "notes").exists()


@pytest.mark.parametrize("note", [b"", b"{", b"[[1]]", b"[[[1, 2], 3]]", b"\xff", b"[[{}, 1]]"])
def test_a_damaged_note_is_ignored(reads: list[Path], tmp_path: Path, note: bytes) -> None:
    path, digests = tmp_path / "file", FileDigests(tmp_path / "notes")
    path.write_bytes(b"one")
    digests.of([path])
    (place,) = (tmp_path / "notes").iterdir()
    place.write_bytes(note)
    assert digests.of([path]) == [digest_of(b"one")]
    assert len(reads) == 2


def test_a_folder_that_cannot_be_written_is_no_error(reads: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    assert FileDigests(path / "notes").of([path]) == [digest_of(b"one")]
    with pytest.raises(FileNotFoundError):
        FileDigests(tmp_path / "notes").of([tmp_path / "absent"])
