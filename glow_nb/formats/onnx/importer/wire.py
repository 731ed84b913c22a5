"""Leaving the large weights of an ONNX file where they are.

Protobuf would hold each weight three times: in the bytes of the file, in the parsed message and in
the copy that Python gets of it. This module walks the wire format and gives protobuf the message
without the large ``raw_data`` fields of its tensors. In their place stand entries of external data
that say where in the file they lie.

The wire format (protobuf's "Encoding" page): a message is a run of fields; a field is a varint
``number << 3 | wire type`` and then a varint (type 0), 8 bytes (1), a varint length and that many
bytes (2), or 4 bytes (5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import BinaryIO

import onnx

LARGE_BYTES = 4096
"""The least bytes of a tensor whose ``raw_data`` stay in the file."""

THIS_FILE = "\0"
"""The location, in an entry of external data, of the file that the message itself is in."""

_MESSAGES: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
"""The fields that hold tensors or lead to them, by the message that has them (``onnx.proto``)."""

_NUMBERS: Mapping[str, frozenset[int]] = {
    "attribute": frozenset({7, 8, 9}),
    "tensor": frozenset({4, 5, 6, 7, 10, 11}),
}
"""The lists of numbers and strings, by the message that has them.

A message with such a list has neither tensors nor raw data. An element may be a field of its own,
so that looking at each would take seconds for a million.
"""

_RAW_DATA, _DATA_LOCATION = 9, 14
_FIXED_BYTES = {1: 8, 5: 4}
_BYTES_FIELD = 2
_MAX_VARINT_BYTES = 10
_DEEPEST = 100
"""Protobuf reads no messages that are nested deeper."""


class WireError(ValueError):
    """The bytes are not a protobuf message, or end early."""


def read_skeleton(stream: BinaryIO, size: int) -> bytes:
    """Return a serialized model of *size* bytes without large weights; raise WireError if bad."""
    return _skeleton(stream, size, "model", 0)


def _skeleton(stream: BinaryIO, end: int, message: str, depth: int) -> bytes:
    """Return the message from where the stream stands to *end*."""
    if depth > _DEEPEST:
        raise WireError(f"messages are nested more than {_DEEPEST} deep")
    parts: list[bytes] = []
    for number, kind, begin, stop in _fields(stream, end):
        if number in _NUMBERS.get(message, ()):
            return b"".join([*parts, _copy(stream, begin, end)])
        inner = _MESSAGES[message].get(number) if kind == _BYTES_FIELD else None
        if inner is None or stop - stream.tell() < LARGE_BYTES:
            parts.append(_copy(stream, begin, stop))
            continue
        if inner == "tensor":
            content = _tensor(stream, stop)
        else:
            content = _skeleton(stream, stop, inner, depth + 1)
        parts += [_varint(number << 3 | kind), _varint(len(content)), content]
    return b"".join(parts)


def _tensor(stream: BinaryIO, end: int) -> bytes:
    """Return a tensor that says where its raw data are; one without, or that says so, as it is."""
    begin = stream.tell()
    parts: list[bytes] = []
    raw: range | None = None
    for number, kind, start, stop in _fields(stream, end):
        if number == _DATA_LOCATION or number in _NUMBERS["tensor"]:
            return _copy(stream, begin, end)
        if number == _RAW_DATA and kind == _BYTES_FIELD:
            raw = range(stream.tell(), stop)  # protobuf takes the last one, too
        else:
            parts.append(_copy(stream, start, stop))
    if raw is None:
        return b"".join(parts)
    place = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", THIS_FILE), ("offset", raw.start), ("length", len(raw))):
        place.external_data.add(key=key, value=str(value))
    return b"".join([*parts, place.SerializeToString()])


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
