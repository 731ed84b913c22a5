"""The table of sections of a shared object: the loader needs none, debuggers and profilers do."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PROGRAM_BITS, STRINGS, HASHES, DYNAMIC, SYMBOLS = 1, 3, 5, 6, 11
WRITTEN, MAPPED, EXECUTED = 1, 2, 4
_ALIGNMENT = 8
_HEADER = struct.Struct("<IIQQQQIIQQ")
_TABLE_PLACE, _COUNTS_PLACE = 40, 58
"""Where the header of the file says where the table is, and how large."""


@dataclass(frozen=True)
class MappedSection:
    """A part of the file that is mapped at an address that is its offset in the file.

    Attributes:
        name: The name.
        kind: The type of its contents.
        flags: The flags of the mapping.
        place: Its offset.
        size_bytes: Its size in bytes.
        link: For a table: the number of the section that it refers to.
        info: For a table of symbols: the number of the first global one.
        entry_bytes: For a table: the size of an entry.
    """

    name: str
    kind: int
    flags: int
    place: int
    size_bytes: int
    link: int = 0
    info: int = 0
    entry_bytes: int = 0


def with_sections(
    file: bytes, mapped: Sequence[MappedSection], others: Mapping[str, bytes]
) -> bytes:
    """Return the shared object *file* with a table of its sections, which are numbered from 1.

    First come the *mapped* ones, then the *others*, whose content is appended to the file.
    """
    result = bytearray(file)
    rows = [
        (m.kind, m.flags, m.place, m.place, m.size_bytes, m.link, m.info, 1, m.entry_bytes)
        for m in mapped
    ]
    names = [m.name for m in mapped] + [*others, ".shstrtab"]
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in names)
    contents = [*((PROGRAM_BITS, content) for content in others.values()), (STRINGS, strings)]
    for kind, content in contents:
        result += bytes(-len(result) % _ALIGNMENT)
        rows.append((kind, 0, 0, len(result), len(content), 0, 0, 1, 0))
        result += content
    result += bytes(-len(result) % _ALIGNMENT)
    table, name_place = len(result), 1
    result += bytes(_HEADER.size)  # section 0 is none
    for name, row in zip(names, rows, strict=True):
        result += _HEADER.pack(name_place, *row)
        name_place += len(name.encode()) + 1
    struct.pack_into("<Q", result, _TABLE_PLACE, table)
    struct.pack_into("<HHH", result, _COUNTS_PLACE, _HEADER.size, len(rows) + 1, len(rows))
    return bytes(result)
