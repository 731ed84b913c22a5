"""Numbers of ``float32`` to ``bfloat16`` by an instruction without numbers below the normal."""

from __future__ import annotations

from llvmlite import ir

from glow_nb.base.types import ElementKind
from glow_nb.simd.convert import convert
from glow_nb.simd.instruction_sets import has_instruction_set
from glow_nb.simd.lanes import FLOAT32, Lanes, call_named
from glow_nb.simd.types import BFloat, llvm_vector

BFLOAT16 = ElementKind.BFLOAT16
CONVERSIONS = "convert_bfloat16_"
"""The prefix of the instruction sets that convert vectors of ``float32``; their lanes follow."""


def flush_bfloat16(x: Lanes) -> Lanes:
    """Round to ``bfloat16``; numbers below the normal ones may become zeros.

    So they count in products of pairs of ``bfloat16`` in any case.
    """
    if x.kind is not FLOAT32 or not has_instruction_set(x.builder, f"{CONVERSIONS}{x.lanes}"):
        return convert(x, BFLOAT16)
    name = f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * x.lanes}"
    made = call_named(x.builder, name, ir.VectorType(BFloat(), x.lanes), [x.value])
    return x.like(x.builder.bitcast(made, llvm_vector(BFLOAT16, x.lanes)), BFLOAT16)
