"""Heads with prologue and epilogue in one kernel, against the operators one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np
import pytest

import glow_nb
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators.packed_instructions import PackedMatMulInst
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.generate import generate
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import Buffer, Register, kernel_operands
from glow_nb.llir.stack import StackInst
from tests.in_turn import each_with_one_width, in_turn
from tests.passes_for_cpu import run_passes
from tests.unit.kernels.cases import assert_close
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact

AddInst, ReluInst = instruction_for(ops.Add), instruction_for(ops.Relu)

TARGETS = [Target.host(lanes) for lanes in LANE_COUNTS]
Make = Callable[[Value], Node]


def max_pool(x: Value) -> Node:
    return ops.MaxPool(x, kernel=(3, 2), stride=(2, 1), pads=(1, 0, 0, 1), dilation=(1, 1))


def avg_pool(x: Value) -> Node:
    return ops.AvgPool(
        x, kernel=(2, 2), stride=(1, 1), pads=(1, 1, 0, 0), dilation=(1, 1), count_padding=False
    )


HEADS: dict[str, Make] = {
    "sum_of_rows": lambda x: ops.ReduceSum(x, axes=(3,), keep_dims=True),
    "mean_of_pixels": lambda x: ops.ReduceMean(x, axes=(1, 2), keep_dims=True),
    "max_of_rows_and_lines": lambda x: ops.ReduceMax(x, axes=(1, 3), keep_dims=False),
    "min_of_batch": lambda x: ops.ReduceMin(x, axes=(0,), keep_dims=False),
    "product_of_all": lambda x: ops.ReduceProd(x, axes=(0, 1, 2, 3), keep_dims=True),
    "softmax_of_rows": lambda x: ops.Softmax(x, axis=3),
    "softmax_of_lines": lambda x: ops.Softmax(x, axis=1),
    "log_softmax": lambda x: ops.LogSoftmax(x, axis=3),
    "log_softmax_of_columns": lambda x: ops.LogSoftmax(x, axis=2),
}
POOLS: dict[str, Make] = {"max_pool": max_pool, "avg_pool": avg_pool}
SHAPES = [(2, 5, 6, 37), (3, 4, 5, 4), (1, 9, 2, 1)]


class Case:
    """A graph under construction with random inputs."""

    def __init__(self, seed: int = 0) -> None:
        self.builder = Builder()
        self.rng = np.random.default_rng(seed)
        self.feeds: dict[str, Array] = {}

    def input(self, *shape: int, kind: str = "float32") -> Value:
        name = f"in{len(self.feeds)}"
        sizes = " x ".join(map(str, shape))
        value = self.builder.input(name, f"{kind}<{sizes}>")
        self.feeds[name] = self.rng.normal(size=shape).astype(value.type.kind.dtype)
        return value

    def emit(self, node: Node) -> Value:
        return self.builder.emit(node)

    def save(self, value: Value) -> None:
        self.builder.save(value, f"out{len(self.builder.outputs)}")

    def check(self, target: Target, *, ulp: float = 64) -> StackInst:
        """Run the one kernel that all of it has become, for several numbers of threads."""
        function = self.builder.function()
        work = run_passes(generate(function), ("stack_instructions",)).work
        (stack,) = (i for i in work if isinstance(i, StackInst))
        outputs = {buffer: buffer.name for buffer in stack.results}
        for copy in work:
            if isinstance(copy, CopyInst):  # of an intermediate result to an output
                outputs[copy.src] = copy.dest.name
        wanted = glow_nb.evaluate(function, self.feeds)
        kernel = RunningKernel(generate_kernel(stack, target), target)
        for threads in (1, 2, 3):
            results = {b: guarded(b.type.shape, b.type.kind) for b in stack.results}
            kernel(*(self._array(b, results) for b in kernel_operands(stack)), threads=threads)
            for buffer, (got, whole) in results.items():
                assert guards_are_intact(whole), "wrote outside of a result"
                assert_close(got, wanted[outputs[buffer]], ulp=ulp, absolute=2e-6)
        return stack

    def _array(self, buffer: Buffer, results: Mapping[Buffer, tuple[Array, Array]]) -> Array:
        return results[buffer][0] if buffer in results else self.feeds[buffer.name]


def ride(case: Case, value: Value) -> Value:
    """Put a broadcast operand, one of the same shape and an activation upon *value*."""
    shape = value.type.shape
    same = case.input(*shape)
    repeated = case.input(*(n if axis % 2 else 1 for axis, n in enumerate(shape)))
    total = case.emit(ops.Add(case.emit(ops.Mul(value, repeated)), same))
    return case.emit(ops.Tanh(total))


DRAWN = [*itertools.product(LANE_COUNTS, range(len(SHAPES)))]
"""Lanes and the number of a shape."""


@pytest.mark.jit
@pytest.mark.parametrize(("head", "drawn"), in_turn([*HEADS, *POOLS], DRAWN))
def test_a_stack_rides_on_a_head(head: str, drawn: tuple[int, int]) -> None:
    lanes, number = drawn
    case = Case(number)
    made = case.emit((HEADS | POOLS)[head](case.input(*SHAPES[number])))
    result = ride(case, made)
    if number:  # what the head makes is an output itself
        case.save(made)
    case.save(result)
    stack = case.check(Target.host(lanes))
    assert len(stack.epilogue) >= 3 and not stack.prologue


@pytest.mark.jit
@pytest.mark.parametrize(("head", "drawn"), in_turn(HEADS, DRAWN))
def test_producers_of_every_broadcast_shape_are_drawn(head: str, drawn: tuple[int, int]) -> None:
    lanes, number = drawn
    case, shape = Case(number), SHAPES[number]
    batch, height, width, channels = shape
    value = case.emit(ops.Add(case.input(*shape), case.input(1, height, 1, channels)))
    value = case.emit(ops.Sub(value, case.input(batch, 1, width, 1)))
    value = case.emit(ops.Mul(value, case.input(1, 1, 1, 1)))
    if number:  # what the head draws is an output itself
        case.save(value)
    case.save(case.emit(HEADS[head](value)))
    stack = case.check(Target.host(lanes))
    assert len(stack.prologue) >= 3


@pytest.mark.jit
@pytest.mark.parametrize(
    ("head", "keep"),
    in_turn([name for name in HEADS if "softmax" in name], ["in scratch", "computed again"]),
)
def test_dear_producers_are_kept_if_a_row_is_short(head: str, keep: str) -> None:
    target = Target.host()
    if keep == "computed again":
        target = target.with_machine(l2_row_bytes=0)
    case = Case()
    inner = case.emit(ops.Sigmoid(case.input(*SHAPES[0])))
    case.save(inner)
    value = case.emit(ops.Tanh(case.emit(ops.Add(inner, case.input(*SHAPES[0])))))
    case.save(ride(case, case.emit(HEADS[head](value))))
    case.check(target)


@pytest.mark.jit
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.lanes}-lanes")
def test_layer_normalization_of_a_sum_and_an_activation_upon_it(target: Target) -> None:
    for width in (37, 64, 5):
        case = Case(width)
        shape = (7, 3, width)
        value = case.emit(ops.Add(case.input(*shape), case.input(*shape)))
        case.save(value)
        scale, bias = case.input(width), case.input(width)
        made = case.emit(ops.LayerNormalization(value, scale, bias, axis=2, epsilon=1e-5))
        case.save(case.emit(ops.Relu(made)))
        stack = case.check(target)
        assert stack.prologue and stack.epilogue


@pytest.mark.jit
@pytest.mark.parametrize(
    ("softmax", "lanes"), each_with_one_width([ops.Softmax, ops.LogSoftmax], slow=[ops.LogSoftmax])
)
def test_softmax_of_short_rows_with_all_that_stands_around(
    softmax: Callable[..., Node], lanes: int
) -> None:
    """The slow run also has LogSoftmax, which test_walks has without neighbours in both runs."""
    target = Target.host(lanes)
    for rows, length in ((70, 12), (33, 3)):
        case = Case(length)
        value = case.emit(ops.Mul(case.input(rows, length), case.input(rows, 1)))
        value = case.emit(ops.Add(value, case.input(1, length)))
        value = case.emit(ops.Sub(value, case.input(1, 1)))
        case.save(value)
        made = case.emit(softmax(value, axis=1))
        made = case.emit(ops.Mul(made, case.input(rows, 1)))
        case.save(made)
        case.save(case.emit(ops.Sub(case.input(rows, length), made)))
        case.check(target)


@pytest.mark.jit
def test_element_kinds_mix_in_one_kernel() -> None:
    case = Case()
    half = case.input(*SHAPES[0], kind="float16")
    is_large = case.emit(ops.Greater(half, case.input(*SHAPES[0], kind="float16")))
    numbers = case.emit(ops.ConvertTo(half, kind=ElementKind.FLOAT32))
    value = case.emit(ops.Select(is_large, numbers, case.input(*SHAPES[0])))
    made = case.emit(ops.Softmax(value, axis=3))
    case.save(case.emit(ops.ConvertTo(made, kind=ElementKind.FLOAT64)))
    case.check(Target.host())
    case = Case()
    value = case.emit(ops.Neg(case.input(*SHAPES[0], kind="float16")))
    case.save(case.emit(ops.Relu(case.emit(ops.Softmax(value, axis=3)))))
    case.check(Target.host(), ulp=2)


@pytest.mark.jit
def test_a_pool_rides_over_its_own_input() -> None:
    case = Case()
    x = case.input(2, 6, 6, 12)
    made = ops.MaxPool(x, kernel=(3, 3), stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1))
    case.save(case.emit(ops.Add(case.emit(made), x)))
    case.check(Target.host())


def residual_product() -> tuple[StackInst, Buffer]:
    """Return the stack ``dest = relu(lhs x rhs + row)``, which stores the sum, and the row."""
    type = TensorType(ElementKind.FLOAT32, (3, 16))
    made, total, dest = Register("made", type), Buffer("total", type), Buffer("dest", type)
    lhs, row = (Buffer(n, TensorType(type.kind, (s, 16))) for n, s in (("lhs", 3), ("row", 1)))
    rhs = Buffer("rhs", TensorType(type.kind, (1, 16, 16)))
    head = PackedMatMulInst(made, lhs, rhs, None, depth=16, block=16)
    return StackInst.of([head, AddInst(total, made, row), ReluInst(dest, total)]), row


def test_pointers_are_numbered_or_called_as_the_fields_of_the_head() -> None:
    stack, row = residual_product()
    plain = Fusion.of(stack)
    assert [name for name, _ in plain.pointers] == ["dest0", "dest1", "src0", "src1", "src2"]
    assert [buffer for _, buffer in plain.pointers] == list(kernel_operands(stack))
    named = plain.named_by_field()
    wanted = "def kernel(dest, result1, lhs, rhs, operand0, scratch, thread, threads):"
    assert named.header == wanted
    assert named.names[row] == "operand0"
    assert named.named("any", "other") is named


def test_a_head_alone_has_nothing_around_it() -> None:
    head = residual_product()[0].head
    assert head is not None
    alone = Fusion.of(head)
    assert (alone.prologue, alone.epilogue) == (None, None)
    assert alone.results == (alone.made,)
    names = [name for name, _ in alone.named("y", "a", "b").pointers]
    assert names == ["y", "a", "b"]
    assert [name for name, _ in alone.named_by_field().pointers] == ["dest", "lhs", "rhs"]
