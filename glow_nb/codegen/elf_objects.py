"""Relocatable ELF objects for x86-64 as data: their sections, symbols and relocations.

What is read is what LLVM emits for kernels and entries: code and read-only numbers, which refer to
each other by distances of 32 bits. Layout after the System V ABI and its supplement for AMD64.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TypeGuard

from glow_nb.base.errors import CompileError

MACHINE_X86_64 = 62
ELF_64_LITTLE = b"\x7fELF\x02\x01"
_PROGRAM_BITS, _SYMBOL_TABLE, _RELOCATIONS, _NO_BITS = 1, 2, 4, 8
_WRITE, _ALLOCATE, _EXECUTE = 1, 2, 4
_UNWIND = 0x70000001
_DEBUG = ".debug_"
FRAMES = ".eh_frame"
"""How to get from the frame of a function to that of its caller."""
_LOCAL = 0
_UNDEFINED = 0
_CALL = 4
_DISTANCES = (2, _CALL)
"""Types of relocations, PC32 and PLT32, that LLVM emits for position-independent code without data
that is written."""

Header = tuple[int, ...]
Headers = list[Header]


@dataclass(frozen=True)
class Section:
    """Bytes that are mapped into memory.

    Attributes:
        name: The name in the object, ``.text``.
        payload: The bytes, before relocation.
        alignment: Alignment of their address.
        is_code: Whether they are executed.
    """

    name: str
    payload: bytes
    alignment: int
    is_code: bool


@dataclass(frozen=True)
class Definition:
    """Where a symbol lies.

    Attributes:
        section: Number of its section in the object.
        offset: From the beginning of the section.
        size_bytes: Its size in bytes.
    """

    section: int
    offset: int
    size_bytes: int


@dataclass(frozen=True)
class Relocation:
    """Four bytes that hold a distance: from their own address to that of a symbol.

    Attributes:
        section: Number of the section that they lie in.
        offset: From its beginning.
        symbol: A name that this object does not define, or a place in it.
        addend: The number that is added to the distance.
        is_call: Whether a call or a jump refers to it, which may go through a table.
    """

    section: int
    offset: int
    symbol: str | Definition
    addend: int
    is_call: bool


@dataclass(frozen=True)
class ElfObject:
    """An object, read.

    Attributes:
        sections: The sections that are mapped into memory, by number.
        defined: Global symbols.
        relocations: The references to symbols.
    """

    sections: dict[int, Section]
    defined: dict[str, Definition]
    relocations: tuple[Relocation, ...]

    @classmethod
    def read(cls, payload: bytes, *, with_frames: bool = False) -> ElfObject:
        """Return the object *payload*; only a debugger needs the section of its *frames*.

        Raises:
            CompileError: It is cut off, for another processor, or has what kernels do not have:
                data that is written, or another relocation.
        """
        try:
            return _read(payload, with_frames)
        except (struct.error, ValueError, IndexError, KeyError) as error:
            raise CompileError(f"object of {len(payload)} bytes: not a whole ELF object") from error


def _read(payload: bytes, with_frames: bool) -> ElfObject:
    (machine,) = struct.unpack_from("<H", payload, 18)
    if payload[:6] != ELF_64_LITTLE or machine != MACHINE_X86_64:
        raise CompileError("an object is no ELF object for x86-64")
    headers = section_headers(payload)
    (names_number,) = struct.unpack_from("<H", payload, 62)
    sections: dict[int, Section] = {}
    for number, (name, kind, flags, _, offset, size, _, _, alignment, _) in enumerate(headers):
        called = text_at(payload, headers[names_number][4] + name)
        if not flags & _ALLOCATE or (called == FRAMES and not with_frames):
            continue
        if flags & _WRITE or kind == _NO_BITS:
            raise CompileError(f"an object has the section {called!r:.40}, which is written")
        if kind in (_PROGRAM_BITS, _UNWIND):
            content = payload[offset : offset + size]
            sections[number] = Section(called, content, max(alignment, 1), bool(flags & _EXECUTE))
    symbols = elf_symbols(payload)
    return ElfObject(
        sections,
        {n: place for n, is_global, place in symbols if is_global and _is_in(place, sections)},
        tuple(
            relocation
            for header in headers
            if header[1] == _RELOCATIONS and header[7] in sections
            for relocation in _relocations(payload, header, symbols)
        ),
    )


def section_headers(payload: bytes) -> Headers:
    """Return the headers of all sections of a 64-bit object, of any processor, by number.

    Raises:
        struct.error: The object is cut off.
    """
    (table,) = struct.unpack_from("<Q", payload, 40)
    entry_bytes, count = struct.unpack_from("<HH", payload, 58)
    return [
        struct.unpack_from("<IIQQQQIIQQ", payload, table + number * entry_bytes)
        for number in range(count)
    ]


Symbol = tuple[str, bool, Definition | None]
"""A name, whether other objects see it, and where it lies if this object defines it."""


def elf_symbols(payload: bytes) -> list[Symbol]:
    """Return the entries of the symbol table of a 64-bit object, of any processor, in order.

    Raises:
        struct.error, ValueError, IndexError: The object is cut off.
    """
    headers, found = section_headers(payload), []
    for _, kind, _, _, offset, size, link, _, _, _ in headers:
        if kind != _SYMBOL_TABLE:
            continue
        names = headers[link][4]
        for name, info, _, section, value, length in struct.iter_unpack(
            "<IBBHQQ", payload[offset : offset + size]
        ):
            place = None if section == _UNDEFINED else Definition(section, value, length)
            found.append((text_at(payload, names + name), info >> 4 != _LOCAL, place))
    return found


@dataclass(frozen=True)
class DebugRelocation:
    """Bytes that hold an address, or an offset in another debug section.

    Attributes:
        offset: From the beginning of the section that they lie in.
        target: The section or symbol that they refer to.
        addend: The number that is added to that.
        kind: The number that the ABI gives to what is written.
    """

    offset: int
    target: Definition
    addend: int
    kind: int


@dataclass(frozen=True)
class DebugSection:
    """A section that a debugger reads, and that is not mapped into memory."""

    name: str
    payload: bytes
    relocations: tuple[DebugRelocation, ...]


def debug_sections(payload: bytes) -> dict[int, DebugSection]:
    """Return the debug sections of a whole object by their number.

    Raises:
        CompileError: They refer to what the object does not define.
    """
    headers, symbols = section_headers(payload), elf_symbols(payload)
    (names_number,) = struct.unpack_from("<H", payload, 62)
    names = [text_at(payload, headers[names_number][4] + header[0]) for header in headers]
    found = {
        number: (name, payload[header[4] : header[4] + header[5]])
        for number, (name, header) in enumerate(zip(names, headers, strict=True))
        if header[1] == _PROGRAM_BITS and name.startswith(_DEBUG)
    }
    relocations = {
        header[7]: tuple(_debug_relocations(payload, header, symbols))
        for header in headers
        if header[1] == _RELOCATIONS and header[7] in found
    }
    return {
        number: DebugSection(*section, relocations.get(number, ()))
        for number, section in found.items()
    }


def _debug_relocations(
    payload: bytes, header: Header, symbols: list[Symbol]
) -> Iterator[DebugRelocation]:
    _, _, _, _, offset, size, _, _, _, _ = header
    for place, info, addend in struct.iter_unpack("<QQq", payload[offset : offset + size]):
        name, _, definition = symbols[info >> 32]
        if definition is None:
            raise CompileError(f"debug info refers to {name!r:.40}, which its object does not have")
        yield DebugRelocation(place, definition, addend, info & 0xFFFFFFFF)


def _is_in(place: Definition | None, sections: Collection[int]) -> TypeGuard[Definition]:
    """Return whether a symbol lies in one of *sections*, those that are mapped."""
    return place is not None and place.section in sections


def _relocations(payload: bytes, header: Header, symbols: list[Symbol]) -> Iterator[Relocation]:
    _, _, _, _, offset, size, _, section, _, _ = header
    for place, info, addend in struct.iter_unpack("<QQq", payload[offset : offset + size]):
        kind = info & 0xFFFFFFFF
        if kind not in _DISTANCES:
            raise CompileError(f"an object has a relocation of type {kind}")
        name, _, definition = symbols[info >> 32]
        yield Relocation(section, place, definition or name, addend, kind == _CALL)


def text_at(payload: bytes, start: int) -> str:
    """Return the text that begins at *start* and ends in front of a zero."""
    return payload[start : payload.index(b"\0", start)].decode()
