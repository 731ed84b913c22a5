"""The state of files when a model was loaded from them: another stamp means another model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Stamp:
    """The files of a model.

    Attributes:
        files: For each, where it is and what shows that it is another one; None if it is missing.
            A file that has the size and the time of the old one has another inode or change time.
    """

    files: Mapping[Path, tuple[int, ...] | None]

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Stamp:
        """Return the stamp of the files at *paths* now, or of those that links there lead to."""
        return cls({path: _state(path) for path in paths})

    def with_files(self, paths: Iterable[Path]) -> Stamp:
        """Return this stamp with those of *paths* now."""
        return Stamp({**Stamp.of(paths).files, **self.files})

    @property
    def is_current(self) -> bool:
        """Return whether none of the files has changed."""
        return self == Stamp.of(self.files)


def _state(path: Path) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # as a name with a zero byte
        return None
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
