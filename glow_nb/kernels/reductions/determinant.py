"""Determinants: elimination with partial pivoting in scratch, in float64, one matrix at a time."""

from __future__ import annotations

from math import prod

from glow_nb.base.types import ElementKind
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.loops import share
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import native_lanes
from glow_nb.llir.instructions.matrix import DeterminantInst

FLOAT64 = ElementKind.FLOAT64


@kernel_for(DeterminantInst)
def determinant_source(instruction: DeterminantInst, target: Target) -> KernelSource:
    """Return the kernel ``(dest, input)`` of determinants."""
    kind, size = instruction.input.type.kind, instruction.input.type.shape[-1]
    lanes = native_lanes(target, FLOAT64)
    out = SourceWriter()
    with out.block("def kernel(dest, input, scratch, thread, threads):"):
        out.line("rows = as_float64(scratch)")
        with out.block(f"for matrix in {share(prod(instruction.dest.type.shape))}:"):
            out.line("product = 1.0")
            with out.block(f"for c in range({size * size}):"):
                out.line(f"x = get(input, matrix * {size * size} + c)")
                out.line("put(rows, c, x)")
                # A column of zeros ends the elimination: the columns that it would not reach are
                # checked here.
                with out.block("if x != x:"):
                    out.line("product = x")
            with out.block(f"for k in range({size}):"):
                _write_step(out, size, lanes)
            out.line("put(dest, matrix, product)")
    return KernelSource("determinant", out.text, (kind, kind), size * size * FLOAT64.size_bytes)


def _write_step(out: SourceWriter, size: int, lanes: int) -> None:
    """Write the elimination of column ``k`` below row ``k``, the row with the largest pivot."""
    out.line("largest = k\nbest = -1.0")
    with out.block(f"for i in range(k, {size}):"):
        out.line(f"x = get(rows, i * {size} + k)")
        with out.block("if x < 0.0:"):
            out.line("x = -x")
        with out.block("if x > best:"):
            out.line("best = x\nlargest = i")
    with out.block("if largest != k:"):
        out.line("product = -product")
        with out.block(f"for j in range(k, {size}):"):
            out.line(f"x = get(rows, k * {size} + j)")
            out.line(f"put(rows, k * {size} + j, get(rows, largest * {size} + j))")
            out.line(f"put(rows, largest * {size} + j, x)")
    out.line(f"pivot = get(rows, k * {size} + k)")
    out.line("product = product * pivot")
    with out.block("if pivot == 0.0:"):
        out.line("break")
    with out.block(f"for i in range(k + 1, {size}):"):
        out.line(f"factor = -get(rows, i * {size} + k) / pivot")
        out.line(f"many = splat_float64(factor, {lanes})")
        out.line("j = k + 1")
        with out.block(f"while j < {size}:"):
            _write_elimination(out, size, lanes)
            out.line(f"j = j + {lanes}")


def _write_elimination(out: SourceWriter, size: int, lanes: int) -> None:
    """Write the addition of ``factor`` times row ``k`` to row ``i``, from column ``j`` on."""
    above, row, rest = f"k * {size} + j", f"i * {size} + j", f"min({lanes}, {size} - j)"
    loads = (f"load_masked(rows, {place}, {lanes}, {rest})" for place in (above, row))
    out.line(f"store_masked(rows, {row}, fma(many, {', '.join(loads)}), {rest})")
