"""Objects linked to one shared object for Linux on x86-64, which the system's loader maps.

Kernels call each other and a few functions of the C library. Calls between objects are resolved
here. Functions from outside are called through a table (``glow_imports``) that whoever loads the
object fills with their addresses before the first call: so nothing is left for the system's loader
to resolve, and the versions of symbols that it would choose do not matter. The layout is that of
the System V ABI: two segments, code with all that is only read, and the table; and just those
entries that ``dlopen`` asks for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from glow_nb.base.errors import CompileError
from glow_nb.codegen.debugging.debug_sections import merge_debug_sections
from glow_nb.codegen.elf_objects import (
    FRAMES,
    MACHINE_X86_64,
    Definition,
    ElfObject,
    debug_sections,
)
from glow_nb.codegen.section_headers import (
    DYNAMIC,
    EXECUTED,
    HASHES,
    MAPPED,
    PROGRAM_BITS,
    STRINGS,
    SYMBOLS,
    WRITTEN,
    MappedSection,
    with_sections,
)
from glow_nb.codegen.shared_object_names import IMPORT_NAMES, IMPORTS

PAGE_BYTES = 4096
_HEADER_BYTES, _PROGRAM_HEADER_BYTES, _SYMBOL_BYTES, _DYNAMIC_BYTES = 64, 56, 24, 16
_POINTER_BYTES, _JUMP_BYTES, _CODE_ALIGNMENT = 8, 8, 64
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551
_READ, _WRITE, _EXECUTE = 4, 2, 1
_HASH, _STRINGS, _SYMBOLS, _STRINGS_BYTES, _SYMBOL_SIZE = 4, 5, 6, 10, 11
_GLOBAL_FUNCTION, _GLOBAL_DATA = 0x12, 0x11
_CODE_SECTION, _SYMBOL_SECTION, _STRING_SECTION, _DATA_SECTION = 1, 2, 3, 6
"""The numbers of sections in the table of them."""
_PROGRAM_HEADERS = 4
_HASHES_PLACE = _HEADER_BYTES + _PROGRAM_HEADERS * _PROGRAM_HEADER_BYTES


@dataclass(frozen=True)
class _Exported:
    address: int
    size_bytes: int
    info: int = _GLOBAL_FUNCTION


@dataclass
class _Segment:
    """Bytes from an address on, which grow."""

    address: int
    content: bytearray = field(default_factory=bytearray)

    @property
    def end(self) -> int:
        return self.address + len(self.content)

    def append(self, payload: bytes, alignment: int = _POINTER_BYTES) -> int:
        """Append *payload* at a multiple of *alignment*; return its address."""
        self.content += bytes(-self.end % alignment)
        place = self.end
        self.content += payload
        return place

    def write(self, address: int, payload: bytes) -> None:
        """Write *payload* over what lies at *address*."""
        start = address - self.address
        self.content[start : start + len(payload)] = payload


def link_shared_object(payloads: Iterable[bytes], sources: str | None = None) -> bytes:
    """Return a shared object of all *payloads*, which exports all that they define.

    It has their debug information if it is said in which folder the *sources* are.

    Raises:
        CompileError: An object is broken or of another kind, two define the same symbol, or code
            is too far apart.
    """
    payloads, is_debugged = list(payloads), sources is not None
    objects = [ElfObject.read(payload, with_frames=is_debugged) for payload in payloads]
    owners = _owners(objects)
    imports = _imports(objects, owners)
    names = b"".join(name.encode() + b"\0" for name in imports) + b"\0"
    exported_names = [*owners, IMPORTS, IMPORT_NAMES]
    code = _Segment(_table_bytes(exported_names))
    places = _place_sections(objects, code)
    jumps = {name: code.append(bytes(_JUMP_BYTES)) for name in imports}
    names_place = code.append(names)
    frames_place = code.append(b"")
    places |= _place_sections(objects, code, frames=True)
    data = _Segment(-(-code.end // PAGE_BYTES) * PAGE_BYTES)
    slots = {name: data.append(bytes(_POINTER_BYTES)) for name in imports}
    table_place = data.address
    for name, jump in jumps.items():  # jmp *slot(%rip), and two bytes that nothing reaches
        code.write(jump, b"\xff\x25" + _distance(slots[name] - (jump + 6)) + b"\xcc\xcc")
    exported = {
        name: _Exported(places[owner, place.section] + place.offset, place.size_bytes)
        for name, (owner, place) in owners.items()
    }
    _relocate(objects, code, places, {n: e.address for n, e in exported.items()} | jumps)
    exported[IMPORTS] = _Exported(table_place, len(slots) * _POINTER_BYTES, _GLOBAL_DATA)
    exported[IMPORT_NAMES] = _Exported(names_place, len(names), _GLOBAL_DATA)
    debug: dict[str, bytes] = {}
    if sources is not None:
        described = [debug_sections(payload) for payload in payloads]
        debug = merge_debug_sections(described, places, sources)
    return _file(code, frames_place, data, exported, debug)


def _imports(
    objects: Sequence[ElfObject], owners: Mapping[str, tuple[int, Definition]]
) -> list[str]:
    """Return the functions that none of *objects* defines; raise CompileError for data."""
    imports: set[str] = set()
    for relocation in (r for one in objects for r in one.relocations):
        name = relocation.symbol
        if not isinstance(name, str) or name in owners:
            continue
        if not relocation.is_call:
            raise CompileError(f"symbol {name}: data from outside, which kernels do not have")
        imports.add(name)
    return sorted(imports)


def _owners(objects: Sequence[ElfObject]) -> dict[str, tuple[int, Definition]]:
    """Return for each global symbol the number of the object that defines it, and where."""
    owners: dict[str, tuple[int, Definition]] = {}
    for number, one in enumerate(objects):
        for name, place in one.defined.items():
            if name in owners:
                raise CompileError(f"symbol {name}: two objects define it")
            owners[name] = number, place
    return owners


def _place_sections(
    objects: Sequence[ElfObject], segment: _Segment, *, frames: bool = False
) -> dict[tuple[int, int], int]:
    """Append all sections to *segment*, code first; return the address of each.

    Those of *frames*, which must follow each other, are either left out or all.
    """
    numbered = [
        (number, index, section)
        for number, one in enumerate(objects)
        for index, section in one.sections.items()
        if (section.name == FRAMES) == frames
    ]
    numbered.sort(key=lambda entry: not entry[2].is_code)
    return {
        (number, index): segment.append(
            section.payload, max(section.alignment, _CODE_ALIGNMENT if section.is_code else 1)
        )
        for number, index, section in numbered
    }


def _relocate(
    objects: Sequence[ElfObject],
    segment: _Segment,
    places: Mapping[tuple[int, int], int],
    addresses: Mapping[str, int],
) -> None:
    """Write the distances that the code of *objects* refers by."""
    for number, one in enumerate(objects):
        for relocation in one.relocations:
            address = places[number, relocation.section] + relocation.offset
            symbol = relocation.symbol
            if isinstance(symbol, str):
                target = addresses[symbol]
            elif (number, symbol.section) in places:
                target = places[number, symbol.section] + symbol.offset
            else:
                raise CompileError("an object refers to what is not mapped into memory")
            segment.write(address, _distance(target + relocation.addend - address))


def _distance(bytes: int) -> bytes:
    try:
        return struct.pack("<i", bytes)
    except struct.error:
        raise CompileError(f"code is {bytes} bytes apart; at most 2 GiB can be") from None


def _table_bytes(exported_names: Sequence[str]) -> int:
    """Return the size of all that lies in front of the code."""
    strings = 1 + sum(len(name) + 1 for name in exported_names)
    count = len(exported_names) + 1
    symbols = count * _SYMBOL_BYTES
    return _symbols_place(count) + symbols + strings


def _symbols_place(count: int) -> int:
    """Return where the table of *count* symbols begins, after that of hashes."""
    end = _HASHES_PLACE + 4 * (2 + count + count)  # as many buckets as symbols
    return -(-end // _POINTER_BYTES) * _POINTER_BYTES


@dataclass(frozen=True)
class _Tables:
    """What lies in front of the code, and what leads the system to it.

    Attributes:
        count: Exported symbols, and the first one, which is none.
        symbols: The table of them.
        strings: Their names.
    """

    count: int
    symbols: bytes
    strings: bytes

    @classmethod
    def of(cls, exported: Mapping[str, _Exported], data_place: int) -> _Tables:
        """Return the tables of what is *exported*; data begin at *data_place*."""
        strings, symbols = bytearray(b"\0"), bytearray(_SYMBOL_BYTES)
        for name, symbol in exported.items():
            section = _CODE_SECTION if symbol.address < data_place else _DATA_SECTION
            place = (0, section, symbol.address, symbol.size_bytes)
            symbols += struct.pack("<IBBHQQ", len(strings), symbol.info, *place)
            strings += name.encode() + b"\0"
        return cls(len(exported) + 1, bytes(symbols), bytes(strings))

    @property
    def symbols_place(self) -> int:
        return _symbols_place(self.count)

    @property
    def strings_place(self) -> int:
        return self.symbols_place + len(self.symbols)

    def dynamic(self) -> bytes:
        """Return the entries that the system reads."""
        entries = {
            _HASH: _HASHES_PLACE,
            _STRINGS: self.strings_place,
            _SYMBOLS: self.symbols_place,
            _STRINGS_BYTES: len(self.strings),
            _SYMBOL_SIZE: _SYMBOL_BYTES,
            0: 0,
        }
        return b"".join(struct.pack("<qQ", *entry) for entry in entries.items())


def _file(
    code: _Segment,
    frames_place: int,
    data: _Segment,
    exported: Mapping[str, _Exported],
    debug: Mapping[str, bytes],
) -> bytes:
    """Return the whole shared object: headers and tables, *code*, and *data* on pages after it."""
    tables = _Tables.of(exported, data.address)
    dynamic = tables.dynamic()
    dynamic_place = data.append(dynamic)
    result = bytearray(data.address + len(data.content))
    result[code.address : code.end] = code.content
    result[data.address :] = data.content
    headers = [
        _segment_header(_LOAD, _READ | _EXECUTE, 0, code.end, PAGE_BYTES),
        _segment_header(_LOAD, _READ | _WRITE, data.address, len(data.content), PAGE_BYTES),
        _segment_header(_DYNAMIC, _READ | _WRITE, dynamic_place, len(dynamic), _POINTER_BYTES),
        _segment_header(_STACK, _READ | _WRITE, 0, 0, 16),
    ]
    front = b"".join([_elf_header(), *headers, _hash_table(list(exported))])
    result[: len(front)] = front
    result[tables.symbols_place : tables.strings_place] = tables.symbols
    result[tables.strings_place : tables.strings_place + len(tables.strings)] = tables.strings
    sections = _sections(tables, code, frames_place, data.address, dynamic_place)
    return with_sections(bytes(result), sections, debug)


def _sections(
    tables: _Tables, code: _Segment, frames_place: int, data_place: int, dynamic_place: int
) -> list[MappedSection]:
    """Return what debuggers and profilers find the parts of the file by."""
    text_bytes, frames_bytes = frames_place - code.address, code.end - frames_place
    symbols, strings = (tables.symbols_place, len(tables.symbols)), len(tables.strings)
    hashes, dynamic_bytes = 4 * (2 + 2 * tables.count), len(tables.dynamic())
    names, written = _STRING_SECTION, MAPPED | WRITTEN
    return [  # _CODE_SECTION and the like are their numbers, from 1
        MappedSection(".text", PROGRAM_BITS, MAPPED | EXECUTED, code.address, text_bytes),
        MappedSection(".dynsym", SYMBOLS, MAPPED, *symbols, names, 1, _SYMBOL_BYTES),
        MappedSection(".dynstr", STRINGS, MAPPED, tables.strings_place, strings),
        MappedSection(".hash", HASHES, MAPPED, _HASHES_PLACE, hashes, _SYMBOL_SECTION, 0, 4),
        MappedSection(
            *(".dynamic", DYNAMIC, written, dynamic_place, dynamic_bytes, names, 0, _DYNAMIC_BYTES)
        ),
        MappedSection(".data", PROGRAM_BITS, written, data_place, dynamic_place - data_place),
        *(
            [MappedSection(FRAMES, PROGRAM_BITS, MAPPED, frames_place, frames_bytes)]
            if frames_bytes
            else []
        ),
    ]


def _elf_header() -> bytes:
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    shared_object, version = 3, 1
    return identity + struct.pack(
        "<HHIQQQIHHHHHH",
        *(shared_object, MACHINE_X86_64, version, 0, _HEADER_BYTES, 0, 0),
        *(_HEADER_BYTES, _PROGRAM_HEADER_BYTES, _PROGRAM_HEADERS, 0, 0, 0),
    )


def _segment_header(kind: int, flags: int, place: int, size: int, alignment: int) -> bytes:
    """Return the header of a segment that lies at its address in the file, too."""
    return struct.pack("<IIQQQQQQ", kind, flags, place, place, place, size, size, alignment)


def _hash_table(names: Sequence[str]) -> bytes:
    """Return the table by which the system finds symbols: buckets, and chains of numbers."""
    count = len(names) + 1
    buckets, chains = [0] * count, [0] * count
    for number, name in enumerate(names, 1):
        bucket = _hash(name) % count
        chains[number], buckets[bucket] = buckets[bucket], number
    return struct.pack(f"<{2 + 2 * count}I", count, count, *buckets, *chains)


def _hash(name: str) -> int:
    """Return the hash of a name, as the System V ABI has it."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        value = (value ^ (value & 0xF0000000) >> 24) & 0x0FFFFFFF
    return value
