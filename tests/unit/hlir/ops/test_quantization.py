"""Quantized types: rounding as ONNX's reference does it, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glow_nb
from glow_nb.base.errors import GlowError, VerifyError
from glow_nb.base.types import QUANTIZED, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import NODES, Constant, Function, Node, State
from glow_nb.hlir.lower import lower
from glow_nb.hlir.parse import parse_function
from tests.unit.hlir.ops.applying import Numbers, apply, onnx_result, value

INT8, UINT8 = ElementKind.INT8, ElementKind.UINT8
BYTES = st.sampled_from((INT8, UINT8))
ROUNDED = st.sampled_from(sorted(QUANTIZED - {ElementKind.INT32}, key=str))
SCALES = st.floats(2.0**-20, 2.0**20, width=32)
HALVES = st.integers(-600, 600).map(lambda n: n / 2)
REALS = st.one_of(st.floats(-(2.0**10), 2.0**10, width=32), HALVES)


def quantized_input(function: Callable[[Builder, Any], Node], type: str) -> Function:
    """Return what *function* emits for an input of a quantized *type*."""
    builder = Builder()
    builder.save(function(builder, builder.input("x", type)), "y")
    return builder.function()


def on_stored(function: Function, array: Numbers) -> Numbers:
    """Return the result of *function* for stored integers, the same before and after lowering."""
    found = evaluate(function, {"x": array})["y"]
    np.testing.assert_array_equal(evaluate(lower(function), {"x": array})["y"], found)
    return found


@given(BYTES, SCALES, st.data())
def test_quantize_is_that_of_onnx(kind: ElementKind, scale: float, data: st.DataObject) -> None:
    offset = data.draw(st.integers(*kind.limits))
    multiples = data.draw(st.lists(REALS, min_size=1, max_size=20))
    x = np.array(multiples, np.float32) * np.float32(scale)
    found = apply(ops.Quantize, x, kind=kind, scale=scale, offset=offset)
    scales, offsets = np.array(scale, np.float32), np.array(offset, kind.dtype)
    np.testing.assert_array_equal(found, onnx_result("QuantizeLinear", x, scales, offsets))


@given(BYTES, SCALES, st.data())
def test_dequantize_is_that_of_onnx(kind: ElementKind, scale: float, data: st.DataObject) -> None:
    offset = data.draw(st.integers(*kind.limits))
    low, high = kind.limits
    x = np.arange(low, high + 1).astype(kind.dtype)
    type = TensorType(kind, x.shape, scale, offset)
    function = quantized_input(lambda b, v: b.emit(ops.Dequantize(v)), str(type))
    scales, offsets = np.array(scale, np.float32), np.array(offset, kind.dtype)
    expected = onnx_result("DequantizeLinear", x, scales, offsets)
    np.testing.assert_array_equal(on_stored(function, x), expected)


@given(BYTES, st.data())
def test_each_channel_has_its_scale(kind: ElementKind, data: st.DataObject) -> None:
    scales = np.array(data.draw(st.lists(SCALES, min_size=3, max_size=3)), np.float32)
    drawn = st.lists(st.integers(*kind.limits), min_size=3, max_size=3)
    offsets = np.array(data.draw(drawn), kind.dtype)
    x = np.array(data.draw(st.lists(REALS, min_size=6, max_size=6)), np.float32).reshape(2, 3)
    found = apply(ops.QuantizeLinear, x, scales[None], offsets[None], kind=kind)
    expected = onnx_result("QuantizeLinear", x, scales, offsets, axis=1)
    np.testing.assert_array_equal(found, expected)
    back = apply(ops.DequantizeLinear, found, scales[None], offsets[None])
    again = onnx_result("DequantizeLinear", expected, scales, offsets, axis=1)
    np.testing.assert_array_equal(back, again)


@given(ROUNDED, st.data())
def test_what_is_outside_saturates_and_nan_is_the_least(
    kind: ElementKind, data: st.DataObject
) -> None:
    offset = data.draw(st.integers(*kind.limits))
    x = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38], np.float32)
    least, greatest = kind.limits
    found = apply(ops.Quantize, x, kind=kind, scale=0.5, offset=offset)
    np.testing.assert_array_equal(found, [greatest, least, least, greatest, least])


@pytest.mark.parametrize("offset", [0, 3, -2])
def test_halves_go_to_the_even_number_before_the_offset_is_added(offset: int) -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    found = apply(ops.Quantize, x, kind=INT8, scale=1.0, offset=offset)
    np.testing.assert_array_equal(found, np.array([-2, -2, 0, 0, 2, 2]) + offset)


@given(ROUNDED, ROUNDED, SCALES, SCALES, st.data())
def test_rescale_is_to_dequantize_and_to_quantize(
    source: ElementKind, kind: ElementKind, scale: float, other: float, data: st.DataObject
) -> None:
    offset, target = data.draw(st.integers(*source.limits)), data.draw(st.integers(*kind.limits))
    x = np.array(data.draw(st.lists(st.integers(*source.limits), min_size=1)), source.dtype)
    type = str(TensorType(source, x.shape, scale, offset))
    goal: dict[str, Any] = {"kind": kind, "scale": other, "offset": target}

    def both(builder: Builder, input: Any) -> Node:
        return builder.emit(ops.Quantize(builder.emit(ops.Dequantize(input)), **goal))

    one = quantized_input(lambda b, v: b.emit(ops.Rescale(v, **goal)), type)
    np.testing.assert_array_equal(on_stored(one, x), on_stored(quantized_input(both, type), x))


@pytest.mark.parametrize("kind", [INT8, UINT8])
@pytest.mark.parametrize("is_quantized", [False, True])
def test_a_table_maps_every_byte(kind: ElementKind, is_quantized: bool) -> None:
    low, high = kind.limits
    x = np.arange(low, high + 1).astype(kind.dtype)
    table = np.random.default_rng(0).permutation(256).astype(np.uint8)

    def look_up(builder: Builder, input: Any) -> Node:
        entries = builder.constant("table", table)
        if is_quantized:
            return builder.emit(ops.IntLookupTable(input, entries, scale=0.5, offset=3))
        return builder.emit(ops.IntLookupTable(input, entries))

    type = TensorType(kind, x.shape, *((0.25, 1) if is_quantized else ()))
    function = quantized_input(look_up, str(type))
    np.testing.assert_array_equal(on_stored(function, x), table)
    assert function.outputs[0].type.is_quantized == is_quantized


def test_a_table_of_floats_gives_floats() -> None:
    table = np.linspace(0, 1, 256).astype(np.float32)
    function = quantized_input(
        lambda b, v: b.emit(ops.IntLookupTable(v, b.constant("t", table))),
        "uint8<3, scale = 0.5, offset = 1>",
    )
    x = np.array([0, 7, 255], np.uint8)
    np.testing.assert_array_equal(on_stored(function, x), table[x])


@pytest.mark.parametrize(("real", "stored"), [(0.0, 7), (1.0, 11), (-np.inf, 0), (np.inf, 255)])
def test_a_pad_adds_the_integer_of_a_real_number(real: float, stored: int) -> None:
    function = quantized_input(
        lambda b, v: b.emit(ops.Pad(v, (1, 0), value=real)), "uint8<2, scale = 0.25, offset = 7>"
    )
    found = on_stored(function, np.array([1, 2], np.uint8))
    np.testing.assert_array_equal(found, [stored, 1, 2])


def test_what_moves_elements_keeps_the_type() -> None:
    x = value("int8<1 x 4 x 4 x 2, scale = 0.5, offset = -3>")
    window: dict[str, Any] = {
        "kernel": (2, 2),
        "stride": (2, 2),
        "pads": (0,) * 4,
        "dilation": (1, 1),
    }
    condition, places = value("bool<1 x 1 x 1 x 2>"), value("int64<3>")
    moved: list[Node] = [
        ops.Reshape(x, (4, 8)),
        ops.Transpose(x, (0, 3, 1, 2)),
        ops.Concat((x, x), axis=1),
        ops.Slice(x, (0,) * 4, (1, 2, 4, 2), (1,) * 4),
        ops.Split(x, axis=3, sizes=(1, 1)),
        ops.Tile(x, (1, 2, 1, 1)),
        ops.Broadcast(x, (5, 4, 4, 2)),
        ops.Gather(x, places, axis=1),
        ops.MaxPool(x, **window),
        ops.MaxPoolWithArgmax(x, **window),
        ops.ReduceMax(x, axes=(1, 2)),
        ops.TopK(x, k=2, axis=1),
        ops.Select(condition, x, x),
    ]
    for node in moved:
        assert (node.type.scale, node.type.offset) == (0.5, -3), node
        assert node.type_transparent


def test_only_what_moves_elements_takes_a_quantized_type_as_it_is() -> None:
    """``x`` alone must not be taken for its integers by arithmetic."""
    x = value("int8<2 x 2, scale = 0.5, offset = -3>")
    for operator in (ops.Add, ops.Maximum, ops.Equal, ops.MatMul, ops.BitwiseAnd):
        with pytest.raises(VerifyError, match="quantized"):
            operator(x, x)
    for unary in (ops.Relu, ops.Neg, ops.Abs):
        with pytest.raises(VerifyError, match="quantized"):
            unary(x)
    with pytest.raises(VerifyError, match="quantized"):
        ops.ConvertTo(x, kind=ElementKind.FLOAT32)
    with pytest.raises(VerifyError, match="quantized"):
        ops.ReduceSum(x, axes=(0,))
    with pytest.raises(VerifyError, match="kind, scale and offset must be equal"):
        ops.Select(value("bool<1 x 1>"), x, value("int8<2 x 2, scale = 0.5, offset = 0>"))
    with pytest.raises(VerifyError, match="does not fit the first"):
        ops.Concat((x, value("int8<2 x 2, scale = 0.25, offset = -3>")), axis=0)


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"scale": 0.0}, "scale 0.0 must be positive and finite in float32"),
        ({"scale": -1.0}, "scale -1.0 must be positive"),
        ({"scale": np.inf}, "scale inf must be positive"),
        ({"scale": np.nan}, "scale nan must be positive"),
        ({"scale": 1e-60}, "scale 1e-60 must be positive and finite in float32"),
        ({"scale": 1e60}, "scale 1e+60 must be positive and finite in float32"),
        ({"offset": 256}, "offset 256 is outside uint8; give one from 0 to 255"),
        ({"offset": -1}, "offset -1 is outside uint8"),
        ({"kind": ElementKind.FLOAT32}, "kind float32 must be one of"),
        ({"kind": ElementKind.INT32}, "kind int32 must be one of"),
    ],
)
def test_what_quantizes_nothing_is_refused(attributes: dict[str, Any], problem: str) -> None:
    good: dict[str, Any] = {"kind": UINT8, "scale": 0.5, "offset": 3}
    with pytest.raises(VerifyError, match=re.escape(problem)):
        ops.Quantize(value("float32<2>"), **good | attributes)


def test_a_wrong_type_is_refused() -> None:
    for scale, offset in ((0.0, 0), (-1.0, 0), (np.nan, 0), (0.5, 200)):
        with pytest.raises(GlowError, match=r"^type int8<2, scale = "):
            TensorType(INT8, (2,), scale, offset)
    with pytest.raises(GlowError, match="float32 cannot be a quantized kind"):
        TensorType(ElementKind.FLOAT32, (2,), 0.5, 0)


def test_scales_that_are_equal_in_float32_are_one_type() -> None:
    written = TensorType(INT8, (2,), 0.1, 0)
    computed = TensorType(INT8, (2,), float(np.float32(0.1)), 0)
    assert written == computed
    assert str(computed) == "int8<2, scale = 0.1, offset = 0>"


def test_scales_that_are_known_are_checked() -> None:
    x, zero = value("float32<2 x 3>"), value("int8<1 x 1>")
    for wrong in (0.0, -1.0, np.nan, np.inf):
        scale = Constant.of("s", np.array([[1.0, 2.0, wrong]], np.float32))
        with pytest.raises(VerifyError, match="every scale must be positive and finite"):
            ops.QuantizeLinear(x, scale, zero, kind=INT8)
        with pytest.raises(VerifyError, match="every scale must be positive and finite"):
            ops.DequantizeLinear(value("int8<2 x 3>"), scale, zero)


def test_parameters_that_do_not_fit_are_refused() -> None:
    x, scale, zero = value("float32<2 x 3>"), value("float32<1 x 3>"), value("int8<1 x 1>")
    with pytest.raises(VerifyError, match="'scale' is float32<3>, which does not broadcast"):
        ops.QuantizeLinear(x, value("float32<3>"), zero, kind=INT8)
    with pytest.raises(VerifyError, match="'offset' is int8<1 x 1>, but must be uint8<1 x 1>"):
        ops.QuantizeLinear(x, scale, zero, kind=UINT8)
    with pytest.raises(VerifyError, match="'input' is float32<2 x 3>, but must be int32<2 x 3>"):
        ops.Requantize(x, scale, zero, kind=INT8)
    with pytest.raises(VerifyError, match="must have a quantized type; quantize it"):
        ops.Dequantize(value("int8<2>"))


def test_stored_integers_are_fed_and_returned() -> None:
    builder = Builder()
    x = builder.input("x", "uint8<2 x 3, scale = 0.5, offset = 10>")
    builder.save(x, "same")
    goal: dict[str, Any] = {"kind": INT8, "scale": 0.25, "offset": 0}
    builder.save(builder.emit(ops.Rescale(x, **goal)), "y")
    function = builder.function()
    fed = np.arange(6, dtype=np.uint8).reshape(2, 3)
    for backend in ("interpreter", "cpu"):
        net = glow_nb.compile(function, backend=backend, threads=1)
        found = net.run({"x": fed})
        np.testing.assert_array_equal(found["same"], fed)
        np.testing.assert_array_equal(found["y"], (fed.astype(int) - 10) * 2)
        with pytest.raises(GlowError, match="the network takes uint8"):
            net.run({"x": fed.astype(np.int8)})


def test_constants_and_states_may_be_quantized() -> None:
    numbers = np.array([1, 2, 3], np.int8)
    type = TensorType(INT8, (3,), 0.5, 1)
    builder = Builder()
    constant, state = Constant("c", type, numbers), State("s", type, payload=numbers)
    total = ops.QuantizedAdd(constant, state, kind=INT8, scale=0.5, offset=0)
    builder.save(builder.emit(total), "y")
    function = builder.function()
    text = str(function)
    assert "constant %c : int8<3, scale = 0.5, offset = 1> = dense [1, 2, 3]" in text
    assert str(parse_function(text)) == text
    net = glow_nb.compile(function, backend="interpreter", threads=1)
    np.testing.assert_array_equal(net.run({})["y"], [0, 2, 4])


def test_constants_are_folded_with_their_type() -> None:
    builder = Builder()
    reals = builder.constant("w", np.array([0.5, 1.0], np.float32))
    quantized = builder.emit(ops.Quantize(reals, kind=INT8, scale=0.5, offset=1))
    builder.save(builder.emit(ops.Split(quantized, axis=0, sizes=(1, 1))).results[1], "y")
    (save,) = glow_nb.optimize(builder.function(), pipeline=("fold_constants",)).nodes
    assert str(save.type) == "int8<1, scale = 0.5, offset = 1>"


def test_no_quantized_type_is_left_after_lowering() -> None:
    names = [name for name, node in NODES.items() if node.type_transparent]
    assert {"reshape", "concat", "pad", "max_pool", "select"} <= set(names)
    builder = Builder()
    x = builder.input("x", "int8<2 x 2, scale = 0.5, offset = 1>")
    builder.save(builder.emit(ops.Transpose(x, (1, 0))), "y")
    lowered = lower(builder.function())
    assert [str(v.type) for v in (*lowered.inputs, *lowered.outputs)] == ["int8<2 x 2>"] * 2
    assert lower(lowered) is lowered
