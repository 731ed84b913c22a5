"""What graph compilers are known to get wrong: each case here was once a bug of some compiler."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import glow_nb
from glow_nb.backends import backend_named
from glow_nb.base.passes import PassRun
from glow_nb.base.types import Array
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.kernels.operators.packed_instructions import PackedConvolutionInst
from glow_nb.llir.stack import StackInst
from glow_nb.network import compilation as compiler

POINT = {"kernel": (1,), "stride": (1,), "pads": (0, 0), "dilation": (1,), "group": 1}


def numbers(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def convolution(b: Builder, x: Value, filter: Value | None = None) -> ops.Convolution:
    channels = x.type.shape[-1]
    filter = filter or b.constant("w", numbers(channels, 1, channels))
    bias = b.constant("b", numbers(channels))
    return b.emit(ops.Convolution(x, filter, bias, **POINT))  # type: ignore[arg-type]


def normalization(b: Builder, x: Value, scale: Array) -> ops.BatchNormalization:
    arrays = (scale, numbers(len(scale)), numbers(len(scale)), np.abs(numbers(len(scale))))
    first, bias, mean, variance = (b.constant("n", array) for array in arrays)
    axis = x.type.rank - 1
    return b.emit(
        ops.BatchNormalization(x, first, bias, mean, variance, epsilon=0.1, channel_axis=axis)
    )


def check(function: Function, tolerance: float = 1e-5) -> Function:
    """Return *function* optimized, after checking that it means the same."""
    optimized = compiler.optimize(function)
    feeds = {p.name: numbers(*p.type.shape) for p in function.inputs}
    want, got = evaluate(function, feeds), evaluate(optimized, feeds)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=tolerance, atol=tolerance)
    return optimized


def opcodes(function: Function) -> Counter[str]:
    return Counter(node.opcode for node in function.nodes)


def test_a_normalization_behind_an_activation_does_not_fold_into_what_is_before_it() -> None:
    b = Builder()
    bent = b.emit(ops.Relu(convolution(b, b.input("x", "float32<1 x 5 x 4>"))))
    b.save(normalization(b, bent, np.array([-1, 2, -3, 4], np.float32)), "y")
    assert opcodes(check(b.function()))["relu"] == 1


def test_weights_that_others_read_are_not_changed() -> None:
    b = Builder()
    x = b.input("x", "float32<1 x 5 x 4>")
    shared = b.constant("w", numbers(4, 1, 4))
    b.save(normalization(b, convolution(b, x, shared), np.ones(4, np.float32)), "y")
    b.save(convolution(b, b.emit(ops.Tanh(x)), shared), "z")
    assert opcodes(check(b.function())) == {"convolution": 2, "tanh": 1, "save": 2}


def test_a_result_that_is_an_output_as_well_stays() -> None:
    b = Builder()
    conv = convolution(b, b.input("x", "float32<1 x 5 x 4>"))
    b.save(conv, "y")
    b.save(normalization(b, conv, np.full(4, 2, np.float32)), "z")
    check(b.function())


def test_a_layer_normalization_far_from_zero_does_not_cancel() -> None:
    b = Builder()
    x = b.input("x", "float32<2 x 64>")
    centred = b.emit(ops.Sub(x, b.emit(ops.ReduceMean(x, axes=(1,)))))
    variance = b.emit(ops.ReduceMean(b.emit(ops.Mul(centred, centred)), axes=(1,)))
    epsilon = b.constant("epsilon", np.full((1, 1), 1e-6, np.float32))
    root = b.emit(ops.Sqrt(b.emit(ops.Add(variance, epsilon))))
    b.save(b.emit(ops.Div(centred, root)), "y")
    function = b.function()
    net = glow_nb.compile(function, backend="interpreter")
    assert "layer_normalization" in opcodes(compiler.optimize(function))
    array = (4096 + numbers(2, 64)).astype(np.float32)
    wide = array.astype(np.float64)
    wide -= wide.mean(axis=1, keepdims=True)
    want = wide / np.sqrt(np.square(wide).mean(axis=1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(net.run(array)["y"], want, atol=1e-3)


@pytest.mark.parametrize("axes", [(0,), (1, 2), (0, 2), (0, 1, 2, 3)])
def test_a_mean_may_be_over_any_axes(axes: tuple[int, ...]) -> None:
    b = Builder()
    x = b.input("x", "float32<2 x 3 x 4 x 5>")
    transposed = b.emit(ops.Transpose(x, (0, 3, 1, 2)))
    b.save(b.emit(ops.ReduceMean(transposed, axes=axes, keep_dims=False)), "y")
    check(b.function())


def test_products_in_a_chain_are_not_merged() -> None:
    b = Builder()
    x = b.input("x", "float32<2 x 16>")
    first, second = (b.constant("m", numbers(16, n)) for n in (3, 3))
    narrow = b.emit(ops.MatMul(x, first))
    again = b.emit(ops.Tile(narrow, (1, 6)))
    back = b.emit(ops.Slice(again, (0, 0), (2, 16), (1, 1)))
    b.save(b.emit(ops.MatMul(b.emit(ops.Tanh(back)), second)), "y")
    assert opcodes(check(b.function()))["mat_mul"] == 2


def test_an_activation_does_not_cost_a_convolution_its_fast_kernel() -> None:
    b = Builder()
    b.save(b.emit(ops.Relu(convolution(b, b.input("x", "float32<1 x 64 x 16>")))), "y")
    cpu = backend_named("cpu")
    program = compiler.build_program(compiler.lower_for(b.function(), cpu), cpu)
    (stack,) = [i for i in program.work if isinstance(i, StackInst)]
    assert isinstance(stack.head, PackedConvolutionInst)
    assert len(program.work) == 1


def test_deep_networks_reach_the_fixed_point_in_few_rounds() -> None:
    b = Builder()
    value: Node | Value = b.input("x", "float32<4 x 8 x 8>")
    for _ in range(40):
        weights = b.constant("m", numbers(8, 8) / 8)
        product = b.emit(ops.MatMul(value, weights))
        value = b.emit(ops.Add(value, b.emit(ops.Tanh(product))))
    b.save(b.emit(ops.Slice(value, (0, 0, 0), (4, 1, 8), (1, 1, 1))), "y")
    runs: list[PassRun] = []
    optimized = compiler.optimize(b.function(), observer=runs.append)
    assert opcodes(optimized)["slice"] == 1
    assert sum(run.name == "raise_attention" for run in runs) <= 4  # rounds
    assert all(node.type.size <= 32 for node in optimized.nodes)
