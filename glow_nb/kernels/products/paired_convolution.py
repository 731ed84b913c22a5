"""Kernels of convolutions of bytes with weights in pairs that do not saturate."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from typing_extensions import override

from glow_nb.errors import UnsupportedError
from glow_nb.kernels.operators.paired import PairedConvolutionInst
from glow_nb.kernels.operators.pairings import FACTORS
from glow_nb.kernels.products.convolution import generate_convolution
from glow_nb.kernels.products.dot_form import paired_form
from glow_nb.kernels.products.product_loops import ProductWriter
from glow_nb.kernels.products.product_nest import ProductKinds, ProductNest
from glow_nb.kernels.products.product_plan import tile_steps
from glow_nb.kernels.products.reduction import SumLoop
from glow_nb.kernels.registry import head_kernel_for
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.traits import KernelTraits


@head_kernel_for(
    PairedConvolutionInst,
    traits=KernelTraits(fuses_epilogue=True, stores_once=True, strided=("dest", "input")),
)
def paired_convolution_source(
    instruction: PairedConvolutionInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, input, filter, bias, order)`` of a convolution and its epilogue.

    Raises:
        UnsupportedError: The processor has no instructions for that.
    """
    form = paired_form(target)
    if form is None:
        raise UnsupportedError(
            f"{instruction!r}: no kernel for {target.lanes} lanes of {target.cpu}, which does not "
            "multiply bytes in pairs; choose packed_convolution"
        )
    kinds = ProductKinds.of(instruction.input.type.kind, instruction.filter.type.kind, form)
    return generate_convolution(instruction, kinds, target, fusion, writes=PairedWriter)


class PairedWriter(ProductWriter):
    """Writes a product whose steps take inputs in an order that comes at run time.

    What is the place of weights in other products is the number of a run here: panels have as many
    as a sum has.
    """

    def __init__(self, nest: ProductNest, target: Target, fusion: Fusion) -> None:
        super().__init__(nest, target, fusion)
        head = fusion.head
        assert isinstance(head, PairedConvolutionInst)
        self.bias, self.order = [fusion.names[head.bias]], fusion.names[head.order]
        self.runs = prod(loop.count for loop in self.plan.sum.inner)
        self.nest = replace(self.nest, right=replace(self.nest.right, panel=self.runs))

    @override
    def _write_pointers(self) -> None:
        super()._write_pointers()
        begins = self.panels * self.runs + 1
        self.out.line(f"places = as_uint8(at({self.order}, {begins}))")

    @override
    def _right_distance(self, loop: SumLoop) -> int:
        return loop.right // self.plan.sum.dot

    @override
    def _write_dot(self, name: str, x: str, w: str, columns: int) -> None:
        order, row = self.order, self.nest.right.row
        stride, _ = tile_steps(self.nest, self.plan)
        first, end = f"get({order}, {w})", f"get({order}, {w} + 1)"
        self.out.line(f"step_{name} = {first}\nsteps_{name} = {end} - step_{name}")
        self.out.line(
            f"t_{name} = tile_dot_paired(t_{name}, {self.source}, {x}, {stride}, places, "
            f"step_{name} * {FACTORS}, {self.filter}, step_{name} * {row}, {row}, steps_{name})"
        )
