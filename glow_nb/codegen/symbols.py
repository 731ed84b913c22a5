"""Which symbols an object file defines and needs, read from its ELF symbol table.

Needed because LLVM itself may add calls while it selects instructions (``expf`` for an ``exp``
without a hardware form, ``memset`` for a loop of zeros), so the module says less than the object.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

ELF_MAGIC = b"\x7fELF"
_SYMBOL_TABLE = 2
_LOCAL = 0
_UNDEFINED_SECTION = 0


@dataclass(frozen=True)
class Symbols:
    """Names of an object that are visible to the linker."""

    defined: frozenset[str]
    undefined: frozenset[str]


def read_symbols(payload: bytes) -> Symbols | None:
    """Return the global symbols of a 64-bit little-endian ELF object; None for another format.

    Layout after the System V ABI: the file header gives the section table, the section of type
    SHT_SYMTAB holds 24-byte entries and links to the section with their names.
    """
    if payload[:6] != ELF_MAGIC + b"\x02\x01":
        return None
    (table_offset,) = struct.unpack_from("<Q", payload, 40)
    entry_bytes, count = struct.unpack_from("<HH", payload, 58)
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", payload, table_offset + index * entry_bytes)
        for index in range(count)
    ]
    defined: set[str] = set()
    undefined: set[str] = set()
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind == _SYMBOL_TABLE:
            for name, section in _globals(payload, offset, size, sections[link][4]):
                (undefined if section == _UNDEFINED_SECTION else defined).add(name)
    return Symbols(frozenset(defined), frozenset(undefined))


def _globals(payload: bytes, offset: int, size: int, names: int) -> Iterator[tuple[str, int]]:
    """Yield name and section of each symbol of one table that is not local to the object."""
    for name, info, _, section, _, _ in struct.iter_unpack(
        "<IBBHQQ", payload[offset : offset + size]
    ):
        if info >> 4 != _LOCAL:
            start = names + name
            yield payload[start : payload.index(b"\0", start)].decode(), section
