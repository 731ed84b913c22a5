"""Kernels of convolutions of bytes with weights in pairs that do not saturate."""

from __future__ import annotations

from math import prod

from typing_extensions import override

from glow_nb.base.dot_instruction import PAIRED_BYTES
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.plan import Plan
from glow_nb.kernels.operators.paired import PairedConvolution, PairedConvolutionInst
from glow_nb.kernels.operators.pairings import STEP_INPUTS, WINDOW, most_steps
from glow_nb.kernels.products.blocking import lanes_of
from glow_nb.kernels.products.convolution import convolution_nest
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.loops import Loops, tile_steps
from glow_nb.kernels.products.product_loops import ProductWriter, generate_product
from glow_nb.kernels.products.product_nest import ProductKinds, ProductNest
from glow_nb.kernels.products.product_plan import plan_nest
from glow_nb.kernels.products.reduction import SumLoop
from glow_nb.kernels.registry import head_kernel_for, plan_of
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import times
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.traits import KernelTraits

PAIRED = "paired"
"""The algorithm that multiplies pairs of bytes by one instruction."""


def plan_paired(instruction: PairedConvolutionInst, target: Target, fusion: Fusion) -> Plan:
    """Plan a convolution of bytes in pairs, and its epilogue.

    Raises:
        UnsupportedError: There are no channels to sum up.
    """
    if instruction.input.type.shape[-1] == 0:
        raise UnsupportedError(
            f"{instruction!r}: the input {instruction.input.type} has no channels, and there is no "
            "kernel for it; choose packed_convolution"
        )
    return plan_nest(_nest_of(instruction, fusion), target, fusion, algorithm=PAIRED)


def _nest_of(instruction: PairedConvolutionInst, fusion: Fusion) -> ProductNest:
    kinds = ProductKinds.of(instruction.input.type.kind, instruction.filter.type.kind, PAIRED_BYTES)
    return convolution_nest(instruction, paired_shape(instruction), kinds, fusion)


@head_kernel_for(
    PairedConvolutionInst,
    traits=KernelTraits(fuses_epilogue=True, stores_once=True, strided=("dest", "input")),
    planner=plan_paired,
)
def paired_convolution_source(
    instruction: PairedConvolutionInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, input, filter, bias, order)`` of a convolution and epilogue."""
    nest = _nest_of(instruction, fusion)
    loops = Loops.from_plan(nest, plan_of(instruction, PAIRED), lanes_of(nest.kinds.total, target))
    title = paired_shape(instruction).description(nest.kinds.left)
    return generate_product(
        nest, loops, fusion, family="convolution", title=title, writes=PairedWriter
    )


def paired_shape(what: PairedConvolution | PairedConvolutionInst) -> ConvolutionShape:
    """Return the sizes of a convolution; a matrix is a line of pixels."""
    input = what.input.type.shape
    if not what.kernel:
        return ConvolutionShape.of((1, *input), what.depth, (1,), (0, 0))
    return ConvolutionShape.of(
        input, what.depth, what.kernel, what.pads, stride=what.stride, dilation=what.dilation
    )


class PairedWriter(ProductWriter):
    """Writes a product whose steps take inputs in an order that is read with the weights.

    Tiles of other products know where their weights begin. These know the number of their run,
    counted over all panels, and find in the order where its steps begin.
    """

    def __init__(self, nest: ProductNest, loops: Loops, fusion: Fusion) -> None:
        super().__init__(nest, loops, fusion)
        head = fusion.head
        assert isinstance(head, PairedConvolutionInst)
        self.bias, self.order = [fusion.names[head.bias]], fusion.names[head.order]
        self.runs = prod(loop.count for loop in self.loops.sum.inner)
        self.places_at, self.scratch_bytes = self.scratch_bytes, self._with_places(nest)
        is_whole = not self.loops.is_cut and self.runs * nest.run == nest.shape.steps
        assert is_whole, f"{nest} has runs that are cut or joined"

    def _with_places(self, nest: ProductNest) -> int:
        """Return the bytes of the scratch and, after it, of the places of the steps of a panel.

        Vectors of them are written whole.
        """
        steps = self.runs * most_steps(-(-nest.run // WINDOW)) + self.loops.lanes
        return self.scratch_bytes + steps * STEP_INPUTS

    @override
    def _write_pointers(self) -> None:
        super()._write_pointers()
        begins = self.panels * self.runs + 1
        self.out.line(f"numbers = as_uint16(at({self.order}, {begins}))")
        self.out.line(f"places = as_uint8(at(scratch, {self.places_at}))")

    @override
    def _write_pass(self) -> None:
        """Write the places of the steps of the panel to scratch, four bytes for each, first.

        If a step begins the next window, bit 4 of its first byte is set.
        """
        out, lanes, order = self.out, self.loops.lanes, self.order

        def spread(shift: int, mask: int) -> str:
            moved = f"shift_left(v, splat_int32({shift}, {lanes}))"
            return f"v = bit_and(bit_or(v, {moved}), splat_int32({mask:#x}, {lanes}))"

        out.line(f"begin = get({order}, {times('panel', self.runs)})")
        out.line(f"end = get({order}, {times('panel', self.runs)} + {self.runs})")
        with out.block(f"for step in range(0, end - begin, {lanes}):"):
            out.line(f"v = convert_int32(load(numbers, begin + step, {lanes}))")
            out.line(f"{spread(8, 0x00FF00FF)}\n{spread(4, 0x0F0F0F0F)}")
            first = f"bit_and(v, splat_int32(15, {lanes}))"
            second = f"bit_and(shift_right(v, splat_int32(8, {lanes})), splat_int32(15, {lanes}))"
            moves = f"where(greater({first}, {second}), "
            moves += f"splat_int32({WINDOW}, {lanes}), splat_int32(0, {lanes}))"
            out.line(f"store(as_int32(places), step, bit_or(v, {moves}))")
        super()._write_pass()

    @override
    def _panel_start(self) -> str:
        return times("panel", self.runs)

    @override
    def _right_distance(self, loop: SumLoop) -> int:
        return loop.right // self.loops.sum.dot

    @override
    def _write_dot(self, name: str, x: str, w: str, columns: int) -> None:
        dot, order, row = self.nest.kinds.dot, self.order, self.nest.right.row
        stride, _ = tile_steps(self.nest, self.loops)
        first, end = f"get({order}, {w})", f"get({order}, {w} + 1)"
        self.out.line(f"step_{name} = {first}\nsteps_{name} = {end} - step_{name}")
        self.out.line(
            f"t_{name} = {dot.name}(t_{name}, {self.source}, {x}, {stride}, places, "
            f"(step_{name} - begin) * {STEP_INPUTS}, {self.filter}, step_{name} * {row}, {row}, "
            f"steps_{name})"
        )
