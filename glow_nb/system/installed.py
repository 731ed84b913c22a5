"""The installed versions of packages, from the names of their folders.

``importlib.metadata`` reads the whole description of a package, and takes longer to import than
that.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from glow_nb.system.sha256 import sha256

_DESCRIPTION = re.compile(r"([A-Za-z0-9_.]+)-([^-]+)\.dist-info")


@functools.cache
def installed_versions() -> dict[str, str]:
    """Return the version of each installed package by its name in lower case."""
    versions: dict[str, str] = {}
    for folder in sys.path:
        with suppress(OSError):
            for match in map(_DESCRIPTION.fullmatch, os.listdir(folder or ".")):
                if match:
                    versions.setdefault(match[1].lower(), match[2])
    return versions


def identity_of_package(package: Path) -> str:
    """Return a hash that differs if the source of *package* does.

    An installed package has a list of its files with their sums. Of one that is run where it is
    written, sizes and times of the files tell.
    """
    for record in package.parent.glob(f"{package.name}-*.dist-info/RECORD"):
        with suppress(OSError):
            return sha256(record.read_bytes()).hexdigest()
    digest = sha256()
    for path, size, time in sorted(_sources(os.fspath(package))):
        digest.update(f"{path} {size} {time}\n".encode())
    return digest.hexdigest()


def _sources(folder: str) -> Iterator[tuple[str, int, int]]:
    """Yield path, size and time of each source file below *folder*."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns
            elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                yield from _sources(entry.path)
