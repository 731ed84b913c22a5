"""Softmax and its logarithm: the maximum, the sum of exponentials, the result; three walks."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.source import KernelSource, SourceWriter
from glow_nb.kernels.target import Target
from glow_nb.kernels.vectors import Block, computed_kind, native_lanes
from glow_nb.kernels.walks import Walk
from glow_nb.llir.instructions.normalization import LogSoftmaxInst, SoftmaxInst
from glow_nb.types import ElementKind

UNROLL = 2
"""Vectors at a time: with more, exponentials and the sum do not fit into 16 registers."""


@kernel_for(SoftmaxInst, LogSoftmaxInst)
def softmax_source(instruction: SoftmaxInst | LogSoftmaxInst, target: Target) -> KernelSource:
    """Return the kernel of a softmax, or of its logarithm, along any axis."""
    dest, source = instruction.dest, instruction.input
    kind = computed_kind(dest.type.kind)
    walk = Walk.over(
        dest.type.shape,
        (instruction.axis,),
        {"dest": dest.strides, "src": source.strides},
        UNROLL * native_lanes(target, kind),
    )
    softmax = _Softmax(walk, dest.type.kind, isinstance(instruction, LogSoftmaxInst))
    out = SourceWriter()
    with out.block("def kernel(dest, src, scratch, thread, threads):"):
        if not dest.type.size:
            out.line("return")
        else:
            for block in walk.places(out):
                softmax.write(out, block)
    family = "log_softmax" if softmax.is_logarithm else "softmax"
    return KernelSource(family, out.text, (dest.type.kind, dest.type.kind))


@dataclass(frozen=True)
class _Softmax:
    """The body of the kernel at one place, or at the places of a block.

    Attributes:
        walk: Its loops.
        kind: Kind of the elements.
        is_logarithm: The result is the logarithm.
    """

    walk: Walk
    kind: ElementKind
    is_logarithm: bool

    @property
    def wide(self) -> str:
        """Name of the kind that is computed in."""
        return computed_kind(self.kind).value

    def write(self, out: SourceWriter, place: Block | None) -> None:
        """Write the three walks.

        NaN is not looked for in the maximum: it comes back in the exponentials.
        """
        lanes = self.walk.lanes if place is None else place.lanes
        out.line(f"peak = splat_{self.wide}(-1e999, {lanes})")
        for block, places in self.walk.elements(out, place):
            x = self._load(block, places["src"])
            if place is None:
                x = block.only(x, f"splat_{self.wide}(-1e999, {lanes})")
            out.line(f"x = {x}")
            out.line("peak = where(less(peak, x), x, peak)")
        if place is None:
            out.line(f"peak = splat_{self.wide}(reduce_largest(peak), {lanes})")
        self._write_sum(out, place, lanes)
        self._write_results(out, place)

    def _write_sum(self, out: SourceWriter, place: Block | None, lanes: int) -> None:
        """Write the walk that sums exponentials and keeps them if that loses nothing."""
        zero = f"splat_{self.wide}(0.0, {lanes})"
        out.line(f"total = {zero}")
        total, chain = "total", None
        if self.walk.is_long:
            total, chain = "part", (f"part = {zero}", "total = add(total, part)")
        for block, places in self.walk.elements(out, place, chain):
            out.line(f"e = exp_nonpositive(sub({self._load(block, places['src'])}, peak))")
            if self._keeps_exponentials:
                out.line(block.store("dest", places["dest"], "e"))
            e = block.only("e", zero) if place is None else "e"
            out.line(f"{total} = add({total}, {e})")
        if place is None:
            out.line(f"total = splat_{self.wide}(reduce_add(total), {lanes})")
        if self.is_logarithm:
            out.line("total = log(total)")
        else:
            out.line("factor = reciprocal(total)")

    def _write_results(self, out: SourceWriter, place: Block | None) -> None:
        for block, places in self.walk.elements(out, place):
            x = self._load(block, places["src"])
            if self.is_logarithm:
                y = f"sub(sub({x}, peak), total)"
            elif self._keeps_exponentials:
                y = f"mul({block.load('dest', places['dest'])}, factor)"
            else:
                y = f"mul(exp_nonpositive(sub({x}, peak)), factor)"
            y = y if self.kind.value == self.wide else f"convert_{self.kind.value}({y})"
            out.line(block.store("dest", places["dest"], y))

    @property
    def _keeps_exponentials(self) -> bool:
        """True if exponentials wait in the result: not if it would round them."""
        return not self.is_logarithm and self.kind.value == self.wide

    def _load(self, block: Block, index: str) -> str:
        x = block.load("src", index)
        return x if self.kind.value == self.wide else f"convert_{self.wide}({x})"
