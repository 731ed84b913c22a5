"""Reading the large weights of an ONNX file straight into arrays.

Protobuf would hold each weight three times: in the bytes of the file, in the parsed message and in
the copy that Python gets of it. This module walks the wire format of
``ModelProto.graph.initializer`` only, reads each large ``raw_data`` field into its own aligned
array, and leaves protobuf a skeleton without them.

The wire format (protobuf's "Encoding" page): a message is a run of fields; a field is a varint
``number << 3 | wire type`` and then a varint (type 0), 8 bytes (1), a varint length and that many
bytes (2), or 4 bytes (5).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np

from glow_nb.types import Array

_MODEL_GRAPH = 7
_GRAPH_INITIALIZER = 5
_TENSOR_RAW_DATA = 9
LARGE_BYTES = 4096
"""A weight of so many bytes is read apart from the message."""
_FIXED_BYTES = {1: 8, 5: 4}
_BYTES_FIELD = 2
_MAX_VARINT_BYTES = 10


class WireError(ValueError):
    """The bytes are not a protobuf message, or end early."""


@dataclass
class Skeleton:
    """A model without its large weights.

    Attributes:
        text: The serialized ``ModelProto`` whose large ``raw_data`` fields are left out.
        payloads: The bytes of those fields by index into ``graph.initializer``.
    """

    text: bytes
    payloads: dict[int, Array] = field(default_factory=dict)


def read_skeleton(stream: BinaryIO, size: int) -> Skeleton:
    """Split a serialized model of *size* bytes; raise WireError if it is malformed.

    A model that has its graph in several parts (protobuf would merge them) is read whole.
    """
    skeleton = Skeleton(b"")
    parts: list[bytes] = []
    graphs = 0
    for number, kind, begin, end in _fields(stream, size):
        if number == _MODEL_GRAPH and kind == _BYTES_FIELD:
            graphs += 1
            graph = _read_graph(stream, end, skeleton)
            parts += [_varint(number << 3 | kind), _varint(len(graph)), graph]
        else:
            parts.append(_copy(stream, begin, end))
    if graphs > 1:
        skeleton.payloads.clear()
        parts = [_copy(stream, 0, size)]
    skeleton.text = b"".join(parts)
    return skeleton


def _read_graph(stream: BinaryIO, end: int, skeleton: Skeleton) -> bytes:
    parts: list[bytes] = []
    index = 0
    for number, kind, begin, stop in _fields(stream, end):
        if number == _GRAPH_INITIALIZER and kind == _BYTES_FIELD:
            body_bytes = stop - stream.tell()
            if body_bytes >= LARGE_BYTES:
                tensor = _read_tensor(stream, stop, index, skeleton)
                parts += [_varint(number << 3 | kind), _varint(len(tensor)), tensor]
            else:
                parts.append(_copy(stream, begin, stop))
            index += 1
        else:
            parts.append(_copy(stream, begin, stop))
    return b"".join(parts)


def _read_tensor(stream: BinaryIO, end: int, index: int, skeleton: Skeleton) -> bytes:
    parts: list[bytes] = []
    for number, kind, begin, stop in _fields(stream, end):
        if number == _TENSOR_RAW_DATA and kind == _BYTES_FIELD:
            payload = np.empty(stop - stream.tell(), np.uint8)
            if stream.readinto(payload.data) != payload.nbytes:  # type: ignore[attr-defined]
                raise WireError("the file ends inside a weight")
            skeleton.payloads[index] = payload
        else:
            parts.append(_copy(stream, begin, stop))
    return b"".join(parts)


def _fields(stream: BinaryIO, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield ``(number, wire type, begin, end)`` of each field up to *end*.

    The stream stands at the field's content when the field is yielded.
    """
    position = stream.tell()
    while position < end:
        begin = position
        tag = _read_varint(stream)
        number, kind = tag >> 3, tag & 7
        if kind == _BYTES_FIELD:
            length = _read_varint(stream)
            position = stream.tell() + length
        elif kind == 0:
            _read_varint(stream)
            position = stream.tell()
        elif kind in _FIXED_BYTES:
            position = stream.tell() + _FIXED_BYTES[kind]
        else:
            raise WireError(f"unknown wire type {kind} at byte {begin}")
        if position > end or number == 0:
            raise WireError(f"the field at byte {begin} runs past the end of its message")
        yield number, kind, begin, position
        stream.seek(position)


def _read_varint(stream: BinaryIO) -> int:
    value = 0
    for place in range(_MAX_VARINT_BYTES):
        byte = stream.read(1)
        if not byte:
            raise WireError("the file ends inside a number")
        value |= (byte[0] & 0x7F) << 7 * place
        if byte[0] < 0x80:
            return value
    raise WireError("a number has more than ten bytes")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _copy(stream: BinaryIO, begin: int, end: int) -> bytes:
    stream.seek(begin)
    return stream.read(end - begin)
