"""Running sums along an axis, with one line in each lane. Floats are summed in float64."""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.lines import Lines
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import native_lanes
from glow_nb.llir.instructions.reduction import CumSumInst


@kernel_for(CumSumInst)
def cum_sum_source(instruction: CumSumInst, target: Target) -> KernelSource:
    """Return the kernel ``(dest, input)`` of running sums."""
    type = instruction.input.type
    out = SourceWriter()
    with out.block("def kernel(dest, input, scratch, thread, threads):"):
        if type.size:
            _write(out, instruction, target)
        else:
            out.line("return")
    return KernelSource("cum_sum", out.text, (type.kind, type.kind))


def _write(out: SourceWriter, instruction: CumSumInst, target: Target) -> None:
    type = instruction.input.type
    lines = Lines.along(type.shape, instruction.axis)
    total = ElementKind.FLOAT64 if type.kind.is_float else type.kind
    lanes = lines.lanes(target.machine.unroll_vectors * native_lanes(target, total))
    store = f"store(dest, {lines.element('to', 'k')}, convert_{type.kind.value}(total))"
    last = lines.count - 1
    steps = f"range({last}, -1, -1)" if instruction.reverse else f"range({lines.count})"
    with lines.walk(out, lanes, results=lines.count) as (start, _):
        # Sums begin with the first number, also if that is -0.0; what comes before it is 0.
        zero = "-0.0" if total.is_float and not instruction.exclusive else "0"
        out.line(f"total = splat_{total.value}({zero}, {lanes})")
        with out.block(f"for k in {steps}:"):
            if instruction.exclusive:
                out.line(store)
            element = f"load(input, {lines.element(start, 'k')}, {lanes})"
            out.line(f"total = add(total, convert_{total.value}({element}))")
            if not instruction.exclusive:
                out.line(store)
