"""SHA-256 of files, computed once for each content: a note tells what a file had when it was read.

To read 400 MB takes a quarter of a second, to ask the system about a file a microsecond. A note
holds for a file whose device, number, size and times are what they were. The time of the last
change cannot be set by a program; a file that was changed within seconds of being read may change
again in the same tick of the clock, so no note is trusted that was written so early.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from glow_nb.system.cache_folder import put_whole, remove_oldest
from glow_nb.system.regular_files import open_regular
from glow_nb.system.sha256 import sha256

SETTLED_NS = 2_000_000_000
"""A file that has not changed for so long before it was read is distinguished from later contents;
FAT has ticks of this length, other file systems shorter ones."""

MOST_NOTES = 1000
"""A note that is gone costs reading its files once more."""

_NOTE = ".digests"
_CHUNK_BYTES = 1 << 22


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of the regular file *path*; raise OSError if it cannot be read."""
    import hashlib  # the fast one, for what is large

    digest, chunk = hashlib.sha256(), memoryview(bytearray(_CHUNK_BYTES))
    with open_regular(path) as stream:
        while count := stream.readinto(chunk):  # type: ignore[attr-defined]
            digest.update(chunk[:count])
    return digest.hexdigest()


class FileDigests:
    """The digests of files, with notes in a folder; without one, files are read each time."""

    def __init__(self, folder: Path | None) -> None:
        """Keep notes in *folder*."""
        self.folder = folder

    def of(self, paths: Sequence[Path], *, again: bool = False) -> list[str]:
        """Return the digest of each of *paths*, which have one note together.

        With *again*, all are read, whatever the note says.

        Raises:
            OSError: A file cannot be read.
        """
        note = self._note_of(paths)
        known = {} if again else _known(note)
        began, stamps = time.time_ns(), [_stamp(path) for path in paths]
        digests = [
            known.get(stamp) or digest_of_file(path)
            for path, stamp in zip(paths, stamps, strict=True)
        ]
        settled = {
            stamp: digest
            for stamp, digest in zip(stamps, digests, strict=True)
            if began - max(stamp[-2:]) > SETTLED_NS
        }
        if note is not None and not settled.keys() <= known.keys():
            with suppress(OSError):  # a note is of no importance
                put_whole(note, json.dumps(list(settled.items())).encode())
        return digests

    def trim(self) -> None:
        """Remove the notes that were written longest ago, all but :data:`MOST_NOTES`."""
        if self.folder is not None:
            remove_oldest(self.folder, _NOTE, MOST_NOTES)

    def _note_of(self, paths: Sequence[Path]) -> Path | None:
        """Return where the note of *paths* is."""
        if self.folder is None:
            return None
        names = "\0".join(map(os.path.abspath, paths))
        return self.folder / f"{sha256(os.fsencode(names)).hexdigest()[:32]}{_NOTE}"


Stamp = tuple[int, ...]
"""Device, number, size and the times of the last writing and the last change."""


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    return (
        *(status.st_dev, status.st_ino, status.st_size),
        *(status.st_mtime_ns, status.st_ctime_ns),
    )


def _known(note: Path | None) -> dict[Stamp, str]:
    """Return what *note* says; nothing if it cannot be read."""
    if note is None:
        return {}
    with suppress(OSError, ValueError, TypeError):
        with open_regular(note) as stream:
            return {tuple(stamp): str(digest) for stamp, digest in json.load(stream)}
    return {}
