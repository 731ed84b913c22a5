"""The debug sections of several objects as those of one file.

Sections of a name follow each other, and what refers to code or to a section gets the address or
the offset that it has now. Strings are kept once; the one that names the folder of the sources in
objects is replaced by the real folder.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence

from glow_nb.base.errors import CompileError
from glow_nb.codegen.debugging.debug_files import SOURCE_FOLDER
from glow_nb.codegen.elf_objects import DebugSection

STRINGS = ".debug_str"
_FORMATS = {1: "<Q", 10: "<I"}
"""How what a relocation of this type refers to is written: R_X86_64_64 and R_X86_64_32."""


def merge_debug_sections(
    objects: Sequence[Mapping[int, DebugSection]],
    addresses: Mapping[tuple[int, int], int],
    folder: str,
) -> dict[str, bytes]:
    """Return the debug sections of all *objects*, by name; sources lie in *folder*.

    *addresses* says where what is mapped lies, by the numbers of the object and of the section.

    Raises:
        CompileError: An object refers to what it does not have, or in another way.
    """
    sections = {
        (number, index): section
        for number, one in enumerate(objects)
        for index, section in one.items()
    }
    merged: defaultdict[str, bytearray] = defaultdict(bytearray)
    begins: dict[tuple[int, int], int] = {}
    for key, section in sections.items():
        if section.name != STRINGS:
            begins[key] = len(merged[section.name])
            merged[section.name] += section.payload
    strings = _Strings({SOURCE_FOLDER.encode(): folder.encode()})

    def place_of(key: tuple[int, int], offset: int) -> int:
        """Return where now is what was at *offset* of the section *key*."""
        if key in addresses:
            return addresses[key] + offset
        if sections[key].name == STRINGS:
            return strings.place(sections[key].payload, offset)
        return begins[key] + offset

    for (number, index), section in sections.items():
        for relocation in section.relocations:
            if relocation.kind not in _FORMATS:
                raise CompileError(f"debug info has a relocation of type {relocation.kind}")
            target = relocation.target
            value = place_of((number, target.section), target.offset + relocation.addend)
            offset = begins[number, index] + relocation.offset
            struct.pack_into(_FORMATS[relocation.kind], merged[section.name], offset, value)
    if merged:
        merged[STRINGS] = strings.content
    return {name: bytes(content) for name, content in merged.items()}


class _Strings:
    """Strings that end in a zero, each once.

    Attributes:
        content: All of them.
    """

    def __init__(self, replaced: Mapping[bytes, bytes]) -> None:
        """Keep none yet; those that are *replaced* will be another one."""
        self.content = bytearray()
        self._replaced = replaced
        self._places: dict[bytes, int] = {}

    def place(self, payload: bytes, offset: int) -> int:
        """Return where the string is kept that begins at *offset* of *payload*."""
        string = payload[offset : payload.index(b"\0", offset)]
        string = self._replaced.get(string, string)
        if string not in self._places:
            self._places[string] = len(self.content)
            self.content += string + b"\0"
        return self._places[string]
