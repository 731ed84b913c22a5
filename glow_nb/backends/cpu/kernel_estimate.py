"""About how long a kernel takes, before it is made.

Products with packed weights are estimated as when their form was chosen, and channel-wise
convolutions of integers by the same prices
(:mod:`glow_nb.kernels.products.convolution_cost`), all else by its arithmetic and its bytes
(:func:`glow_nb.codegen.sharing.estimate_ns`).
"""

from __future__ import annotations

from dataclasses import replace

from glow_nb.base.costs import Cost
from glow_nb.base.dot_instruction import PAIRED_BYTES, dot_named_by
from glow_nb.base.types import ElementKind
from glow_nb.codegen.sharing import estimate_ns
from glow_nb.hlir.graph import Node
from glow_nb.kernels.cpu_kernels import CPU_KERNELS
from glow_nb.kernels.operators import (
    ChannelWiseConvolution,
    PackedConvolution,
    PackedMatMul,
    PairedConvolution,
    StrassenMatMul,
    WinogradConvolution,
)
from glow_nb.kernels.operators.pairings import fewest_steps
from glow_nb.kernels.products.channel_wise_cost import channel_wise_cycles
from glow_nb.kernels.products.channel_wise_plan import ChannelWisePlan, plan_channel_wise
from glow_nb.kernels.products.convolution_cost import (
    direct_cycles,
    panel_product_cycles,
)
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.products.paired_convolution import paired_shape
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.strassen.cost import strassen_cycles
from glow_nb.kernels.strassen.nest import StrassenNest
from glow_nb.kernels.target import Target
from glow_nb.kernels.winograd.cost import winograd_cycles
from glow_nb.kernels.winograd.nest import WinogradNest
from glow_nb.llir.cost import instruction_cost
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import Instruction
from glow_nb.llir.stack import StackInst
from glow_nb.llir.traits import traits_of

Convolving = PackedConvolution | WinogradConvolution


def estimated_ns(instruction: Instruction, target: Target) -> float:
    """Return about how long one thread of *target* takes for *instruction*, in nanoseconds."""
    return target.machine.call_ns + work_ns(instruction, target)


def work_ns(instruction: Instruction, target: Target) -> float:
    """Return about how long one thread takes for *instruction* beside the call of its kernel."""
    machine = target.machine
    cost = instruction_cost(instruction)
    parts = instruction.body if isinstance(instruction, StackInst) else (instruction,)
    nodes = [part.as_node() for part in parts if isinstance(part, NodeInstruction)]
    product_ns = 0.0
    cycle_ns = machine.fma_per_cycle * machine.multiply_add_ns  # both estimates mean one processor
    for node in nodes:
        cycles = _product_cycles(node, target)
        if cycles is not None:  # the weights are counted in it
            product_ns += cycle_ns * cycles
            done = node.executed_cost().multiply_adds
            left = Cost(cost.executed.multiply_adds - done, cost.executed.others)
            cost = replace(cost, executed=left, constant_bytes=0)
    is_scalar = traits_of(instruction, CPU_KERNELS.traits).is_scalar
    lanes, passes = (1, 1) if is_scalar else (target.lanes, target.passes)
    return product_ns + estimate_ns(cost, machine, lanes, passes)


def _product_cycles(node: Node, target: Target) -> float | None:
    """Return the estimated cycles of a product with packed weights, None of anything else."""
    match node:
        case PackedConvolution(block=block):
            kinds = _kinds_of(node, node.input.type.kind, node.filter.type.kind)
            return direct_cycles(_shape_of(node), kinds, target, block, 1)
        case PairedConvolution(block=block, input=input):
            kinds = ProductKinds.of(input.type.kind, node.filter.type.kind, PAIRED_BYTES)
            cycles = direct_cycles(paired_shape(node), kinds, target, block, 1)
            fewest = max(1, fewest_steps(node.depth, block, *node.runs))
            return cycles * node.filter.type.shape[0] / fewest
        case ChannelWiseConvolution():
            is_planned = node.plan and node.plan.has("rows")
            plan = (is_planned and node.plan) or plan_channel_wise(node, target)
            return channel_wise_cycles(ChannelWisePlan.of(node, plan, target), target)
        case WinogradConvolution(block=block, tile=tile):
            kind, filter_kind = node.input.type.kind, node.filter.type.kind
            nest = WinogradNest(_shape_of(node), tile, kind, block, taps_kind=filter_kind)
            return winograd_cycles(nest, target, 1)
        case StrassenMatMul(lhs=lhs, depth=depth, block=block):
            inner = lhs.type.shape[-1]
            rows = lhs.type.size // max(1, inner)
            product = StrassenNest(rows, inner, depth, lhs.type.kind, block)
            return strassen_cycles(product, target, 1)
        case PackedMatMul(lhs=lhs, rhs=rhs, block=block):
            kinds = _kinds_of(node, lhs.type.kind, rhs.type.kind)
            shape = MatMulShape.of(lhs.type.shape, node.depth, is_batched=rhs.type.rank > 3)
            return panel_product_cycles(shape, kinds.left, target, kinds.dot, block)
    return None


def _kinds_of(
    node: PackedConvolution | PackedMatMul, left: ElementKind, right: ElementKind
) -> ProductKinds:
    """Return the kinds that the elements of *node* are multiplied as, and by what."""
    dot = dot_named_by(node.plan)
    is_as_stored = dot.group > 1 or node.wide
    return ProductKinds.of(left, right, dot) if is_as_stored else ProductKinds.of(node.type.kind)


def _shape_of(node: Convolving) -> ConvolutionShape:
    return ConvolutionShape.of(
        node.input.type.shape,
        node.depth,
        node.kernel,
        node.pads,
        stride=node.stride,
        dilation=node.dilation,
        group=node.group,
    )
