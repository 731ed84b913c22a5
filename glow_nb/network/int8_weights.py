"""How many instructions of a program read int8 weights."""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.llir.program import Program, Weight, read

KINDS = (ElementKind.INT8, ElementKind.UINT8)


def instructions_with_int8_weights(program: Program) -> int:
    """Return the number of instructions of *program* that read weights of 8 bits."""
    return sum(any(_is_int8(each.root) for each in read(one)) for one in program.work)


def _is_int8(value: object) -> bool:
    """Return whether *value* is a weight of bytes; one byte alone is a zero point."""
    return isinstance(value, Weight) and value.type.kind in KINDS and value.type.size_bytes > 1
