"""What computes its input is drawn into a head: a pool, a reduction, a softmax."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value
from glow_nb.llir.generate import generate
from glow_nb.llir.stack import StackInst
from tests.passes_for_cpu import run_passes
from tests.unit.fuse.stacks import packed_convolution, stacked

HEADS: dict[str, Callable[[Value], Node]] = {
    "max_pool": lambda x: ops.MaxPool(
        x, kernel=(2, 2), stride=(2, 2), pads=(0, 0, 0, 0), dilation=(1, 1)
    ),
    "avg_pool": lambda x: ops.AvgPool(
        x, kernel=(2, 2), stride=(2, 2), pads=(0, 0, 0, 0), dilation=(1, 1), count_padding=True
    ),
    "reduce_sum": lambda x: ops.ReduceSum(x, axes=(1, 2), keep_dims=True),
    "reduce_max": lambda x: ops.ReduceMax(x, axes=(3,), keep_dims=False),
    "softmax": lambda x: ops.Softmax(x, axis=3),
    "log_softmax": lambda x: ops.LogSoftmax(x, axis=1),
}
DRAWING = [name for name in HEADS if "pool" not in name]


@pytest.mark.parametrize("head", HEADS)
def test_a_stack_rides_on_pools_reductions_and_softmax(b: Builder, x: Value, head: str) -> None:
    made = b.emit(HEADS[head](x))
    other = b.input("other", str(made.type))
    b.save(b.emit(ops.Relu(b.emit(ops.Add(made, other)))), "y")
    assert stacked(b)[1] == [f"{head}+add+relu"]


@pytest.mark.parametrize("head", DRAWING)
def test_what_computes_its_input_is_drawn_into_a_head(b: Builder, x: Value, head: str) -> None:
    row = b.input("row", "float32<1 x 4 x 1 x 8>")
    b.save(b.emit(ops.Neg(b.emit(HEADS[head](b.emit(ops.Tanh(b.emit(ops.Add(x, row)))))))), "y")
    program, kernels = stacked(b)
    assert kernels == [f"add+tanh+{head}+neg"]
    (stack,) = (i for i in program.work if isinstance(i, StackInst))
    assert [i.opcode for i in stack.prologue] == ["add", "tanh"]
    assert [i.opcode for i in stack.epilogue] == ["neg"]
    assert [buffer.name for buffer in stack.results] == ["y"]


def test_a_pool_draws_nothing_since_it_reads_elements_often(b: Builder, x: Value) -> None:
    b.save(b.emit(HEADS["max_pool"](b.emit(ops.Tanh(x)))), "y")
    assert stacked(b)[1] == ["tanh", "max_pool"]


def test_what_is_drawn_and_read_later_is_stored(b: Builder, x: Value) -> None:
    made = b.emit(ops.Tanh(x), "tanh")
    b.save(b.emit(HEADS["softmax"](made)), "y")
    b.save(b.emit(ops.Transpose(made, permutation=(3, 0, 1, 2))), "z")
    program, kernels = stacked(b)
    assert kernels == ["tanh+softmax", "transpose"]
    (stack,) = (i for i in program.work if isinstance(i, StackInst))
    assert [buffer.name for buffer in stack.results] == ["tanh", "y"]


def test_riders_read_nothing_from_before_the_head(b: Builder, x: Value) -> None:
    made = b.emit(ops.Tanh(x))
    b.save(b.emit(ops.Mul(made, b.emit(ops.Softmax(made, axis=3)))), "y")
    assert stacked(b)[1] == ["tanh+softmax", "mul"]


def test_a_head_draws_only_what_it_reads_once(b: Builder) -> None:
    made = b.emit(ops.Tanh(b.input("x", "float32<32>")))
    b.save(b.emit(ops.LayerNormalization(made, made, None, axis=0, epsilon=1e-5)), "y")
    nets = run_passes(generate(b.function()), ("stack_instructions",))
    assert [i.opcode for i in nets.work] == ["tanh", "layer_normalization"]


def test_a_window_is_not_drawn(b: Builder, x: Value) -> None:
    made = b.emit(ops.Reshape(b.emit(ops.Tanh(x)), shape=(16, 8)))
    b.save(b.emit(ops.ReduceSum(made, axes=(1,), keep_dims=False)), "y")
    assert stacked(b)[1] == ["tanh", "reduce_sum"]


def test_a_predicate_keeps_a_head_from_drawing_and_carrying(b: Builder, x: Value) -> None:
    mask = b.input("mask", "bool<1>")
    made = b.emit(ops.Softmax(b.emit(ops.Tanh(x)), axis=3, predicate=mask))
    b.save(b.emit(ops.Neg(made)), "y")
    assert stacked(b)[1] == ["tanh", "softmax", "neg"]


def test_few_results_leave_a_long_input_to_its_own_loop(b: Builder) -> None:
    made = b.emit(ops.Tanh(b.input("x", "float32<4 x 65536>")))
    b.save(b.emit(ops.ReduceSum(made, axes=(1,), keep_dims=False)), "y")
    assert stacked(b)[1] == ["tanh", "reduce_sum"]


def test_a_reader_in_between_keeps_what_a_head_could_draw(b: Builder, x: Value) -> None:
    tanh = b.emit(ops.Tanh(x))
    sums = b.emit(ops.CumSum(tanh, axis=3, exclusive=False, reverse=False))
    b.save(sums, "z")
    b.save(b.emit(ops.Softmax(tanh, axis=3)), "y")
    assert stacked(b)[1] == ["tanh", "cum_sum", "softmax"]


def test_a_head_draws_nothing_that_another_head_makes(b: Builder, x: Value) -> None:
    made = b.emit(ops.Relu(packed_convolution(b, x, "made")))
    b.save(b.emit(ops.Softmax(made, axis=3)), "y")
    assert stacked(b)[1] == ["packed_convolution+relu", "softmax"]


def test_what_does_not_lie_side_by_side_is_not_drawn(b: Builder) -> None:
    wide = b.input("wide", "float32<4 x 64>")
    part = ops.Slice(wide, starts=(0, 0), stops=(4, 64), steps=(1, 2))
    b.save(b.emit(ops.Softmax(b.emit(part), axis=1)), "y")
    assert stacked(b)[1] == ["copy", "softmax"]
