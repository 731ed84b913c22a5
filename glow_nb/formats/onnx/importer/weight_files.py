"""Weights that stay in their file until their numbers are needed, and are not kept after that.

A compiler looks at a weight a few times and packs it once. Held in memory from the import to the
end of packing, all weights of a network would take their memory twice.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
import weakref
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from typing_extensions import override

from glow_nb.base.errors import ModelError
from glow_nb.base.payload import Recipe
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.system.regular_files import open_regular

MOST_OPEN_FILES = 64
"""Files of weights that this process keeps open. Weights in further ones are read at once: systems
let a process have 256 files or more, and a process may hold hundreds of models."""

LEAST_BYTES = 1 << 16
"""Smaller weights are read at once: passes look at their numbers."""


MOST_SUMMED_BYTES = 1 << 28
"""The checksums of this number of bytes of a file's weights are known before they are needed."""

_CHUNK_BYTES = 1 << 20


class WeightFile:
    """A file of weights, which must not change as long as something reads it.

    A file of the same name that takes its place does no harm to one that stays open, nor does a new
    time of the file with the old content: the checksums of weights that are known tell that.

    Attributes:
        stays: Whether it stays open, so that weights in it need not be read at once.
    """

    def __init__(self, path: str) -> None:
        """Open the regular file at *path*; raise OSError if that is not possible."""
        self._path = path
        self._lock = threading.Lock()
        self._stream: BinaryIO | None = None
        self._sums: dict[range, int] = {}
        self._summed_bytes = 0
        with contextlib.ExitStack() as files:
            stream = files.enter_context(open_regular(path))
            self._stamp = _stamp_of(stream)
            self.stays = len(_OPEN) < MOST_OPEN_FILES
            if self.stays:
                files.pop_all()
                self._stream = stream
                weakref.finalize(self, stream.close)
                _OPEN.add(self)

    @property
    def size_bytes(self) -> int:
        """Its size when it was opened."""
        return self._stamp[0]

    @contextlib.contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Yield the open file; reading weights may move its position."""
        if self._stream is not None:
            yield self._stream
            return
        with open_regular(self._path) as stream:
            yield stream

    def will_read(self, part: range) -> None:
        """Take the checksum of *part*, if not too much of the file was read for that."""
        if part in self._sums or self._summed_bytes + len(part) > MOST_SUMMED_BYTES:
            return
        self._summed_bytes += len(part)
        total, chunk = 0, np.empty(min(len(part), _CHUNK_BYTES), np.uint8)
        try:
            with self.opened() as stream:
                for begin in range(part.start, part.stop, _CHUNK_BYTES):
                    place = chunk.data[: part.stop - begin]
                    count = self._read_into(stream, place, begin)
                    total = zlib.crc32(place[:count], total)
                if _stamp_of(stream) == self._stamp:
                    self._sums[part] = total
        except OSError:  # which is reported when it is read
            return

    def read(self, part: range) -> Array:
        """Return the bytes of *part*.

        Raises:
            ModelError: The file has changed since it was opened, or cannot be read.
        """
        content, name = np.empty(len(part), np.uint8), os.path.basename(self._path)
        try:
            with self.opened() as stream:
                count = self._read_into(stream, content.data, part.start)
                has_changed = self._has_changed(stream, part, content)
        except OSError as error:
            raise ModelError(f"{name}: cannot be read: {error.strerror}") from error
        if has_changed or count != len(part):
            raise ModelError(
                f"{name}: the file has changed since the model was loaded, so that its "
                "weights are lost; load the model again, and replace files by renaming a new one"
            )
        return content

    def _has_changed(self, stream: BinaryIO, part: range, content: Array) -> bool:
        """Return whether *content*, just read, is not what *part* was when the file was opened."""
        *identity, time = _stamp_of(stream)
        *identity_before, time_before = self._stamp
        if identity != identity_before:
            return True
        if time == time_before:
            self._sums.setdefault(part, zlib.crc32(content.data))
            return False
        return self._sums.get(part) != zlib.crc32(content.data)

    def _read_into(self, stream: BinaryIO, place: memoryview, begin: int) -> int:
        """Fill *place* with what begins at *begin*; return how many bytes there were."""
        if hasattr(os, "preadv"):  # which has no position that threads and forks would share
            count, descriptor = 0, stream.fileno()
            while count < len(place):
                read = os.preadv(descriptor, [place[count:]], begin + count)
                if not read:
                    break
                count += read
            return count
        with self._lock:
            stream.seek(begin)
            return stream.readinto(place)  # type: ignore[attr-defined, no-any-return]


_OPEN: weakref.WeakSet[WeightFile] = weakref.WeakSet()
"""The files that stay open."""


def _stamp_of(stream: BinaryIO) -> tuple[int, ...]:
    """Return the size of a file and what it is known by, and last the time of its content."""
    status = os.fstat(stream.fileno())
    return status.st_size, status.st_dev, status.st_ino, status.st_mtime_ns


class WeightBytes:
    """A file of weights whose content was given as ``bytes``."""

    stays = True

    def __init__(self, content: bytes) -> None:
        """Take the *content*, which is not copied."""
        self._content = np.frombuffer(content, np.uint8)

    @property
    def size_bytes(self) -> int:
        """The size in bytes."""
        return self._content.nbytes

    @contextlib.contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Yield the content as a file."""
        yield io.BytesIO(self._content.data)

    def will_read(self, part: range) -> None:
        """Do nothing: the bytes stay the same."""

    def read(self, part: range) -> Array:
        """Return the bytes of *part*, aligned for any numbers."""
        return self._content[part.start : part.stop].copy()


@dataclass(frozen=True)
class StoredBytes:
    """Bytes of a file that have not been read."""

    file: WeightFile | WeightBytes
    part: range

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return len(self.part)

    def read(self) -> Array:
        """Return them; raise ModelError if the file has changed."""
        return self.file.read(self.part)


class StoredNumbers(Recipe):
    """The numbers of a weight in a file, read whenever they are needed.

    ``array`` is kept as long as it is referenced elsewhere.
    """

    def __init__(self, stored: StoredBytes, type: TensorType) -> None:
        """Take the bytes of a weight of *type*, whose size is the number of bytes."""
        self._stored, self.type = stored, type
        stored.file.will_read(stored.part)
        self._array: weakref.ref[Array] | None = None

    @override
    def make(self) -> Array:
        return as_numbers(self._stored.read(), self.type)

    @property
    @override
    def array(self) -> Array:
        known = None if self._array is None else self._array()
        if known is None:
            known = self.make()
            known.flags.writeable = False
            self._array = weakref.ref(known)
        return known

    @override
    def __reduce__(self) -> tuple[object, ...]:
        """Let another process have the numbers, which cannot read from this one's open file."""
        return np.asarray, (self.make(),)


def as_numbers(content: Array, type: TensorType) -> Array:
    """Return the bytes of a weight of *type*, as ONNX stores it, as numbers."""
    kind = type.kind
    if kind.bits < 8:
        return _unpacked(content, kind, type.size).reshape(type.shape)
    # ONNX stores little-endian numbers, whatever the machine.
    numbers = content.view(kind.dtype.newbyteorder("<"))
    return numbers.astype(kind.dtype, copy=False).reshape(type.shape)


def _unpacked(packed: Array, kind: ElementKind, count: int) -> Array:
    """Return elements of less than 8 bits, which ONNX stores lowest bits first, a byte each."""
    bits = np.unpackbits(packed, count=count * kind.bits, bitorder="little")
    codes = np.packbits(bits.reshape(count, kind.bits), axis=1, bitorder="little")
    return codes.view(kind.dtype)


class WeightFiles:
    """The files that hold the weights of one model, each opened once."""

    def __init__(self) -> None:
        """Have none open."""
        self._open: dict[str, WeightFile] = {}

    def open(self, path: str | Path) -> WeightFile:
        """Return the file at a real *path*; raise OSError if it cannot be read."""
        name = os.fspath(path)
        if name not in self._open:
            self._open[name] = WeightFile(name)
        return self._open[name]
