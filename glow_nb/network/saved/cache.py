"""The cache of networks: folders by key, each written beside and moved there as a whole.

Several processes may look for a network, make it and remove it at the same time: who comes second
finds what is there, or throws its own away. The folder that was used longest ago goes first. What
is damaged is made again.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from glow_nb.base.errors import GlowError, ModelError
from glow_nb.network.saved.files import MANIFEST, SUMS, UnreadableError, check_sums
from glow_nb.network.saved.manifest import Manifest
from glow_nb.system.cache_folder import (
    default_folder,
    notes_folder,
    remove_oldest,
    say_that_nothing_is_kept,
    write_whole,
)
from glow_nb.system.file_digests import MOST_NOTES, FileDigests
from glow_nb.system.regular_files import read_text
from glow_nb.system.sha256 import sha256

LIMIT_BYTES = 4 << 30
"""What all networks together may take on the disk."""

SECONDS_OF_A_WRITER = 3600
"""No network takes so long to write: what is older was left by a process that was killed."""

_FOLDER, _NOTE = "networks", ".note"
_BEING_WRITTEN = "."
"""How the names of folders begin that are being written or removed."""


class KeptNetwork(NamedTuple):
    """A network in the cache.

    Attributes:
        key: Its key.
        path: Its folder.
        size_bytes: The size on disk.
        used: When it was used last, in seconds since 1970.
    """

    key: str
    path: Path
    size_bytes: int
    used: float


class NetworkCache:
    """Networks by key, in a folder; without one, nothing is kept.

    Attributes:
        folder: Where they are.
        digests: Tells the sums of files, with notes beside the networks.
        limit_bytes: The most bytes of all networks together.
    """

    def __init__(self, folder: Path | None = None, limit_bytes: int = LIMIT_BYTES) -> None:
        """Keep networks of *limit_bytes* together below *folder*, by default the user's."""
        place = default_folder() if folder is None else folder
        self.folder = None if place is None else place / _FOLDER
        self.digests = FileDigests(notes_folder() if folder is None else folder / "digests")
        self.limit_bytes = limit_bytes

    def find(self, key: str) -> Path | None:
        """Return the folder of the network *key*, None if there is none."""
        if self.folder is None:
            return None
        path = self.folder / key
        try:
            os.utime(path / SUMS)  # the time of use
        except FileNotFoundError:
            return None
        except OSError:  # a folder that may only be read
            return path if (path / SUMS).is_file() else None
        return path

    def note(self, name: str) -> Any:
        """Return what is noted as *name*; None if nothing is, or the note is damaged."""
        with suppress(OSError, ValueError):
            sum, _, text = read_text(self._note_file(name)).partition("\n")
            if sum == _sum_of(text):
                return json.loads(text)
        return None

    def write_note(self, name: str, content: object) -> None:
        """Note *content*, plain data, as *name*."""
        if self.folder is not None:
            text = json.dumps(content)
            write_whole(self._note_file(name), f"{_sum_of(text)}\n{text}".encode())

    def _note_file(self, name: str) -> Path:
        return (self.folder or Path()) / f"{name}{_NOTE}"

    def store(self, key: str, write: Callable[[Path], None]) -> None:
        """Let *write* fill an empty folder, and keep it as *key*.

        What another process has kept as *key* stays. What the disk does not take is no error; the
        first time in a process, a warning says so.
        """
        if self.folder is None or self._is_whole(key):
            return
        name = f"{_BEING_WRITTEN}{key}.{os.getpid()}.{threading.get_ident()}"
        place = self.folder / name
        try:
            place.mkdir(mode=0o700, parents=True)
            write(place)
            if _size_of(place) > self.limit_bytes:
                return
            with suppress(OSError):  # another process was faster
                place.rename(self.folder / key)
        except OSError as error:
            say_that_nothing_is_kept(self.folder, error.strerror or type(error).__name__)
        finally:
            _remove_tree(place)
        self.trim()

    def link(self, place: Path) -> bool:
        """Let *place* be the file of the same name of a kept network; return whether there is one.

        The name tells the content, and a file that does not have it is left alone.
        """
        for other in (path / place.name for path in self._paths()):
            with suppress(OSError):
                if other.is_file() and self.digests.of([other])[0][:40] in place.name:
                    os.link(other, place)
                    return True
        return False

    def _is_whole(self, key: str) -> bool:
        """Return whether the network *key* is there; remove it if it is damaged."""
        assert self.folder is not None
        if not (self.folder / key).exists():
            return False
        try:
            check_sums(self.folder / key, self.digests)
        except UnreadableError:
            return True  # as far as anybody knows
        except ModelError:
            self.remove(key)
            return False
        return True

    def remove(self, key: str) -> None:
        """Remove the network *key*; processes that have it mapped keep what they have."""
        if self.folder is None:
            return
        gone = self.folder / f"{_BEING_WRITTEN}{key}.{os.getpid()}.{time.monotonic_ns()}"
        with suppress(OSError):
            (self.folder / key).rename(gone)  # so that no process finds half of it
        _remove_tree(gone)

    def kept(self) -> list[KeptNetwork]:
        """Return what is in the cache, the one that was used last first."""
        found = list(self._kept())
        return sorted(found, key=lambda network: -network.used)

    def origin_of(self, key: str) -> str:
        """Return the model that the network *key* was made from; empty if it is not recorded."""
        with suppress(OSError, UnicodeDecodeError, GlowError):
            text = read_text((self.folder or Path()) / key / MANIFEST)
            return str(Manifest.from_text(text).made_from.get("model", ""))
        return ""

    def _kept(self) -> Iterator[KeptNetwork]:
        for path in self._paths():
            with suppress(OSError):
                used = (path / SUMS).stat().st_mtime
                yield KeptNetwork(path.name, path, _size_of(path), used)

    def _paths(self) -> list[Path]:
        """Return the folders of networks, those that are being written left out."""
        if self.folder is None:
            return []
        with suppress(OSError):
            return [
                path
                for path in self.folder.iterdir()
                if not path.name.startswith(_BEING_WRITTEN) and path.is_dir()
            ]
        return []

    def trim(self, limit_bytes: int | None = None) -> None:
        """Remove what was used longest ago until *limit_bytes* are left, by default the limit.

        Also what processes that were killed have left half-written, an hour ago or earlier.
        """
        limit = self.limit_bytes if limit_bytes is None else limit_bytes
        room = limit
        for network in self.kept():
            room -= network.size_bytes
            if room < 0:
                self.remove(network.key)
        self.digests.trim()
        self._remove_left()

    def _remove_left(self) -> None:
        if self.folder is None:
            return
        remove_oldest(self.folder, _NOTE, MOST_NOTES)
        with suppress(OSError):
            for path in self.folder.iterdir():
                age = time.time() - path.stat().st_mtime
                if path.name.startswith(_BEING_WRITTEN) and age > SECONDS_OF_A_WRITER:
                    _remove_tree(path)

    def clear(self) -> None:
        """Remove all networks and notes."""
        for network in self.kept():
            self.remove(network.key)
        if self.folder is not None:
            remove_oldest(self.folder, _NOTE, 0)
        if self.digests.folder is not None:
            _remove_tree(self.digests.folder)


def _sum_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _size_of(folder: Path) -> int:
    """Return the bytes of *folder*, of a file that it shares its part."""
    found = (file.stat() for file in folder.iterdir())
    return sum(file.st_size // file.st_nlink for file in found)


def _remove_tree(folder: Path) -> None:
    """Remove *folder* as far as that goes."""
    import shutil  # which finding a network does without

    shutil.rmtree(folder, ignore_errors=True)
