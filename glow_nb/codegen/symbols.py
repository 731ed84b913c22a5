"""The symbols that an object file defines and needs, read from its symbol table: ELF, Mach-O, COFF.

Needed because LLVM itself may add calls while it selects instructions (``expf`` for an ``exp``
without a hardware form, ``memset`` for a loop of zeros), so the module says less than the object.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from glow_nb.codegen.elf_objects import ELF_64_LITTLE, elf_symbols

_MACHO_64 = b"\xcf\xfa\xed\xfe"
_MACHO_SYMBOL_TABLE = 2
_MACHO_EXTERNAL, _MACHO_DEBUG, _MACHO_KIND = 0x01, 0xE0, 0x0E

_COFF_MACHINES = (b"\x64\x86", b"\x64\xaa")
"""How an object for x86-64 and one for 64-bit ARM begin."""
_COFF_EXTERNAL = 2
_COFF_SYMBOL = struct.Struct("<8sIhHBB")


@dataclass(frozen=True)
class Symbols:
    """Names of an object that are visible to the linker, as C has them."""

    defined: frozenset[str]
    undefined: frozenset[str]


def read_symbols(payload: bytes) -> Symbols | None:
    """Return the global symbols of a 64-bit little-endian object; None for no such object.

    Raises:
        struct.error, ValueError, IndexError: The object is cut off.
    """
    if payload[:6] == ELF_64_LITTLE:
        return _gathered(_elf_globals(payload))
    if payload[:4] == _MACHO_64:
        return _gathered(_macho_globals(payload))
    if payload[:2] in _COFF_MACHINES:
        return _gathered(_coff_globals(payload))
    return None


def _gathered(found: Iterator[tuple[str, bool]]) -> Symbols:
    """Return pairs of a name and whether it is defined as sets."""
    pairs = list(found)
    return Symbols(
        frozenset(name for name, is_defined in pairs if is_defined),
        frozenset(name for name, is_defined in pairs if not is_defined),
    )


def _elf_globals(payload: bytes) -> Iterator[tuple[str, bool]]:
    """Yield each global symbol of an ELF object, and whether the object defines it."""
    for name, is_global, place in elf_symbols(payload):
        if is_global:
            yield name, place is not None


def _macho_globals(payload: bytes) -> Iterator[tuple[str, bool]]:
    """Yield each global symbol of a Mach-O object, and whether the object defines it.

    Load commands follow the header of 32 bytes; LC_SYMTAB says where the 16-byte entries and their
    names lie. A name begins with an underscore that C does not have.
    """
    (commands,) = struct.unpack_from("<I", payload, 16)
    place = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<II", payload, place)
        if command == _MACHO_SYMBOL_TABLE:
            first, count, names, _ = struct.unpack_from("<IIII", payload, place + 8)
            for index in range(count):
                name, kind = struct.unpack_from("<IB", payload, first + 16 * index)
                if kind & _MACHO_EXTERNAL and not kind & _MACHO_DEBUG:
                    symbol = _text(payload, names + name).removeprefix("_")
                    yield symbol, kind & _MACHO_KIND != 0
        place += size


def _coff_globals(payload: bytes) -> Iterator[tuple[str, bool]]:
    """Yield each global symbol of a COFF object, and whether the object defines it.

    The header says where the 18-byte entries lie; names of more than 8 bytes stand after them.
    """
    table, count = struct.unpack_from("<II", payload, 8)
    names = table + count * _COFF_SYMBOL.size
    index = 0
    while index < count:
        short, _, section, _, storage, auxiliary = _COFF_SYMBOL.unpack_from(
            payload, table + index * _COFF_SYMBOL.size
        )
        if storage == _COFF_EXTERNAL:
            is_long, place = short[:4] == bytes(4), struct.unpack("<4xI", short)[0]
            name = _text(payload, names + place) if is_long else short.rstrip(b"\0").decode()
            yield name, section != 0
        index += 1 + auxiliary


def _text(payload: bytes, start: int) -> str:
    return payload[start : payload.index(b"\0", start)].decode()
