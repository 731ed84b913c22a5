"""What adds the products of groups to sums: an instruction of the processor, or single products.

A function ``(total, x, w)`` returns the sums *total*, those of row 0 first, with products added.
*x* has the groups of each row, one after the other, and *w* those of each column. Of a step of one
row, *x* has that row's group for each column. :func:`emits` says which row of
:mod:`glow_nb.base.dot_instruction` such a function is for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from glow_nb.base.dot_instruction import DotInstruction
from glow_nb.base.schema import Registry
from glow_nb.simd.convert import convert
from glow_nb.simd.instruction_sets import has_instruction_set
from glow_nb.simd.lanes import Lanes, call_named
from glow_nb.simd.types import BFloat

MultiplyAdd = Callable[[Lanes, Lanes, Lanes], Lanes]

MULTIPLY_ADDS: Registry[str, MultiplyAdd] = Registry("multiply-add of the dot instruction")
"""The functions by the names of their dot instructions."""


def emits(name: str) -> Callable[[MultiplyAdd], MultiplyAdd]:
    """Register what emits the dot instruction *name* on processors that have it."""
    return lambda function: MULTIPLY_ADDS.add(name, function)


def multiply_add_of(dot: DotInstruction, builder: Any, lanes: int) -> MultiplyAdd:
    """Return what adds the products of a step of *dot* for the processor of *builder*'s module.

    Args:
        dot: The instruction.
        builder: Receives what the function emits.
        lanes: Sums of a vector.
    """
    found = MULTIPLY_ADDS.get(dot.name)
    if found is not None and has_instruction_set(builder, f"{dot.name}_{lanes}"):
        return found
    return emulated(dot)


def emulated(dot: DotInstruction) -> MultiplyAdd:
    """Return what multiplies the pairs of *dot* one after the other, as every processor can."""

    def multiply_add(total: Lanes, x: Lanes, w: Lanes) -> Lanes:
        columns, rows = total.lanes // dot.rows, range(dot.rows)
        for number in range(dot.group):
            places = range(number, columns * dot.group, dot.group)
            of_row = [dot.group * row + number for row in rows for _ in range(columns)]
            order = of_row if dot.rows > 1 or x.lanes == dot.group else places
            left = convert(x.shuffle(order), total.kind)
            right = convert(w.shuffle([*places] * dot.rows), total.kind)
            total = left.multiply_add(right, total)
        return total

    return multiply_add


def _by_vnni(name: str) -> None:
    """Register the instruction *name* of VNNI, of 128, 256 or 512 bits; none saturates."""

    @emits(f"tile_dot_{name}")
    def multiply_add(total: Lanes, x: Lanes, w: Lanes) -> Lanes:
        builder, form = total.builder, total.value.type
        operands = [total.value, *(builder.bitcast(each.value, form) for each in (x, w))]
        full_name = f"llvm.x86.avx512.{name}.{32 * total.lanes}"
        return total.like(call_named(builder, full_name, form, operands))


_by_vnni("vpdpwssd")
_by_vnni("vpdpbusd")


@emits("tile_dot_vdpbf16ps")
def _by_vdpbf16ps(total: Lanes, x: Lanes, w: Lanes) -> Lanes:
    """Multiply pairs of bfloat16; numbers below the normal ones count as zeros of their sign."""
    builder, lanes = total.builder, total.lanes
    name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
    form = ir.VectorType(BFloat(), 2 * lanes)
    operands = [total.value, *(builder.bitcast(each.value, form) for each in (x, w))]
    return total.like(call_named(builder, name, total.value.type, operands))


PAIR_NAMES = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
"""What LLVM calls ``vpmaddwd`` for this number of lanes of 32 bits."""


@emits("tile_dot_vpmaddwd")
def _by_vpmaddwd(total: Lanes, x: Lanes, w: Lanes) -> Lanes:
    """Multiply pairs of 16 bits and add the products of two neighbours, then add these.

    The largest sum, that of two products of the least integers, wraps around as it should.
    """
    name = f"llvm.x86.{PAIR_NAMES[total.lanes]}"
    operands = [each.value for each in (x, w)]
    return total + total.like(call_named(total.builder, name, total.value.type, operands))
