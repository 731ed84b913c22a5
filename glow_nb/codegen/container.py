"""Named pieces of binary data in one, in the layout of safetensors, with a checksum.

Eight bytes hold the length of a header in JSON, the least significant byte first. The header says
of each piece where it lies after the header, and under ``__metadata__`` it has texts by name. The
pieces follow each other without a gap; each is a tensor of bytes to other readers of the format.
The last one is a SHA-256 of all before it. Nothing that is read is trusted before it was checked,
and no code is run.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
from collections.abc import Mapping
from typing import Any

from glow_nb.base.alignment import ALIGNMENT
from glow_nb.base.errors import CompileError

METADATA = "__metadata__"
DIGEST = "sha256"
DIGEST_BYTES = 32

_LENGTH = struct.Struct("<Q")


def write_container(texts: Mapping[str, str], pieces: Mapping[str, bytes | memoryview]) -> bytes:
    """Return *texts* and *pieces*; the first piece begins at a multiple of 64 bytes."""
    views = {name: memoryview(piece) for name, piece in pieces.items()}
    sizes = {name: view.nbytes for name, view in views.items()} | {DIGEST: DIGEST_BYTES}
    ends = list(itertools.accumulate(sizes.values()))
    header: dict[str, Any] = {METADATA: dict(texts)}
    for (name, size), end in zip(sizes.items(), ends, strict=True):
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [end - size, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(_LENGTH.size + len(text)) % ALIGNMENT)
    parts: list[bytes | memoryview] = [_LENGTH.pack(len(text)), text, *views.values()]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return b"".join([*parts, digest.digest()])


def read_container(
    content: bytes | bytearray | memoryview,
) -> tuple[dict[str, str], dict[str, memoryview]]:
    """Return the texts and the pieces of *content*, which they lie in, by name.

    Raises:
        CompileError: The content is damaged, or not of this layout.
    """
    try:
        view = memoryview(content).cast("B")
    except TypeError as error:
        raise CompileError(
            f"{type(content).__name__} is not bytes that lie side by side ({error}); give what "
            "to_bytes returned"
        ) from error
    end = view.nbytes - DIGEST_BYTES
    if end < _LENGTH.size or hashlib.sha256(view[:end]).digest() != view[end:]:
        raise CompileError(
            f"{view.nbytes} bytes that are damaged or cut off: their checksum is wrong; make or "
            "copy them again"
        )
    length: int = _LENGTH.unpack_from(view)[0]
    begin = _LENGTH.size + length
    if begin > end:
        raise CompileError(f"a header of {length} bytes in {view.nbytes} bytes")
    try:
        header = json.loads(bytes(view[_LENGTH.size : begin]))
        texts = {name: _text(value) for name, value in header.pop(METADATA).items()}
        places = {name: _place(entry) for name, entry in header.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CompileError(f"a header that is not that of safetensors: {error}") from error
    _check_tiled(places, view.nbytes - begin)
    del places[DIGEST]
    pieces = {name: view[begin + first : begin + last] for name, (first, last) in places.items()}
    return texts, pieces


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _place(entry: Any) -> tuple[int, int]:
    """Return where a piece begins and ends; raise ValueError for what is none."""
    first, last = entry["data_offsets"]
    if (type(first), type(last)) != (int, int):
        raise ValueError(f"offsets {first!r:.40} and {last!r:.40} are no whole numbers")
    if (entry["dtype"], entry["shape"]) != ("U8", [last - first]):
        raise ValueError(f"{entry!r:.100} is no piece of bytes")
    return first, last


def _check_tiled(places: Mapping[str, tuple[int, int]], size: int) -> None:
    """Raise CompileError unless the pieces follow each other and the checksum is the last."""
    position = 0
    for name, (first, last) in sorted(places.items(), key=lambda place: place[1]):
        if first != position or last < first:
            raise CompileError(f"piece {name!r:.80} lies at {first} to {last}, not at {position}")
        position = last
    if places.get(DIGEST) != (size - DIGEST_BYTES, size):
        raise CompileError(f"{position} bytes of pieces and checksum, {size} bytes of data")
