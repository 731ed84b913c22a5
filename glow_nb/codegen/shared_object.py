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
from glow_nb.codegen.elf_objects import MACHINE_X86_64, Definition, ElfObject
from glow_nb.codegen.shared_object_names import IMPORT_NAMES, IMPORTS

PAGE_BYTES = 4096
_HEADER_BYTES, _PROGRAM_HEADER_BYTES, _SYMBOL_BYTES, _DYNAMIC_BYTES = 64, 56, 24, 16
_POINTER_BYTES, _JUMP_BYTES, _CODE_ALIGNMENT = 8, 8, 64
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551
_READ, _WRITE, _EXECUTE = 4, 2, 1
_HASH, _STRINGS, _SYMBOLS, _STRINGS_BYTES, _SYMBOL_SIZE = 4, 5, 6, 10, 11
_GLOBAL_FUNCTION, _GLOBAL_DATA = 0x12, 0x11
_ANY_SECTION = 1
"""Where an exported symbol lies: some section; there are no headers that would say which."""
_PROGRAM_HEADERS = 4


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


def link_shared_object(payloads: Iterable[bytes]) -> bytes:
    """Return a shared object of all *payloads*, which exports all that they define.

    Raises:
        CompileError: An object is broken or of another kind, two define the same symbol, or code
            is too far apart.
    """
    objects = [ElfObject.read(payload) for payload in payloads]
    owners = _owners(objects)
    imports = _imports(objects, owners)
    names = b"".join(name.encode() + b"\0" for name in imports) + b"\0"
    exported_names = [*owners, IMPORTS, IMPORT_NAMES]
    code = _Segment(_table_bytes(exported_names))
    places = _place_sections(objects, code)
    jumps = {name: code.append(bytes(_JUMP_BYTES)) for name in imports}
    names_place = code.append(names)
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
    return _file(code, data, exported)


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


def _place_sections(objects: Sequence[ElfObject], segment: _Segment) -> dict[tuple[int, int], int]:
    """Append all sections to *segment*, code first; return the address of each."""
    numbered = [(n, s, section) for n, o in enumerate(objects) for s, section in o.sections.items()]
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
    """Return where the table of *count* symbols begins, behind that of hashes."""
    hashes = 4 * (2 + count + count)  # as many buckets as symbols
    end = _HEADER_BYTES + _PROGRAM_HEADERS * _PROGRAM_HEADER_BYTES + hashes
    return -(-end // _POINTER_BYTES) * _POINTER_BYTES


def _file(code: _Segment, data: _Segment, exported: Mapping[str, _Exported]) -> bytes:
    """Return the whole shared object: headers and tables, *code*, and *data* on pages behind it."""
    count = len(exported) + 1
    symbols_place = _symbols_place(count)
    strings_place = symbols_place + count * _SYMBOL_BYTES
    strings, symbols = bytearray(b"\0"), bytearray(_SYMBOL_BYTES)
    for name, symbol in exported.items():
        symbols += struct.pack(
            "<IBBHQQ", len(strings), symbol.info, 0, _ANY_SECTION, symbol.address, symbol.size_bytes
        )
        strings += name.encode() + b"\0"
    hashes_place = _HEADER_BYTES + _PROGRAM_HEADERS * _PROGRAM_HEADER_BYTES
    dynamic = {
        _HASH: hashes_place,
        _STRINGS: strings_place,
        _SYMBOLS: symbols_place,
        _STRINGS_BYTES: len(strings),
        _SYMBOL_SIZE: _SYMBOL_BYTES,
        0: 0,
    }
    dynamic_place = data.append(b"".join(struct.pack("<qQ", *entry) for entry in dynamic.items()))
    dynamic_bytes = len(dynamic) * _DYNAMIC_BYTES
    file_bytes = data.address + len(data.content)
    result = bytearray(file_bytes)
    result[code.address : code.end] = code.content
    result[data.address :] = data.content
    headers = [
        _segment_header(_LOAD, _READ | _EXECUTE, 0, code.end, PAGE_BYTES),
        _segment_header(_LOAD, _READ | _WRITE, data.address, len(data.content), PAGE_BYTES),
        _segment_header(_DYNAMIC, _READ | _WRITE, dynamic_place, dynamic_bytes, _POINTER_BYTES),
        _segment_header(_STACK, _READ | _WRITE, 0, 0, 16),
    ]
    front = b"".join([_elf_header(), *headers, _hash_table(list(exported))])
    result[: len(front)] = front
    result[symbols_place:strings_place] = symbols
    result[strings_place : strings_place + len(strings)] = strings
    return bytes(result)


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
