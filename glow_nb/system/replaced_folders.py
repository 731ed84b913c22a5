"""Folders that are written as a whole: the old one stays until the new one is on the disk."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

from glow_nb.base.errors import GlowError, OptionError
from glow_nb.system.temporary_files import temporary_folder_beside

_EXCHANGE, _WORKING_FOLDER = 2, -100
"""What Linux calls the exchange of two names, and the folder that relative paths begin at."""

_MOST_NAMED = 8
"""Files that an error names."""


@contextlib.contextmanager
def new_folder(place: Path, is_old: Callable[[Path], bool], what: str) -> Iterator[Path]:
    """Yield an empty folder that becomes *place* after the block, if that was left well.

    If the process is killed meanwhile, what was there stays; the next one for *place* removes what
    the killed one has left.

    Args:
        place: Where it is to be.
        is_old: Tells of a folder that is there and not empty whether it may be replaced; it may
            raise an OptionError of its own, as :func:`require_only` does.
        what: The kind of folder, for the error: "a saved network".

    Raises:
        OptionError: There is something else.
        GlowError: A file cannot be written.
    """
    place = Path(os.path.realpath(place))
    require_free(place, is_old, what)
    try:
        with temporary_folder_beside(place) as new:
            yield new
            _sync(new)
            _move(new, place)
    except OSError as error:
        raise GlowError(f"{place}: cannot be written: {error.strerror}") from error


def require_free(place: Path, is_old: Callable[[Path], bool], what: str) -> None:
    """Raise an error if no folder can be made at *place*, or it holds what may not be replaced.

    Raises:
        OptionError: There is something else, or it is the current folder.
        GlowError: There is no folder to make it in, or that cannot be written.
    """
    parent = Path(os.path.realpath(place)).parent
    if not parent.is_dir():
        raise GlowError(f"{place}: cannot be written: there is no folder {parent}; make it first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise GlowError(f"{place}: cannot be written: {parent} may not be written to")
    try:
        if not place.exists():
            return
        is_current = place.samefile(os.curdir)
    except OSError as error:
        raise GlowError(f"{place}: cannot be written: {error.strerror}") from error
    if is_current:
        raise OptionError(
            f"{place}: is the current folder, which would be replaced; give the path of a new one"
        )
    if not place.is_dir() or (any(place.iterdir()) and not is_old(place)):
        raise OptionError(
            f"{place}: is no folder with {what}, which would be replaced; give the path of a new "
            "folder"
        )


def require_only(folder: Path, known: Collection[str], what: str) -> None:
    """Raise OptionError if *folder*, which is *what*, has files that are not *known*."""
    others = sorted({path.name for path in folder.iterdir()}.difference(known))
    if others:
        more = f" and {len(others) - _MOST_NAMED} others" if len(others) > _MOST_NAMED else ""
        raise OptionError(
            f"{folder}: it would be replaced, but has files that are no part of {what}: "
            f"{', '.join(others[:_MOST_NAMED])}{more}; move that, or give the path of a new folder"
        )


def _sync(folder: Path) -> None:
    """Let *folder* and all files and folders in it reach the disk."""
    for path in (folder, *folder.rglob("*")):
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _move(new: Path, place: Path) -> None:
    """Give the folder *new* the name of *place*; what was there has that of *new* then."""
    if not place.exists():
        new.rename(place)
        return
    names = (os.fsencode(new), os.fsencode(place))
    with suppress(AttributeError):  # a C library without it
        rename = ctypes.CDLL(None, use_errno=True).renameat2
        if rename(_WORKING_FOLDER, names[0], _WORKING_FOLDER, names[1], _EXCHANGE) == 0:
            return
    old = new.with_name(f"{new.name}.old")
    place.rename(old)
    new.rename(place)
    old.rename(new)
