"""How many instructions of a program read weights of integers: those of a quantized model."""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.llir.program import Instruction, Program, Weight, read
from glow_nb.llir.stack import tables_in

KINDS = (ElementKind.INT8, ElementKind.UINT8)
"""Kinds of integer weights; weights of fewer bits are packed into bytes."""


def instructions_with_integer_weights(program: Program) -> int:
    """Return the number of instructions of *program* that read weights of at most 8 bits.

    A lookup table is no weight.
    """
    return sum(map(_has_integer_weight, program.work))


def _has_integer_weight(instruction: Instruction) -> bool:
    operands = set(read(instruction)) - tables_in(instruction)
    return any(_is_integer_weight(each.root) for each in operands)


def _is_integer_weight(value: object) -> bool:
    """Return whether *value* is a weight of bytes; one byte alone is a zero point."""
    return isinstance(value, Weight) and value.type.kind in KINDS and value.type.size_bytes > 1
