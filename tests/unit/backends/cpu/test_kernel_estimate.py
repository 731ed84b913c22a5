"""How long kernels are estimated to take: by the estimates that chose their form."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.backends.cpu.kernel_estimate import estimated_ns
from glow_nb.backends.cpu.paired_weights import MOST_STEPS
from glow_nb.backends.cpu.select_packed_operators import candidates_of
from glow_nb.codegen.sharing import estimate_ns
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Convolution, MatMul, Relu
from glow_nb.hlir.ops.windows import Window
from glow_nb.kernels.operators import (
    ChannelWiseConvolution,
    PackedConvolution,
    PackedMatMul,
    PairedConvolution,
    WinogradConvolution,
)
from glow_nb.kernels.operators.pairings import fewest_steps
from glow_nb.kernels.target import Target
from glow_nb.llir.cost import instruction_cost
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import Instruction
from glow_nb.llir.stack import StackInst
from glow_nb.network import compilation as compiler

AVX2 = Target("x86_64-unknown-linux-gnu", "znver3", "+avx,+avx2,+fma,+f16c", lanes=8)
CALL_NS = AVX2.machine.call_ns
CYCLE_NS = AVX2.machine.fma_per_cycle * AVX2.machine.multiply_add_ns


def constant(b: glow_nb.Builder, kind: str, *shape: int) -> Any:
    return b.constant("w", np.ones(shape, kind))


def convolution(kind: str, taps: int, weights: str = "") -> Function:
    b = glow_nb.Builder("convolution")
    x = b.input("x", f"{kind}<1 x 28 x 28 x 64>")
    filter = constant(b, weights or kind, 64, taps, taps, 64)
    bias = b.constant("b", np.zeros(64, "float32" if kind == "float32" else "int32"))
    pads: Any = (taps // 2,) * 4
    node = Convolution(
        x, filter, bias, kernel=(taps, taps), stride=(1, 1), pads=pads, dilation=(1, 1), group=1
    )
    b.save(b.emit(node, name="product"), "y")
    return b.function()


def product(kind: str, weights: str = "") -> Function:
    b = glow_nb.Builder("product")
    x = b.input("x", f"{kind}<64 x 128>")
    b.save(b.emit(MatMul(x, constant(b, weights or kind, 128, 128)), name="product"), "y")
    return b.function()


def kernels(function: Function, target: Target = AVX2) -> list[Instruction]:
    backend = CpuBackend(target)
    lowered = compiler.lower_for(function, backend)
    return list(compiler.build_program(lowered, backend).work)


@pytest.mark.parametrize(
    ("function", "form"),
    [
        (convolution("float32", 1), PackedConvolution),
        (convolution("float32", 3), WinogradConvolution),
        (convolution("uint8", 1), PackedConvolution),
        (convolution("uint8", 1, "int8"), PairedConvolution),
        (product("float32"), PackedMatMul),
        (product("uint8"), PackedMatMul),
        (product("uint8", "int8"), PairedConvolution),
    ],
    ids=["direct", "winograd", "bytes", "paired", "matrices", "of bytes", "of paired bytes"],
)
def test_a_product_takes_as_long_as_the_candidate_that_was_chosen(
    function: Function, form: type[Any]
) -> None:
    (kernel,) = kernels(function)
    assert isinstance(kernel, NodeInstruction)
    assert isinstance(kernel.as_node(), form)
    node = function["product"]
    assert isinstance(node, Convolution | MatMul)
    chosen = candidates_of(node, AVX2, "auto")[0]
    cost = instruction_cost(kernel)
    beside = estimated_ns(kernel, AVX2) - CYCLE_NS * chosen.cycles - CALL_NS
    moved = cost.read_bytes + cost.written_bytes
    assert 0 < beside < 0.01 * moved + cost.executed.others


def test_steps_that_weights_take_are_counted() -> None:
    b = glow_nb.Builder("product")
    x = b.input("x", "uint8<64 x 128>")
    weights = np.clip(np.random.default_rng(1).normal(0, 42, (128, 48)), -127, 127)
    w = b.constant("w", weights.astype(np.int8))
    b.save(b.emit(MatMul(x, w), name="product"), "y")
    (kernel,) = kernels(b.function())
    node = b.function()["product"]
    assert isinstance(kernel, NodeInstruction)
    assert isinstance(node, MatMul)
    made = kernel.as_node()
    assert isinstance(made, PairedConvolution)
    fewest = fewest_steps(48, made.block, 1, 128)
    assert fewest < made.filter.type.shape[0] <= MOST_STEPS * fewest
    chosen = candidates_of(node, AVX2, "auto")[0]
    assert chosen.plan.number("block") == made.block
    beside = estimated_ns(kernel, AVX2) - CYCLE_NS * chosen.cycles - CALL_NS
    assert 0 < beside < 0.01 * (64 * 128 + 4 * 64 * 48) + 64 * 48


def channel_wise(
    pixels: int, channels: int, taps: int, *, size: int = 1, stride: int = 1
) -> Function:
    b = glow_nb.Builder("channel_wise")
    x = b.input("x", f"uint8<1 x {pixels} x {pixels} x {channels}>")
    filter = constant(b, "int8", channels, taps, taps, size)
    bias = b.constant("b", np.zeros(channels, "int32"))
    window = Window((taps, taps), (stride,) * 2, (taps // 2,) * 4, (1, 1)).attributes
    b.save(b.emit(Convolution(x, filter, bias, **window, group=channels // size)), "y")
    return b.function()


VNNI = Target("x86_64-unknown-linux-gnu", "znver4", "+avx,+avx2,+fma,+avxvnni", lanes=8)


@pytest.mark.parametrize("target", [AVX2, VNNI], ids=["AVX2", "VNNI"])
@pytest.mark.parametrize("size", [1, 4])
def test_more_work_of_a_channel_wise_convolution_takes_longer(target: Target, size: int) -> None:
    sizes = [(14, 64, 3), (15, 64, 3), (28, 64, 3), (28, 72, 3), (28, 128, 3), (28, 128, 5)]
    times = []
    for each in sizes:
        (kernel,) = kernels(channel_wise(*each, size=size), target)
        assert isinstance(kernel, NodeInstruction)
        assert isinstance(kernel.as_node(), ChannelWiseConvolution)
        times.append(estimated_ns(kernel, target))
    assert times == sorted(set(times))
    (strided,) = kernels(channel_wise(28, 128, 3, size=size, stride=2), target)
    assert estimated_ns(strided, target) < times[4]


def test_larger_groups_of_factors_take_less() -> None:
    times = []
    for target in (AVX2, VNNI):
        (kernel,) = kernels(channel_wise(28, 128, 3), target)
        times.append(estimated_ns(kernel, target))
    assert times[1] < times[0]


def test_integers_are_estimated_to_take_less() -> None:
    for network in (partial(convolution, taps=1), product):
        floats, bytes_ = (kernels(network(kind)) for kind in ("float32", "int8"))
        times = [sum(estimated_ns(kernel, AVX2) for kernel in each) for each in (floats, bytes_)]
        assert times[0] > times[1]


def test_an_epilogue_is_added_and_all_else_has_its_arithmetic_and_bytes() -> None:
    b = glow_nb.Builder("net")
    x = b.input("x", "float32<64 x 128>")
    made = b.emit(MatMul(x, constant(b, "float32", 128, 128)))
    b.save(b.emit(Relu(made)), "y")
    (stack,) = kernels(b.function())
    assert isinstance(stack, StackInst)
    (alone,) = kernels(product("float32"))
    assert 0 < estimated_ns(stack, AVX2) - estimated_ns(alone, AVX2) < 1000
    b = glow_nb.Builder("relu")
    b.save(b.emit(Relu(b.input("x", "float32<1000>"))), "y")
    (relu,) = kernels(b.function())
    assert estimated_ns(relu, AVX2) == CALL_NS + estimate_ns(
        instruction_cost(relu), AVX2.machine, 8
    )


@pytest.mark.jit
def test_the_report_of_a_kernel_has_its_estimate() -> None:
    target = Target.host()
    network = glow_nb.compile(product("float32"), threads=1)
    (kernel,) = network.program.work
    assert [each.estimated_ns for each in network.kernels] == [estimated_ns(kernel, target)]
