"""Open sizes, which a kernel gets as arguments, as numbers in memory."""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.instructions.sizes import SizesInst
from glow_nb.llir.traits import SERIAL


@kernel_for(SizesInst, traits=SERIAL)
def sizes_source(instruction: SizesInst, target: Target) -> KernelSource:
    """Return the kernel ``(dest)`` that writes the numbers."""
    out = SourceWriter()
    with out.block("def kernel(dest, scratch, thread, threads):"):
        with out.block("if thread == 0:"):
            out.line("pass")
            for place, number in enumerate(instruction.numbers):
                out.line(f"put(dest, {place}, {number})")
    return KernelSource("sizes", out.text, (ElementKind.INT64,))
