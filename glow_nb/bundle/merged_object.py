"""Relocatable ELF objects merged into one, in which only some symbols are seen from outside.

Kernels have names that are made of their text, so that two bundles, or two variants of one, may
have different code of the same name. In a merged object these names are local, and calls of them
are bound by us. Sections stay as they are, side by side; what refers to a symbol or to a section
gets its new number. So this holds for each processor with 64-bit little-endian ELF and relocations
with addends.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from glow_nb.base.errors import CompileError
from glow_nb.codegen.elf_objects import ELF_64_LITTLE, Header, section_headers, text_at

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_SYMBOLS, _STRINGS, _RELOCATIONS, _NO_BITS, _PLAIN_RELOCATIONS, _GROUP = 2, 3, 4, 8, 9, 17
_ADDRESS_SIGNIFICANCE, _RISCV_ATTRIBUTES = 0x6FFF4C03, 0x70000003
_WRITE, _ALLOCATE, _LINK_ORDER = 0x1, 0x2, 0x80
_LOCAL, _GLOBAL, _FILE = 0, 1, 4
_FIRST_SPECIAL, _COMMON = 0xFF00, 0xFFF2
_NO_STACK = ".note.GNU-stack"
_MACHINE_RISCV = 243
_PAGE_ALIGNMENT = 4096


@dataclass(frozen=True)
class Part:
    """Objects whose symbols mean each other.

    Attributes:
        prefix: What the names of their global symbols begin with in the merged object, and are
            known by to the object that joins the parts.
        payloads: The objects.
    """

    prefix: str
    payloads: Sequence[bytes]


@dataclass(frozen=True)
class Merged:
    """One object.

    Attributes:
        payload: The object.
        needed: Symbols that it leaves to the linker, sorted.
    """

    payload: bytes
    needed: tuple[str, ...]


def merge_objects(parts: Iterable[Part], joining: bytes) -> Merged:
    """Return one object of all *parts* and of *joining*, whose global symbols alone stay global.

    Raises:
        CompileError: An object is broken, is for another processor than *joining*, has data that
            are written, or defines a symbol that its part defines already.
    """
    groups = [*parts, Part("", [joining])]
    try:
        inputs = [_Input.read(p, part.prefix) for part in groups for p in part.payloads]
        merger = _Merger(joining)
        for one in inputs:
            merger.add(one)
        return merger.merged(inputs)
    except (struct.error, ValueError, IndexError, KeyError) as error:
        raise CompileError(f"objects of a bundle: not whole ELF objects ({error!r})") from error


def data_object(symbol: str, content: bytes, like: bytes) -> bytes:
    """Return an object for the processor of *like* whose read-only data are *content*.

    They begin on a page, at the global symbol *symbol*.
    """
    writer = _Writer()
    place = writer.add_section(
        ".rodata", (0, 1, _ALLOCATE, 0, 0, len(content), 0, 0, _PAGE_ALIGNMENT, 0), content
    )
    writer.add_section(_NO_STACK, (0, 1, 0, 0, 0, 0, 0, 0, 1, 0), b"")
    writer.globals.append(_Symbol(symbol, _GLOBAL << 4 | 1, 0, place, 0, len(content)))
    return writer.written(like)


@dataclass(frozen=True)
class _Symbol:
    name: str
    info: int
    other: int
    section: int
    value: int
    size: int

    @property
    def binding(self) -> int:
        return self.info >> 4

    @property
    def kind(self) -> int:
        return self.info & 15


@dataclass
class _Input:
    """An object, its global symbols by the names that they get, and its numbers in the result."""

    payload: bytes
    prefix: str
    headers: list[Header]
    names: list[str]
    symbols: list[_Symbol]
    sections: dict[int, int] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)

    @classmethod
    def read(cls, payload: bytes, prefix: str) -> _Input:
        if payload[:6] != ELF_64_LITTLE:
            raise CompileError(
                "a bundle is made of 64-bit ELF objects, and this machine has other ones; give the "
                "triple of a Linux machine as target"
            )
        headers = section_headers(payload)
        (names_number,) = struct.unpack_from("<H", payload, 62)
        names = [text_at(payload, headers[names_number][4] + header[0]) for header in headers]
        symbols = [
            symbol
            for header in headers
            if header[1] == _SYMBOLS
            for symbol in _read_symbols(payload, header, headers[header[6]][4])
        ]
        return cls(payload, prefix, headers, names, symbols)

    def content(self, number: int) -> bytes:
        _, _, _, _, offset, size, *_ = self.headers[number]
        found = self.payload[offset : offset + size]
        if len(found) != size:
            raise ValueError("a section is cut off")
        return found


def _read_symbols(payload: bytes, header: Header, names: int) -> list[_Symbol]:
    _, _, _, _, offset, size, *_ = header
    return [
        _Symbol(text_at(payload, names + name), info, other, section, value, length)
        for name, info, other, section, value, length in _SYMBOL.iter_unpack(
            payload[offset : offset + size]
        )
    ]


class _Writer:
    """Sections and symbols of an object that is being written."""

    def __init__(self) -> None:
        self.sections: list[tuple[str, Header, bytes]] = [("", (0,) * 10, b"")]
        self.locals: list[_Symbol] = [_Symbol("", 0, 0, 0, 0, 0)]
        self.globals: list[_Symbol] = []

    def add_section(self, name: str, header: Header, content: bytes) -> int:
        """Append a section; return its number."""
        self.sections.append((name, header, content))
        if len(self.sections) >= _FIRST_SPECIAL - 3:
            raise CompileError("a bundle has more sections than an object can have; make several")
        return len(self.sections) - 1

    def written(self, like: bytes) -> bytes:
        """Return the object, for the processor of *like*."""
        symbols, strings = self._symbol_table()
        count = len(self.sections)  # numbers of the three sections that follow
        table = (0, _SYMBOLS, 0, 0, 0, 0, count + 1, len(self.locals), 8, _SYMBOL.size)
        self.add_section(".symtab", table, symbols)
        self.add_section(".strtab", (0, _STRINGS, 0, 0, 0, 0, 0, 0, 1, 0), strings)
        names = [name for name, _, _ in self.sections] + [".shstrtab"]
        offsets, name_table = _string_table(names)
        self.add_section(".shstrtab", (0, _STRINGS, 0, 0, 0, 0, 0, 0, 1, 0), name_table)
        body, headers = bytearray(_HEADER.size), bytearray()
        for name, header, content in self.sections:
            _, kind, flags, address, _, _, link, info, alignment, entry = header
            body += bytes(-len(body) % max(alignment, 1))
            place = len(body) if kind else 0
            size = len(content)
            if kind == _RELOCATIONS:
                link = count
            headers += _SECTION.pack(
                *(offsets[name], kind, flags, address, place, size, link, info, alignment, entry)
            )
            body += content
        body += bytes(-len(body) % 8)
        identity, kind, machine, version, entry, _, _, flags, *_ = _HEADER.unpack_from(like)
        body[: _HEADER.size] = _HEADER.pack(
            *(identity, kind, machine, version, entry, 0, len(body), flags, _HEADER.size, 0, 0),
            *(_SECTION.size, len(self.sections), len(self.sections) - 1),
        )
        return bytes(body + headers)

    def _symbol_table(self) -> tuple[bytes, bytes]:
        symbols = [*self.locals, *self.globals]
        offsets, strings = _string_table([symbol.name for symbol in symbols])
        table = b"".join(
            _SYMBOL.pack(offsets[s.name], s.info, s.other, s.section, s.value, s.size)
            for s in symbols
        )
        return table, strings


def _string_table(names: Iterable[str]) -> tuple[dict[str, int], bytes]:
    """Return where each of *names* stands in a table of texts, and the table."""
    offsets, table = {"": 0}, bytearray(b"\0")
    for name in names:
        if name not in offsets:
            offsets[name] = len(table)
            table += name.encode() + b"\0"
    return offsets, bytes(table)


class _Merger(_Writer):
    """The object that others are merged into."""

    def __init__(self, like: bytes) -> None:
        """Merge for the processor of *like*."""
        super().__init__()
        self._like = like
        self._defined: dict[str, int] = {}
        self._kept_once: set[str] = set()

    def add(self, one: _Input) -> None:
        """Append sections and local symbols of *one*; global ones become local, but the joining."""
        if _processor(one.payload) != _processor(self._like):
            raise CompileError("objects of a bundle are for different processors")
        for number, header in enumerate(one.headers):
            if self._is_kept(one.names[number], header):
                own = self.add_section(one.names[number], header, one.content(number))
                one.sections[number] = own
        for number, symbol in enumerate(one.symbols):
            is_global = symbol.binding != _LOCAL
            if number and symbol.section and symbol.kind != _FILE and (one.prefix or not is_global):
                self._add_local(one, number, symbol)

    def _add_local(self, one: _Input, number: int, symbol: _Symbol) -> None:
        placed = _placed(one, symbol)
        if placed is None:  # it lies in a section that is left out
            return
        one.numbers[number] = len(self.locals)
        if symbol.binding == _LOCAL and symbol.name:
            # Linkers take two local symbols of one name as two, LLVM's own takes them as one.
            placed = replace(placed, name=f"{symbol.name}.{len(self.locals)}")
        if symbol.binding != _LOCAL:
            name = one.prefix + symbol.name
            if name in self._defined:
                raise CompileError(f"symbol {name}: two objects define it")
            self._defined[name] = len(self.locals)
            placed = replace(placed, name=name, info=symbol.kind, other=0)
        self.locals.append(placed)

    def _is_kept(self, name: str, header: Header) -> bool:
        """Return whether a section is part of the result; raise CompileError for one of data."""
        _, kind, flags, *_ = header
        if kind in (_GROUP, _PLAIN_RELOCATIONS):
            raise CompileError(f"an object has the section {name!r:.40}, which cannot be merged")
        if flags & _ALLOCATE and (flags & _WRITE or kind == _NO_BITS):
            raise CompileError(f"an object has the section {name!r:.40}, which is written")
        if kind in (0, _SYMBOLS, _STRINGS, _ADDRESS_SIGNIFICANCE):
            return False
        is_riscv = _processor(self._like)[0] == _MACHINE_RISCV
        if name == _NO_STACK or (is_riscv and kind == _RISCV_ATTRIBUTES):
            is_first = name not in self._kept_once
            self._kept_once.add(name)
            return is_first
        return True

    def merged(self, inputs: Sequence[_Input]) -> Merged:
        """Return the object, when all of *inputs* were added: bind calls, and what else refers."""
        exported = [(n, s) for n, s in enumerate(inputs[-1].symbols) if s.binding != _LOCAL]
        first = len(self.locals)
        for number, symbol in exported:
            placed = _placed(inputs[-1], symbol) if symbol.section else None
            if placed is not None:
                inputs[-1].numbers[number] = first + len(self.globals)
                self.globals.append(placed)
        needed: dict[str, int] = {}
        for one in inputs:
            for number, symbol in enumerate(one.symbols):
                if number and not symbol.section:
                    one.numbers[number] = self._bound(one.prefix, symbol, needed)
            self._renumber(one)
        return Merged(self.written(self._like), tuple(sorted(needed)))

    def _bound(self, prefix: str, symbol: _Symbol, needed: dict[str, int]) -> int:
        """Return the number of a symbol that its object does not define."""
        own = self._defined.get(prefix + symbol.name)
        if own is not None:
            return own
        if symbol.name not in needed:
            needed[symbol.name] = len(self.locals) + len(self.globals)
            self.globals.append(replace(symbol, info=_GLOBAL << 4, other=0))
        return needed[symbol.name]

    def _renumber(self, one: _Input) -> None:
        """Give sections and relocations of *one* their numbers in the result."""
        for own in one.sections.values():
            name, header, content = self.sections[own]
            _, kind, flags, _, _, _, link, info, *_ = header
            if kind == _RELOCATIONS:
                info, content = one.sections[info], _renumbered(content, one.numbers)
            elif flags & _LINK_ORDER:
                link = one.sections[link]
            self.sections[own] = (name, (*header[:6], link, info, *header[8:]), content)


def _renumbered(relocations: bytes, numbers: dict[int, int]) -> bytes:
    """Return *relocations* with the new numbers of their symbols; 0 is none."""
    numbers = {0: 0, **numbers}
    return b"".join(
        _RELOCATION.pack(place, numbers[info >> 32] << 32 | info & 0xFFFFFFFF, addend)
        for place, info, addend in _RELOCATION.iter_unpack(relocations)
    )


def _placed(one: _Input, symbol: _Symbol) -> _Symbol | None:
    """Return *symbol* with the new number of its section; None if that is left out."""
    if symbol.section == _COMMON:
        raise CompileError(f"symbol {symbol.name}: writable data, which a bundle cannot have")
    if symbol.section >= _FIRST_SPECIAL:
        return symbol
    if symbol.section not in one.sections:
        return None
    return replace(symbol, section=one.sections[symbol.section])


def _processor(payload: bytes) -> tuple[int, int]:
    """Return what the header of an object says of its processor: machine and flags."""
    _, _, machine, _, _, _, _, flags, *_ = _HEADER.unpack_from(payload)
    return machine, flags
