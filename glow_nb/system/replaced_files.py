"""Files that are written as a whole: the old one stays until the new one is on the disk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from glow_nb.base.errors import GlowError
from glow_nb.system.temporary_files import temporary_beside

T = TypeVar("T")


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let *write* write a file beside *path*, and move it to *path*; see :func:`new_file`."""
    with new_file(path, write):
        pass


@contextlib.contextmanager
def new_file(path: Path, write: Callable[[Path], T]) -> Iterator[T]:
    """Let *write* write a file beside *path*; move it to *path* after the block, unless that
    raises.

    The block gets the result of *write*. If *path* is a link, the file that it leads to is
    replaced.

    The file is on the disk before it gets its name: a process that is killed, or a system that
    breaks down, leaves the old file or the new one, never a half one.

    Raises:
        GlowError: *path* is a folder or a device, or cannot be written.
    """
    _check_regular(path)
    path = Path(os.path.realpath(path))
    with _temporary_for(path) as temporary:
        try:
            made = write(temporary)
            with temporary.open("r+b") as stream:
                os.fsync(stream.fileno())
        except OSError as error:
            raise _unwritable(path, error) from error
        yield made
        try:
            os.replace(temporary, path)
        except OSError as error:
            raise _unwritable(path, error) from error


@contextlib.contextmanager
def _temporary_for(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside *path*; raise GlowError if there can be none."""
    with contextlib.ExitStack() as files:
        try:
            temporary = files.enter_context(temporary_beside(path))
        except OSError as error:
            raise _unwritable(path, error) from error
        yield temporary


def _unwritable(path: Path, error: OSError) -> GlowError:
    """Return the error that says why *path* cannot be written."""
    if isinstance(error, FileNotFoundError) and not path.parent.exists():
        return GlowError(
            f"{path}: cannot be written: there is no folder {path.parent}; make it first"
        )
    return GlowError(f"{path}: cannot be written: {error.strerror}")


def check_writable(path: Path) -> None:
    """Raise the GlowError of :func:`replace_file` now if *path* could not be written later."""
    _check_regular(path)
    with _temporary_for(Path(os.path.realpath(path))):
        pass


def _check_regular(path: Path) -> None:
    if os.path.exists(path) and not os.path.isfile(path):
        raise GlowError(f"{path}: not a regular file; give the path of a new or existing file")
