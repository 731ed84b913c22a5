"""Operators that move elements, against NumPy's indexing and ONNX's reference implementation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.errors import VerifyError
from glow_nb.base.types import Array
from glow_nb.hlir import ops
from glow_nb.hlir.lower import lower
from tests.unit.hlir.ops.applying import (
    apply,
    check_lowering,
    floats,
    function_of,
    onnx_result,
    run,
    value,
)

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def counted(shape: tuple[int, ...], dtype: type = np.int32) -> Array:
    return np.arange(math.prod(shape)).astype(dtype).reshape(shape)


@given(st.data(), SHAPES)
def test_transpose(data: st.DataObject, shape: tuple[int, ...]) -> None:
    permutation = tuple(data.draw(st.permutations(range(len(shape)))))
    x = counted(shape)
    found = apply(ops.Transpose, x, permutation=permutation)
    np.testing.assert_array_equal(found, x.transpose(permutation))


def test_reshape_of_every_size() -> None:
    x = counted((2, 6))
    np.testing.assert_array_equal(apply(ops.Reshape, x, shape=(3, 4)), x.reshape(3, 4))
    assert apply(ops.Reshape, counted((1, 1)), shape=()).shape == ()
    assert apply(ops.Reshape, counted((0, 3)), shape=(5, 0)).shape == (5, 0)


@given(st.data(), SHAPES)
def test_concat_undoes_split(data: st.DataObject, shape: tuple[int, ...]) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    cut = data.draw(st.integers(0, shape[axis]))
    x = counted(shape)
    sizes = (cut, shape[axis] - cut)
    pieces = apply(ops.Split, x, axis=axis, sizes=sizes)
    np.testing.assert_array_equal(pieces[0], np.take(x, range(cut), axis=axis))
    np.testing.assert_array_equal(apply(ops.Concat, pieces, axis=axis), x)
    check_lowering(ops.Split, x, axis=axis, sizes=sizes)
    check_lowering(ops.Split, x, axis=axis, sizes=(shape[axis],))


@st.composite
def ranges(draw: st.DrawFn, size: int) -> range:
    """A range that stays inside an axis of *size*, its ends not beyond what the step allows."""
    step = draw(st.sampled_from([-3, -2, -1, 1, 2, 3]))
    if step > 0:
        start = draw(st.integers(0, size))
        return range(start, draw(st.integers(start, size)), step)
    start = draw(st.integers(-1, size - 1))
    return range(start, draw(st.integers(-1, start)), step)


@given(st.data(), SHAPES)
def test_slice_takes_ranges(data: st.DataObject, shape: tuple[int, ...]) -> None:
    taken = [data.draw(ranges(size)) for size in shape]
    x = counted(shape)
    found = apply(
        ops.Slice,
        x,
        starts=tuple(r.start for r in taken),
        stops=tuple(r.stop for r in taken),
        steps=tuple(r.step for r in taken),
    )
    expected = x
    for axis, indices in enumerate(taken):
        expected = np.take(expected, np.array(indices, np.int64), axis=axis)
    np.testing.assert_array_equal(found, expected)


@st.composite
def paddings(draw: st.DrawFn, shape: tuple[int, ...], mode: str) -> tuple[int, ...]:
    """Pads that the mode can fill, some of them negative."""
    begins, ends = [], []
    for size in shape:
        cut_begin = draw(st.integers(0, size - 1))
        cut_end = draw(st.integers(0, size - 1 - cut_begin))
        left = size - cut_begin - cut_end
        most = {"constant": 4, "edge": 4, "reflect": left - 1, "wrap": left}[mode]
        begins.append(-cut_begin or draw(st.integers(0, most)))
        ends.append(-cut_end or draw(st.integers(0, most)))
    return (*begins, *ends)


@given(st.data(), SHAPES, st.sampled_from(["constant", "edge", "reflect", "wrap"]))
def test_pad(data: st.DataObject, shape: tuple[int, ...], mode: str) -> None:
    pads = data.draw(paddings(shape, mode))
    x = counted(shape)
    found = apply(ops.Pad, x, pads=pads, mode=mode, value=7.0)
    expected = onnx_pad(x, pads, mode)
    np.testing.assert_array_equal(found, expected)
    lowered = lower(function_of(ops.Pad, x, pads=pads, mode=mode, value=7.0))
    np.testing.assert_array_equal(run(lowered, x), expected)
    left = [node for node in lowered if isinstance(node, ops.Pad)]
    assert all(node.mode == "constant" and min(node.pads) >= 0 for node in left)


def onnx_pad(x: Array, pads: tuple[int, ...], mode: str) -> Array:
    """Cut by indexing, then pad by ONNX's reference implementation."""
    rank = x.ndim
    for axis in range(rank):
        begin, end = max(-pads[axis], 0), max(-pads[rank + axis], 0)
        x = np.take(x, range(begin, x.shape[axis] - end), axis=axis)
    added = np.maximum(pads, 0).astype(np.int64)
    result: Array = onnx_result("Pad", x, added, np.array(7, x.dtype), mode=mode)
    return result


def test_pad_of_bool_and_infinity() -> None:
    x = np.array([False])
    np.testing.assert_array_equal(apply(ops.Pad, x, pads=(1, 0), value=1.0), [True, False])
    found = apply(ops.Pad, floats(1), pads=(0, 1), value=-math.inf)
    assert found[1] == -math.inf


@given(st.data(), SHAPES)
def test_tile(data: st.DataObject, shape: tuple[int, ...]) -> None:
    repeats = tuple(data.draw(st.integers(0, 3)) for _ in shape)
    x = counted(shape)
    np.testing.assert_array_equal(apply(ops.Tile, x, repeats=repeats), np.tile(x, repeats))
    check_lowering(ops.Tile, x, repeats=repeats)


def test_broadcast() -> None:
    x = counted((2, 1, 3))
    np.testing.assert_array_equal(
        apply(ops.Broadcast, x, shape=(2, 4, 3)), np.broadcast_to(x, (2, 4, 3))
    )


X = "float32<2 x 3>"


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda x: ops.Reshape(x, (4, 2)), ["6 elements", "[4, 2]"]),
        (lambda x: ops.Transpose(x, (0, 0)), ["(0, 0)", X]),
        (lambda _: ops.Concat((), 0), ["nothing to concatenate"]),
        (lambda x: ops.Concat((x, value("float32<2 x 4>")), 0), ["2 x 4", X, "axis 0"]),
        (lambda x: ops.Concat((x, value("int8<2 x 3>")), 0), ["int8<2 x 3>", X]),
        (lambda x: ops.Concat((x, value("float32<2>")), 1), ["float32<2>", X]),
        (lambda x: ops.Slice(x, (0,), (1,), (1,)), ["(0,)", "each axis", X]),
        (lambda x: ops.Slice(x, (0, 0), (2, 4), (1, 1)), ["range(0, 4, 1)", "axis 1"]),
        (lambda x: ops.Slice(x, (0, 0), (2, 3), (1, 0)), ["step", "axis 1"]),
        (lambda x: ops.Slice(x, (0, 3), (2, -1), (1, -1)), ["range(3, -1, -1)", "axis 1"]),
        (lambda x: ops.Split(x, 1, (1, 1)), ["(1, 1)", "axis 1", X]),
        (lambda x: ops.Pad(x, (0, 0, 1)), ["4 numbers", X]),
        (lambda x: ops.Pad(x, (0, -2, 0, -2)), ["-2 and -2", "axis 1"]),
        (lambda x: ops.Pad(x, (2, 0, 0, 0), "reflect"), ["2 and 0", "axis 0", "'reflect'"]),
        (lambda x: ops.Pad(x, (0, 0, 0, 0), "symmetric"), ["'symmetric'", "reflect"]),
        (lambda x: ops.Tile(x, (2,)), ["(2,)", X]),
        (lambda x: ops.Broadcast(x, (2, 6)), ["[2, 6]", X]),
        (lambda x: ops.Gather(x, value("float32<2>")), ["indices", "int64"]),
        (lambda x: ops.Gather(x, value("int64<2>"), 2), ["axis 2"]),
        (lambda x: ops.GatherElements(x, value("int64<3 x 3>"), 1), ["int64<3 x 3>", X]),
        (lambda x: ops.GatherND(x, value("int64<2 x 3>")), ["3 coordinates", "2 axes"]),
        (lambda x: ops.GatherND(x, value("int64<3 x 1>"), 1), ["1 batch dim", X]),
    ],
)
def test_mistakes_are_named(build: Any, words: list[str]) -> None:
    with pytest.raises(VerifyError) as caught:
        build(value(X))
    assert all(word in str(caught.value) for word in words), str(caught.value)


@given(st.data(), SHAPES, SHAPES)
def test_gather(data: st.DataObject, shape: tuple[int, ...], places: tuple[int, ...]) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    x, size = counted(shape), shape[axis]
    indices = np.random.default_rng(0).integers(-size, size, places).astype(np.int32)
    np.testing.assert_array_equal(
        apply(ops.Gather, x, indices, axis=axis), onnx_result("Gather", x, indices, axis=axis)
    )


@given(st.data(), SHAPES)
def test_gather_elements(data: st.DataObject, shape: tuple[int, ...]) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    other = tuple(data.draw(st.integers(1, n)) if i != axis else 5 for i, n in enumerate(shape))
    indices = np.random.default_rng(0).integers(-shape[axis], shape[axis], other)
    x = counted(shape)
    found = apply(ops.GatherElements, x, indices, axis=axis)
    for place in np.ndindex(*other):
        source = (*place[:axis], indices[place], *place[axis + 1 :])
        assert found[place] == x[source]


@given(st.data(), st.integers(0, 2), SHAPES)
def test_gather_nd(data: st.DataObject, batch: int, tail: tuple[int, ...]) -> None:
    shape = ((2, 3)[:batch]) + tail
    depth = data.draw(st.integers(1, len(tail)))
    x = counted(shape)
    rng = np.random.default_rng(0)
    places = (*shape[:batch], 2)
    columns = [rng.integers(-n, n, places) for n in tail[:depth]]
    indices = np.stack(columns, axis=-1)
    np.testing.assert_array_equal(
        apply(ops.GatherND, x, indices, batch_dims=batch),
        onnx_result("GatherND", x, indices, batch_dims=batch),
    )


def test_indices_outside_are_clamped() -> None:
    x, indices = counted((3, 2)), np.array([7, -9, 1])
    np.testing.assert_array_equal(apply(ops.Gather, x, indices), x[[2, 0, 1]])
