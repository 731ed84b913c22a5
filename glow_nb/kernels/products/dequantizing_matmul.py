"""Kernels of matrix products with low-bit weights."""

from __future__ import annotations

from contextlib import nullcontext

from typing_extensions import override

from glow_nb.base.dot_instruction import SINGLE
from glow_nb.base.plan import MAX_ROWS, Plan
from glow_nb.base.size import Size
from glow_nb.base.types import ElementKind
from glow_nb.kernels.operators.dequantizing import PackedDequantizingMatMulInst
from glow_nb.kernels.products.blocking import Columns
from glow_nb.kernels.products.coded_weights import CodedWeights, decoding_form, in_registers
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.loops import Loops, tile_steps
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.products.open_extents import example_size
from glow_nb.kernels.products.product_loops import ProductWriter, write_product
from glow_nb.kernels.products.product_nest import (
    LeftLayout,
    ProductKinds,
    ProductNest,
    RightLayout,
)
from glow_nb.kernels.products.product_plan import plan_loops, plan_nest
from glow_nb.kernels.products.written_panels import WrittenPanels
from glow_nb.kernels.registry import head_kernel_for, plan_of
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.pixels import elements_between_pixels
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.traits import KernelTraits

FLOAT32 = ElementKind.FLOAT32

IN_REGISTERS, IN_SCRATCH = "decode_in_registers", "decode_in_scratch"
"""The algorithms: where the codes become floats."""


def plan_dequantizing(
    instruction: PackedDequantizingMatMulInst, target: Target, fusion: Fusion
) -> Plan:
    """Plan a product with codes, and its epilogue: where they become floats, and the loops."""
    shape = _shape_of(instruction)
    vectors = Columns(shape.depth, instruction.block, target.lanes).vectors
    decodes = in_registers(example_size(shape.rows), vectors, target)
    nest = _nest_of(instruction, fusion, target.lanes, in_registers=decodes)
    plan = plan_nest(nest, target, fusion, algorithm=IN_REGISTERS if decodes else IN_SCRATCH)
    if decodes or not isinstance(shape.rows, Size):
        return plan
    few = next(n for n in range(MAX_ROWS, 0, -1) if in_registers(n, vectors, target))
    nest = _nest_of(instruction, fusion, target.lanes, in_registers=True)
    return plan.updated(**plan_loops(nest.with_rows(few), target).as_few())


@head_kernel_for(
    PackedDequantizingMatMulInst,
    traits=KernelTraits(fuses_epilogue=True, stores_once=True, strided=("dest", "lhs")),
    planner=plan_dequantizing,
    sees_open_sizes=True,
)
def packed_dequantizing_mat_mul_source(
    instruction: PackedDequantizingMatMulInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, lhs, rhs, scale[, offset])`` of a product and its epilogue."""
    plan, shape = plan_of(instruction, IN_REGISTERS, IN_SCRATCH), _shape_of(instruction)
    decodes = plan.algorithm == IN_REGISTERS
    nest = _nest_of(instruction, fusion, target.lanes, in_registers=decodes)
    codes = nest.codes
    assert codes is not None
    fusion = fusion.named_by_field()

    def writer_of(nest: ProductNest, loops: Loops, *, decodes: bool) -> _CodedProduct:
        codes = nest.codes
        assert codes is not None
        return (CodesInRegisters if decodes else CodesInScratch)(nest, codes, loops, fusion)

    writer = writer_of(nest, Loops.from_plan(nest, plan, target.lanes), decodes=decodes)
    few_nest = _nest_of(instruction, fusion, target.lanes, in_registers=True)
    few = Loops.few_from_plan(few_nest, plan, target.lanes)
    other = None if few is None else writer_of(few_nest, few, decodes=True)
    title = (
        f"product of {nest.kinds.left.value}<{shape.rows} x {shape.inner}> and {shape.depth} "
        f"columns of {codes.bits} bits, {codes.size} with one scale"
    )
    return write_product(writer, other, fusion, family="dequantizing_mat_mul", title=title)


def _shape_of(instruction: PackedDequantizingMatMulInst) -> MatMulShape:
    return MatMulShape.of(instruction.lhs.type.shape, instruction.depth, is_batched=False)


def _nest_of(
    instruction: PackedDequantizingMatMulInst, fusion: Fusion, lanes: int, *, in_registers: bool
) -> ProductNest:
    shape, block = _shape_of(instruction), instruction.block
    codes = CodedWeights(shape.inner, instruction.bits, instruction.size, in_registers)
    line = ConvolutionShape.of((1, shape.rows, shape.inner), shape.depth, (1,), (0, 0))
    dot = decoding_form(Columns(shape.depth, block, lanes).vectors) if in_registers else SINGLE
    return ProductNest(
        line,
        ProductKinds(instruction.lhs.type.kind, FLOAT32, FLOAT32, dot),
        block,
        LeftLayout.by_pixels(line, elements_between_pixels(fusion.input)),
        RightLayout(row=block, panel=shape.inner // codes.together * block if in_registers else 0),
        run=shape.inner,
        codes=codes,
    )


class _CodedProduct(ProductWriter):
    """Writes a product whose right operand are codes with scales and offsets."""

    def __init__(
        self, nest: ProductNest, codes: CodedWeights, loops: Loops, fusion: Fusion
    ) -> None:
        super().__init__(nest, loops, fusion)
        self.codes, self.bias = codes, []
        head = fusion.head
        assert isinstance(head, PackedDequantizingMatMulInst)
        self.scale = fusion.names[head.scale]
        self.offset = "0" if head.offset is None else fusion.names[head.offset]
        self.packed_codes = fusion.names[head.rhs]

    @override
    def _write_pointers(self) -> None:
        super()._write_pointers()
        in_words = self.codes.together > 1
        codes = f"as_int32({self.packed_codes})" if in_words else self.packed_codes
        self.out.line(f"codes = {codes}")

    @property
    def _scales_of_panel(self) -> str:
        """Where the scales of the panel begin."""
        return times("panel", self.codes.blocks * self.nest.block)


class CodesInRegisters(_CodedProduct):
    """Writes a product in which each code is read once, by the only tile."""

    def __init__(
        self, nest: ProductNest, codes: CodedWeights, loops: Loops, fusion: Fusion
    ) -> None:
        super().__init__(nest, codes, loops, fusion)
        self.filter = "codes"

    @property
    @override
    def fetched_share(self) -> int:
        return 0

    @override
    def _write_dot(self, name: str, x: str, w: str, columns: int) -> None:
        loops, codes, piece = self.loops, self.codes, f"j_{name}"
        unit, block = loops.sum.dot, self.nest.block
        first = "0" if codes.blocks == 1 else _quotient(piece, codes.size // unit)
        at = plus(self._scales_of_panel, times(first, block))
        rows = str(unit)
        if codes.inner % unit:
            rows = f"min({unit}, {codes.inner} - {times(piece, unit)})"
        stride, _ = tile_steps(self.nest, loops)
        self.out.line(
            f"t_{name} = tile_dot_codes(t_{name}, {self.source}, {x}, {stride}, codes, {w}, "
            f"{block}, {codes.bits}, ({rows}) // {codes.together}, {self.scale}, {self.offset}, "
            f"{at})"
        )


class CodesInScratch(_CodedProduct, WrittenPanels):
    """Writes a product whose tiles read floats, which are made of the codes for each pass."""

    @override
    def _write_pass(self) -> None:
        self._write_floats()
        super()._write_pass()

    def _write_floats(self) -> None:
        """Write the floats of the panel's part of an inner block to scratch."""
        out, codes, block = self.out, self.codes, self.nest.block
        row, length = "row" if self.loops.is_cut else "0", self._dot_length()
        panel_words = codes.inner // codes.together * block
        panel = times("panel", panel_words)
        part_words = self.loops.sum.dot // codes.together * block
        ahead = panel_words if self.loops.panels_inside else part_words
        out.line(f"codes_at = {plus(panel, times(_quotient(row, codes.together), block))}")
        first = "0" if codes.blocks == 1 else _quotient(row, codes.size)
        out.line(f"scales_at = {plus(self._scales_of_panel, times(first, block))}")
        has_several = codes.blocks > 1 and self.loops.sum.dot > codes.size
        blocks = f"for near in range({length} // {codes.size}):" if has_several else ""
        with out.block(blocks) if blocks else nullcontext():
            rows = str(codes.size) if has_several else length
            near = "near" if has_several else "0"
            to = times(near, codes.size * block)
            at = plus("codes_at", times(near, codes.size // codes.together * block))
            scales_at = plus("scales_at", times(near, block))
            out.line(
                f"dequantize_codes(near_panel, {to}, codes, {at}, {block}, {codes.bits}, "
                f"({rows}) // {codes.together}, {self.scale}, {self.offset}, {scales_at}, "
                f"{self.loops.lanes}, {ahead})"
            )


def _quotient(number: str, divisor: int) -> str:
    """Return *number*, a name, divided, in brackets."""
    return number if number == "0" or divisor == 1 else f"({number} // {divisor})"
