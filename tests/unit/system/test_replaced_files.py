"""Files and folders are on the disk before they get their names.

No test cuts the power: what is asked of the system is looked at. Elsewhere in the tests it is not
asked, as it waits for the disk (``tests/conftest.py``).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from glow_nb.system import replaced_folders
from glow_nb.system.replaced_files import replace_file
from glow_nb.system.replaced_folders import new_folder


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Return the numbers of the files that have been sent to the disk."""
    found: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda number: found.add(os.fstat(number).st_ino))
    return found


def number_of(path: Path) -> int:
    return path.stat().st_ino


def test_a_file_is_on_the_disk_before_it_gets_its_name(
    tmp_path: Path, synced: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, replace = [], os.replace

    def watched(old: Path, new: Path) -> None:
        assert number_of(old) in synced and old.read_bytes() == b"new"
        moved.append(new)
        replace(old, new)

    monkeypatch.setattr(os, "replace", watched)
    path = tmp_path / "file"
    path.write_bytes(b"old")
    replace_file(path, lambda place: place.write_bytes(b"new"))
    assert moved == [path] and path.read_bytes() == b"new"


@pytest.mark.parametrize("is_there", [False, True])
def test_a_folder_is_on_the_disk_with_all_that_is_in_it_before_it_gets_its_name(
    tmp_path: Path, synced: set[int], monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    moved, move = [], replaced_folders._move

    def watched(new: Path, place: Path) -> None:
        assert {number_of(path) for path in (new, *new.rglob("*"))} <= synced
        moved.append(place)
        move(new, place)

    monkeypatch.setattr(replaced_folders, "_move", watched)
    place = tmp_path / "net"
    if is_there:
        place.mkdir()
    with new_folder(place, lambda _: True, "a network") as new:
        (new / "inside").mkdir()
        (new / "inside" / "file").write_bytes(b"new")
        (new / "other").write_bytes(b"")
    assert moved == [place] and (place / "inside" / "file").read_bytes() == b"new"
