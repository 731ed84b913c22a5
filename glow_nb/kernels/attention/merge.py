"""The kernel that puts the parts of an attention together."""

from __future__ import annotations

from glow_nb.hlir.ops.attention import AXES
from glow_nb.kernels.attention.quotient import quotient
from glow_nb.kernels.operators.attention import PEAK_AND_TOTAL
from glow_nb.kernels.operators.attention_instructions import MergeAttentionPartsInst
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import index_text, plus, times
from glow_nb.kernels.writing.loops import loops
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import blocks_of, native_lanes


@kernel_for(MergeAttentionPartsInst)
def merge_source(instruction: MergeAttentionPartsInst, target: Target) -> KernelSource:
    """Return the kernel ``(dest, parts)``; a row is the work of one thread."""
    kind, lanes = instruction.dest.type.kind, native_lanes(target, instruction.dest.type.kind)
    count, *sizes, columns = instruction.parts.type.shape
    steps = instruction.parts.strides[1:-1]
    dest_steps = [instruction.dest.strides[axis] for axis in AXES[instruction.layout][:3]]
    width = columns - PEAK_AND_TOTAL
    out = SourceWriter()
    out.line(f"# {count} parts of the attention of {' x '.join(map(str, sizes))} rows of {width}")
    with out.block("def kernel(dest, parts, scratch, thread, threads):"):
        if instruction.dest.type.size:
            with loops(out, sizes, shared=True) as indices:
                out.line(f"dest_at = {index_text(indices, dest_steps)}")
                out.line(f"row_at = {index_text(indices, steps)}")
                _write_row(out, instruction, lanes)
        else:
            out.line("return")
    return KernelSource("merge_attention_parts", out.text, (kind, kind))


def _write_row(out: SourceWriter, instruction: MergeAttentionPartsInst, lanes: int) -> None:
    """Find the largest peak and the total of the parts, then their sums, of one row."""
    kind = instruction.dest.type.kind.value
    count, *_, columns = instruction.parts.type.shape
    of_part = plus("row_at", times("part", instruction.parts.strides[0]))
    width = columns - PEAK_AND_TOTAL

    def splat(number: str, lanes: int) -> str:
        return f"splat_{kind}({number}, {lanes})"

    def factor(lanes: int) -> str:
        peak = f"broadcast(parts, {of_part} + {width}, {lanes})"
        return f"exp_nonpositive(sub({peak}, {splat('base', lanes)}))"

    out.line(f"peak = {splat('-1e999', lanes)}")
    with out.block(f"for part in range({count}):"):
        out.line(f"x = broadcast(parts, {of_part} + {width}, {lanes})")
        out.line("peak = where(less(peak, x), x, peak)")
    is_hidden = f"equal(peak, {splat('-1e999', lanes)})"
    out.line(f"base = reduce_largest(where({is_hidden}, {splat('0.0', lanes)}, peak))")
    out.line(f"totals = {splat('0.0', lanes)}")
    with out.block(f"for part in range({count}):"):
        of_total = f"broadcast(parts, {of_part} + {width + 1}, {lanes})"
        out.line(f"totals = fma({of_total}, {factor(lanes)}, totals)")
    out.line("total = reduce_largest(totals)")
    for block in blocks_of(out, width, lanes):
        zero, all_parts = splat("0.0", block.lanes), splat("total", block.lanes)
        out.line(f"sums = {zero}")
        with out.block(f"for part in range({count}):"):
            load = block.load("parts", plus(of_part, block.column))
            out.line(f"sums = fma({load}, {factor(block.lanes)}, sums)")
        y = quotient("sums", all_parts, zero, instruction.masked_rows)
        out.line(block.store("dest", plus("dest_at", block.column), y))
