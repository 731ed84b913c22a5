"""Kernels of matrix products by Strassen's algorithm: fewer products for more additions."""

from __future__ import annotations

from math import prod

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.plan import Plan
from glow_nb.kernels.bilinear.plan import BilinearPlan, plan_bilinear
from glow_nb.kernels.operators.strassen_instructions import StrassenMatMulInst
from glow_nb.kernels.registry import head_kernel_for, plan_of
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.strassen.nest import StrassenNest
from glow_nb.kernels.strassen.writer import StrassenWriter
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.traits import KernelTraits
from glow_nb.numerics.strassen import SIDE

STRASSEN = "strassen"
"""The algorithm that multiplies sums of blocks: seven products instead of eight."""


def plan_strassen(
    instruction: StrassenMatMulInst,
    target: Target,
    fusion: Fusion,
) -> Plan:
    """Plan a product by Strassen's algorithm.

    Raises:
        UnsupportedError: Sums of a block are shorter than a vector.
    """
    inner = instruction.lhs.type.shape[-1]
    least = SIDE * target.lanes
    if inner < least:
        raise UnsupportedError(
            f"{instruction!r}: the sums of {inner} products are too short for Strassen's form, "
            f"which takes {least} or more; choose packed_mat_mul"
        )
    return plan_bilinear(_nest_of(instruction), target).as_plan(STRASSEN)


@head_kernel_for(
    StrassenMatMulInst,
    traits=KernelTraits(fuses_epilogue=True, stores_once=True, strided=("dest", "lhs")),
    planner=plan_strassen,
)
def strassen_mat_mul_source(
    instruction: StrassenMatMulInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, lhs, rhs, scales[, bias])`` of a product and its epilogue."""
    nest = _nest_of(instruction)
    plan = BilinearPlan.from_plan(plan_of(instruction, STRASSEN), nest, target)
    return generate_strassen(nest, plan, fusion)


def _nest_of(instruction: StrassenMatMulInst) -> StrassenNest:
    lhs = instruction.lhs.type
    inner, depth = lhs.shape[-1], instruction.depth
    return StrassenNest(prod(lhs.shape[:-1]), inner, depth, lhs.kind, instruction.block)


def generate_strassen(nest: StrassenNest, plan: BilinearPlan, fusion: Fusion) -> KernelSource:
    """Return the kernel of *nest*, cut up as *plan* says."""
    fusion = fusion.named_by_field()
    writer = StrassenWriter(nest, plan, fusion)
    title = (
        f"product of {nest.kind.value}<{nest.rows} x {nest.inner}> and {nest.depth} columns by "
        "Strassen's algorithm"
    )
    text = writer.write(title)
    return KernelSource("strassen", text, fusion.kinds, writer.scratch_bytes)
