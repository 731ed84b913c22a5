"""TopK by insertion: the best so far stand in order in the result itself.

An element is compared with the worst of them first, so that of a long line in random order few are
inserted. A line that comes in the wrong order costs ``count * k`` steps.
"""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import index_text
from glow_nb.kernels.writing.lines import Lines
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.instructions.reduction import TopKInst
from glow_nb.llir.traits import SCALAR


@kernel_for(TopKInst, traits=SCALAR)
def top_k_source(instruction: TopKInst, target: Target) -> KernelSource:
    """Return the kernel ``(values, indices, input)`` of the k largest or smallest of each line."""
    kind = instruction.input.type.kind
    out = SourceWriter()
    with out.block("def kernel(values, indices, input, scratch, thread, threads):"):
        if instruction.values.type.size:
            _write(out, instruction)
        else:
            out.line("return")
    return KernelSource("top_k", out.text, (kind, ElementKind.INT64, kind))


def _write(out: SourceWriter, instruction: TopKInst) -> None:
    """Write the loop over lines, for the share of one thread."""
    lines = Lines.along(instruction.input.type.shape, instruction.axis)
    k = instruction.k
    better = _is_better(instruction)
    with lines.walk(out, 1, results=k) as (start, to):
        with out.block(f"for i in range({lines.count}):"):
            out.line(f"x = get(input, {lines.element(start, 'i')})")
            out.line(f"place = min(i, {k - 1})")
            with out.block(f"if i >= {k}:"):
                out.line(f"y = get(values, {lines.element(to, 'place')})")
                with out.block(f"if not ({better}):"):
                    out.line("continue")
            with out.block("while place > 0:"):
                above = f"{to} + {index_text(['(place - 1)'], [lines.inner])}"
                out.line(f"y = get(values, {above})")
                with out.block(f"if not ({better}):"):
                    out.line("break")
                out.line(f"put(values, {lines.element(to, 'place')}, y)")
                out.line(f"put(indices, {lines.element(to, 'place')}, get(indices, {above}))")
                out.line("place = place - 1")
            out.line(f"put(values, {lines.element(to, 'place')}, x)")
            out.line(f"put(indices, {lines.element(to, 'place')}, i)")


def _is_better(instruction: TopKInst) -> str:
    """Return whether ``x`` comes before ``y``, which was found earlier; NaN is the largest."""
    kind = instruction.input.type.kind
    sign = ">" if instruction.largest else "<"
    if not kind.is_float:
        return f"x {sign} y"
    nan, number = ("x", "y") if instruction.largest else ("y", "x")
    return f"x {sign} y or ({nan} != {nan} and {number} == {number})"
