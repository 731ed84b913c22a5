"""Sums of padded tensors become concats that mean the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.types import Array
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.differentiate import differentiate
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops.shape import slice_axis
from glow_nb.hlir.optimize import GRAPH_PASSES

ROWS, SIZE = 2, 6


@st.composite
def sums(draw: st.DrawFn) -> Function:
    """Draw a sum of padded tensors and others, whose sums in between may be outputs."""
    builder = Builder()
    shape = f"float32<{ROWS} x {SIZE}>"
    total: Value = builder.input("x", shape)
    if draw(st.booleans()):
        total = _padded(draw, builder)
    for number in range(draw(st.integers(1, 5))):
        other = builder.input("x", shape) if not draw(st.integers(0, 4)) else _padded(draw, builder)
        operands = (total, other) if draw(st.booleans()) else (other, total)
        total = builder.emit(ops.Add(*operands))
        if not draw(st.integers(0, 5)):
            total = builder.emit(ops.Add(total, total))
        if not draw(st.integers(0, 5)):
            builder.save(total, f"part{number}")
    builder.save(total, "y")
    return builder.function()


def _padded(draw: st.DrawFn, builder: Builder) -> Value:
    axis = min(draw(st.integers(0, 4)), 1)
    size = (ROWS, SIZE)[axis]
    start = draw(st.integers(0, size))
    stop = draw(st.integers(start, size))
    shape = (stop - start, SIZE) if axis == 0 else (ROWS, stop - start)
    pads = (start, 0, size - stop, 0) if axis == 0 else (0, start, 0, size - stop)
    input = builder.input("x", f"float32<{shape[0]} x {shape[1]}>")
    return builder.emit(ops.Pad(input, pads, value=float(not draw(st.integers(0, 5)))))


def feeds_of(function: Function) -> dict[str, Array]:
    """Return whole numbers, which every order of sums gives alike."""
    rng = np.random.default_rng(0)
    return {p.name: rng.integers(-9, 9, p.type.shape).astype(np.float32) for p in function.inputs}


@given(sums())
def test_sums_keep_their_meaning(function: Function) -> None:
    changed = GRAPH_PASSES.run(function, ("padded_sums_to_concats",))
    feeds = feeds_of(function)
    wanted = evaluate(function, feeds)
    for name, found in evaluate(changed, feeds).items():
        np.testing.assert_array_equal(found, wanted[name])


def test_the_gradients_of_slices_are_written_once() -> None:
    builder = Builder()
    x = builder.input("x", "float32<40 x 3>")
    total: Value = builder.emit(ops.Exp(slice_axis(builder, x, 0, range(1))))
    for step in range(1, 40):
        total = builder.emit(ops.Mul(total, slice_axis(builder, x, 0, range(step, step + 1))))
    builder.save(builder.emit(ops.ReduceSum(total, (0, 1), keep_dims=False)), "loss")
    function = differentiate(builder.function(), ["x"])
    order = ("padded_sums_to_concats", "eliminate_dead_nodes")
    opcodes = [node.opcode for node in GRAPH_PASSES.run(function, order)]
    assert opcodes.count("concat") == 1
    assert not {"pad", "add"} & set(opcodes)
