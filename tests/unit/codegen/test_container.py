"""Pieces of data in one: what is read is what was written, and anything else is refused."""

import hashlib
import json
import struct
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import CompileError
from glow_nb.codegen.container import read_container, write_container

PIECES = {"first": bytes(range(128)), "empty": b"", "last": b"abc"}
WRITTEN = write_container({"said": "a text, ünïcode"}, PIECES)


def sealed(header: Any, data: bytes) -> bytes:
    """Return a container with *header*, as it is or as JSON, before *data* and the checksum."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    content = struct.pack("<Q", len(text)) + text + data
    return content + hashlib.sha256(content).digest()


def piece(first: Any, last: Any, **changes: Any) -> dict[str, Any]:
    return {"dtype": "U8", "shape": [last - first], "data_offsets": [first, last]} | changes


def test_what_was_written_is_read() -> None:
    texts, pieces = read_container(WRITTEN)
    assert texts == {"said": "a text, ünïcode"}
    assert {name: bytes(each) for name, each in pieces.items()} == PIECES


def test_layout_is_that_of_safetensors() -> None:
    (length,) = struct.unpack_from("<Q", WRITTEN)
    header = json.loads(WRITTEN[8 : 8 + length])
    assert header.pop("__metadata__") == {"said": "a text, ünïcode"}
    position = 0
    for entry in header.values():
        first, last = entry["data_offsets"]
        assert (first, entry["dtype"], entry["shape"]) == (position, "U8", [last - first])
        position = last
    assert 8 + length + position == len(WRITTEN)


def test_first_piece_is_aligned_and_memory_is_written_like_bytes() -> None:
    (length,) = struct.unpack_from("<Q", WRITTEN)
    assert (8 + length) % 64 == 0
    memory = np.frombuffer(PIECES["first"], np.uint8).data
    assert write_container({"said": "a text, ünïcode"}, PIECES | {"first": memory}) == WRITTEN


def test_any_changed_byte_and_any_length_is_noticed() -> None:
    for place in range(len(WRITTEN)):
        changed = bytearray(WRITTEN)
        changed[place] ^= 0x10
        with pytest.raises(CompileError, match="checksum"):
            read_container(changed)
    for length in range(len(WRITTEN)):
        with pytest.raises(CompileError, match="damaged or cut off"):
            read_container(WRITTEN[:length])


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{", "not that of safetensors"),
        (b"\xff\xfe", "not that of safetensors"),
        (b"[" * 100_000, "not that of safetensors"),
        ([], "not that of safetensors"),
        ({}, "__metadata__"),
        ({"__metadata__": {"a": 1}}, "1 is no text"),
        ({"__metadata__": {}, "sha256": 3}, "not that of safetensors"),
        ({"__metadata__": {}, "sha256": piece(0, 3, dtype="F32")}, "no piece of bytes"),
        ({"__metadata__": {}, "sha256": piece(0.0, 3.0)}, "no whole numbers"),
        ({"__metadata__": {}, "a": piece(0, 3)}, "3 bytes of pieces and checksum, 35 bytes"),
        ({"__metadata__": {}, "a": piece(1, 3), "sha256": piece(3, 35)}, "not at 0"),
        ({"__metadata__": {}, "a": piece(0, -3), "sha256": piece(3, 35)}, "'a' lies at 0 to -3"),
        ({"__metadata__": {}, "a": piece(0, 9), "sha256": piece(3, 35)}, "not at 9"),
        ({"__metadata__": {}, "sha256": piece(0, 32), "a": piece(32, 35)}, "35 bytes of data"),
    ],
)
def test_headers_that_were_made_up(header: Any, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        read_container(sealed(header, b"abc"))


def test_header_longer_than_all() -> None:
    content = struct.pack("<Q", 2**63) + b"{}"
    with pytest.raises(CompileError, match="a header of 9223372036854775808 bytes in 42 bytes"):
        read_container(content + hashlib.sha256(content).digest())
