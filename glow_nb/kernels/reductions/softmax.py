"""Softmax and its logarithm: the maximum, the sum of exponentials, the result; three walks."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from glow_nb.kernels.reductions.rows import Rows, RowsKernel
from glow_nb.kernels.registry import head_kernel_for
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.loops import broadcast_strides
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import Site, computed_kind, native_lanes
from glow_nb.kernels.writing.walks import Walk
from glow_nb.llir.instructions.normalization import LogSoftmaxInst, SoftmaxInst
from glow_nb.llir.traits import FUSES_BOTH


@head_kernel_for(SoftmaxInst, LogSoftmaxInst, traits=FUSES_BOTH)
def softmax_source(
    instruction: SoftmaxInst | LogSoftmaxInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel of a softmax, or of its logarithm, along any axis, and of its stack."""
    fusion = fusion.named("dest", "src")
    kind, shape = instruction.dest.type.kind, instruction.dest.type.shape
    tensors = fusion.tensors(lambda buffer: broadcast_strides(buffer, shape))
    lanes = target.machine.unroll_vectors * native_lanes(target, computed_kind(kind))
    axes = (instruction.axis,)
    walk = Walk.over(shape, axes, tensors, lanes)
    is_logarithm = isinstance(instruction, LogSoftmaxInst)
    # Exponentials may wait in the result, unless it would round them, and unless the epilogue may
    # read an operand that it lies upon.
    fits = kind is computed_kind(kind) and fusion.epilogue is None
    rows = Rows.of(fusion, walk, target, keeps=not is_logarithm and not fits)
    waits = "" if is_logarithm else "kept" if rows.keeps else "result" if fits else ""
    softmax = _Softmax(rows, instruction.dest.type, is_logarithm, waits)
    return softmax.source("log_softmax" if is_logarithm else "softmax")


@dataclass(frozen=True)
class _Softmax(RowsKernel):
    """The largest element, the sum of exponentials, then results.

    Attributes:
        is_logarithm: The result is the logarithm.
        waits: Where exponentials wait for their sum: ``kept`` in scratch, in the ``result``, or
            nowhere, which is empty.
    """

    is_logarithm: bool
    waits: str

    @override
    def write(self, out: SourceWriter, place: Site) -> None:
        """Write the three walks.

        NaN is not looked for in the maximum: it comes back in the exponentials.
        """
        lanes = self.walk.width(place)
        out.line(f"peak = splat_{self.wide}(-1e999, {lanes})")
        for site in self.walk.elements(out, place):
            x = self.rows.first(out, site)
            if self.walk.is_along:
                x = site.block.only(x, f"splat_{self.wide}(-1e999, {site.lanes})")
            out.line(f"x = {x}")
            out.line("peak = where(less(peak, x), x, peak)")
        if self.walk.is_along:
            out.line(f"peak = splat_{self.wide}(reduce_largest(peak), {lanes})")
        self._write_sum(out, place, lanes)
        self._write_results(out, place)

    def _write_sum(self, out: SourceWriter, place: Site, lanes: int) -> None:
        """Write the walk that sums exponentials, and keeps them if it can."""
        zero = f"splat_{self.wide}(0.0, {lanes})"
        out.line(f"total = {zero}")
        total, chain = "total", None
        if self.walk.is_long:
            total, chain = "part", (f"part = {zero}", "total = add(total, part)")
        for site in self.walk.elements(out, place, chain):
            x = self.rows.again(out, site)
            out.line(f"e = exp_nonpositive(sub({x}, peak))")
            if self.waits == "result":
                out.line(site.store(self._result, "e"))
            elif self.waits:
                out.line(f"store(kept, {site.step}, e)")
            none = f"splat_{self.wide}(0.0, {site.lanes})"
            e = site.block.only("e", none) if self.walk.is_along else "e"
            out.line(f"{total} = add({total}, {e})")
        if self.walk.is_along:
            out.line(f"total = splat_{self.wide}(reduce_add(total), {lanes})")
        if self.is_logarithm:
            out.line("total = log(total)")
        else:
            out.line("factor = reciprocal(total)")

    def _write_results(self, out: SourceWriter, place: Site) -> None:
        for site in self.walk.elements(out, place):
            if self.waits == "result":
                y = f"mul({site.load(self._result)}, factor)"
            elif self.waits:
                y = f"mul(load(kept, {site.step}, {site.lanes}), factor)"
            else:
                x = f"sub({self.rows.again(out, site)}, peak)"
                y = (
                    f"sub({x}, total)"
                    if self.is_logarithm
                    else f"mul(exp_nonpositive({x}), factor)"
                )
            self.fusion.write(out, site, self.stored(y))

    @property
    def _result(self) -> str:
        """Name of the pointer to the result."""
        return self.fusion.names[self.fusion.made]
