"""The folder in which kernels and networks are kept, and how a file gets there."""

from __future__ import annotations

import contextlib
import itertools
import os
import warnings
from pathlib import Path

from glow_nb.base.errors import GlowWarning

CACHE_VARIABLE = "GLOW_NB_CACHE_DIR"
PART = ".part"
"""What the name of a file that is being written ends with."""


def default_folder() -> Path | None:
    """Return ``GLOW_NB_CACHE_DIR`` or the user's cache folder; None if there is no such place."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(os.path.expanduser(chosen)).absolute()  # where no shell did it
    import platformdirs  # which the default alone needs

    folder = platformdirs.user_cache_path("glow_nb", appauthor=False)
    if folder.is_absolute():
        return folder
    say_that_nothing_is_kept(folder, "the user has no home folder")
    return None


def notes_folder() -> Path | None:
    """Return where notes of the sums of files are kept; None if there is no such place."""
    folder = default_folder()
    return None if folder is None else folder / "digests"


def write_whole(path: Path, content: bytes) -> bool:
    """Write a file that appears whole or not at all; return whether it did.

    What cannot be written is no error; the first time in a process, a warning says so.
    """
    try:
        put_whole(path, content)
    except OSError as error:
        say_that_nothing_is_kept(path.parent, error.strerror or type(error).__name__)
        return False
    return True


def put_whole(path: Path, content: bytes) -> None:
    """Do what :func:`write_whole` does; raise OSError for what cannot be written."""
    import tempfile

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=PART)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def remove_oldest(folder: Path, suffix: str, most: int) -> None:
    """Remove the files in *folder* with this *suffix*, and what killed writers left, but *most*."""
    with contextlib.suppress(OSError):
        found = [path for path in folder.iterdir() if path.suffix in {suffix, PART}]
        found.sort(key=lambda path: -path.stat().st_mtime_ns)
        for path in found[most:]:
            path.unlink(missing_ok=True)


_TIMES_REFUSED = itertools.count()
"""How often something was not kept; only the first time is reported."""


def say_that_nothing_is_kept(folder: Path, reason: str) -> None:
    """Warn, once in a process, that *folder* takes nothing for this *reason*."""
    if next(_TIMES_REFUSED) == 0:
        warnings.warn(
            f"cache folder {folder}: cannot be written: {reason}, so each process compiles "
            f"again; make room or give access, or set {CACHE_VARIABLE} to another folder",
            GlowWarning,
            stacklevel=2,
        )
