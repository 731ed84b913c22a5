"""Forms that ONNX allows and few exporters write: as ONNX Runtime or the reference takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from glow_nb.base.errors import ModelError, UnsupportedError
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from tests.unit.formats.onnx.importer.complaints import complaint
from tests.unit.formats.onnx.importer.models import model, one, value, weight
from tests.unit.formats.onnx.importer.reference import check, numbers, typed

TensorProto = onnx.TensorProto


def code(array: Any) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype))


def check_reference(proto: Any, *feeds: Any) -> None:
    """Compare the evaluated function with ONNX's reference on *feeds*, in order of the inputs."""
    named = dict(zip((info.name for info in proto.graph.input), feeds, strict=True))
    with np.errstate(all="ignore"):
        expected = ReferenceEvaluator(proto).run(None, named)
    for got, wanted in zip(evaluate(import_onnx(proto), named).values(), expected, strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("opset", [9, 17])
@pytest.mark.parametrize(
    ("scale", "bias"),
    [
        ((), None),
        ((4,), (1,)),
        ((1, 1, 4), (4,)),
        ((3, 1), (2, 1, 4)),
        ((2, 1, 1), (3, 4)),
        ((4,), (3, 4)),
    ],
)
def test_scale_and_bias_of_a_layer_norm_broadcast(
    opset: int, scale: tuple[int, ...], bias: tuple[int, ...] | None
) -> None:
    """Before opset 17 it stands in models as well."""
    weights = [weight("s", numbers(*scale))]
    if bias is not None:
        weights.append(weight("b", numbers(*bias)))
    names = ("x", "s") if bias is None else ("x", "s", "b")
    proto = one(
        "LayerNormalization",
        names,
        opset=opset,
        inputs=[value("x", (2, 3, 4))],
        weights=weights,
        epsilon=1e-3,
    )
    check(typed(proto), numbers(2, 3, 4))


def test_a_scale_that_would_enlarge_the_result_of_a_layer_norm_is_refused() -> None:
    proto = one("LayerNormalization", ("x", "s"), weights=[weight("s", numbers(4, 1, 3))])
    assert "must broadcast to" in complaint(proto)


def test_operators_that_models_use_before_onnx_has_them() -> None:
    check(typed(one("ThresholdedRelu", opset=7, alpha=0.3)), numbers(2, 3))
    images = [value("x", (2, 3, 4, 4))]
    check(typed(one("MeanVarianceNormalization", opset=8, inputs=images)), numbers(2, 3, 4, 4))


@pytest.mark.parametrize("opset", [7, 9, 15])
def test_batch_norm_of_a_vector_has_one_channel(opset: int) -> None:
    weights = [weight(name, np.abs(numbers(1))) for name in "sbmv"]
    operands = ("x", "s", "b", "m", "v")
    vector = [value("x", (5,))]
    proto = one("BatchNormalization", operands, opset=opset, inputs=vector, weights=weights)
    check(typed(proto), numbers(5))


@pytest.mark.parametrize("kind", ["bool", "int8", "int64", "float16", "float64"])
@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 1, 5), (1, 2, 3, 5), (2, 1, 1, 5)])
def test_masks_of_attention_are_of_any_kind(kind: str, shape: tuple[int, ...]) -> None:
    shapes = {"q": (2, 2, 3, 4), "k": (2, 2, 5, 4), "v": (2, 2, 5, 4)}
    mask = np.resize([0, 1, 1, 0, 1, 1, 1], shape).astype(kind)
    infos = [value(name, sizes) for name, sizes in shapes.items()]
    infos.append(value("m", shape, code(mask)))
    proto = one("Attention", ("q", "k", "v", "m"), opset=24, inputs=infos)
    check_reference(typed(proto), *(numbers(*sizes) for sizes in shapes.values()), mask)


def test_values_of_attention_may_be_of_a_kind_of_their_own() -> None:
    shape = (1, 2, 3, 4)
    infos = [value("q", shape), value("k", shape), value("v", shape, TensorProto.DOUBLE)]
    proto = one("Attention", ("q", "k", "v"), opset=24, inputs=infos)
    q, k, v = numbers(*shape), numbers(*shape), numbers(*shape)
    plain = one("Attention", ("q", "k", "v"), opset=24, inputs=[*infos[:2], value("v", shape)])
    wide = evaluate(import_onnx(proto), {"q": q, "k": k, "v": v.astype(np.float64)})["y"]
    assert wide.dtype == np.float32
    narrow = evaluate(import_onnx(plain), {"q": q, "k": k, "v": v})["y"]
    np.testing.assert_allclose(wide, narrow, rtol=1e-5, atol=1e-6)


def test_the_scale_of_an_rms_norm_gives_the_kind_of_the_result() -> None:
    scale = weight("s", numbers(4).astype(np.float64))
    proto = one(
        "RMSNormalization", ("x", "s"), opset=23, inputs=[value("x", (2, 4))], weights=[scale]
    )
    assert import_onnx(proto).outputs[0].type.kind.value == "float64"


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize(("sizes", "axes"), [((3, 8), [0, 1]), ((2, 7, 3), None), ((9,), [-1])])
def test_sizes_of_a_crop_are_of_either_kind(kind: str, sizes: Any, axes: Any) -> None:
    attributes = {} if axes is None else {"axes": axes}
    proto = one(
        "CenterCropPad",
        ("x", "s"),
        opset=18,
        inputs=[value("x", (4, 5, 6))],
        weights=[weight("s", np.array(sizes, kind))],
        **attributes,
    )
    check_reference(typed(proto), numbers(4, 5, 6))


@pytest.mark.parametrize("kind", ["int8", "int32", "uint8", "int64"])
def test_erf_of_integers_truncates(kind: str) -> None:
    x = np.array([0, 1, 2, 5, 6, 7, 100], kind)
    proto = one("Erf", opset=13, inputs=[value("x", x.shape, code(x))])
    check_reference(typed(proto, code(x)), x)


@pytest.mark.parametrize("kind", ["int32", "uint8", "int64"])
def test_shrink_of_integers_truncates(kind: str) -> None:
    x = np.array([0, 1, 2, 5, 6, 7, 100], kind)
    proto = one("Shrink", opset=9, inputs=[value("x", x.shape, code(x))], lambd=1.5, bias=1.3)
    check(typed(proto, code(x)), x)


@pytest.mark.parametrize("reduction", ["add", "mul"])
def test_scatters_of_bools_are_logical(reduction: str) -> None:
    x, updates = np.array([True, False, True, False]), np.array([False, True, True, False])
    indices = weight("i", np.array([0, 1, 2, 3], np.int64))
    proto = one(
        "ScatterElements",
        ("x", "i", "u"),
        opset=18,
        inputs=[value("x", (4,), TensorProto.BOOL), value("u", (4,), TensorProto.BOOL)],
        weights=[indices],
        reduction=reduction,
    )
    check(typed(proto, TensorProto.BOOL), x, updates)


@pytest.mark.parametrize("kind", ["int32", "uint8"])
def test_resized_integers_are_rounded(kind: str) -> None:
    x = np.arange(1, 13).astype(kind).reshape(1, 1, 3, 4) * 19
    scales = weight("s", np.array([1, 1, 1.7, 2], np.float32))
    proto = one(
        "Resize",
        ("x", "", "s"),
        opset=13,
        inputs=[value("x", x.shape, code(x))],
        weights=[scales],
        mode="linear",
    )
    check_reference(typed(proto, code(x)), x)


def test_integers_with_a_scale_of_integers_are_divided_as_floats() -> None:
    x = np.array([0, 2, 3, 1000, -254], np.int32)
    infos = [value("x", (5,), TensorProto.INT32), value("s", (), TensorProto.INT32)]
    proto = one("QuantizeLinear", ("x", "s"), opset=19, inputs=infos)
    check_reference(typed(proto, TensorProto.UINT8), x, np.array(2, np.int32))


def test_kinds_that_only_onnx_takes_are_unsupported_and_others_are_wrong() -> None:
    sizes = {"s": [3, 3], "b": [1, 3]}
    weights = [weight(name, np.array(pair, np.int64)) for name, pair in sizes.items()]
    columns = [value("x", (1, 3, 3), TensorProto.BOOL)]
    proto = one("Col2Im", ("x", "s", "b"), opset=18, inputs=columns, weights=weights)
    assert "Col2Im (opset 18): 'input' is bool" in complaint(proto, UnsupportedError)
    assert "'input' is bool" in complaint(one("Sqrt", inputs=columns), ModelError)


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"])
def test_an_empty_auto_pad_is_none(op: str) -> None:
    has_filter = op.startswith("Conv")
    pads: dict[str, Any] = {} if op == "ConvTranspose" else {"pads": [1, 0, 0, 1]}
    proto = one(
        op,
        ("x", "w") if has_filter else ("x",),
        inputs=[value("x", (1, 2, 5, 5))],
        weights=[weight("w", numbers(2, 2, 3, 3))] if has_filter else [],
        kernel_shape=[3, 3],
        auto_pad="",
        **pads,
    )
    check(typed(proto), numbers(1, 2, 5, 5))


def loop(steps: int, shape: list[int] | None, condition: list[int]) -> Any:
    """Return a loop that collects ``x * i``, its iteration number declared with *shape*."""
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["a", "f"], ["row"]),
            helper.make_node("Add", ["a", "row"], ["next"]),
            helper.make_node("Identity", ["c"], ["going"]),
        ],
        "body",
        [
            value("i", shape, TensorProto.INT64),
            value("c", condition, TensorProto.BOOL),
            value("a", (2, 3)),
        ],
        [value("going", condition, TensorProto.BOOL), value("next", (2, 3)), value("row", None)],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y", "z"], body=body)
    weights = [weight("n", np.array(steps, np.int64))]
    return model([node], outputs="yz", weights=weights, opset=13)


@pytest.mark.parametrize("shape", [None, [], [1]])
@pytest.mark.parametrize("condition", [[], [1]])
@pytest.mark.parametrize("steps", [0, 3])
def test_scalars_of_a_loop_may_be_declared_as_vectors(
    steps: int, shape: list[int] | None, condition: list[int]
) -> None:
    x = numbers(2, 3)
    results = evaluate(import_onnx(loop(steps, shape, condition)), {"x": x})
    rows, last = [], x
    for step in range(steps):
        rows.append(last * np.float32(step))
        last = last + rows[-1]
    np.testing.assert_allclose(results["y"], last, rtol=1e-6)
    assert results["z"].shape == (steps, 2, 3)
    np.testing.assert_allclose(results["z"], np.reshape(rows, (steps, 2, 3)), rtol=1e-6)


def sum_of_slices() -> onnx.GraphProto:
    nodes = [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Neg", ["t"], ["row"])]
    outputs = [value("t", (2,)), value("row", (2,))]
    return helper.make_graph(nodes, "body", [value("s", (2,)), value("e", (2,))], outputs)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_scan_of_nothing_collects_nothing(axis: int) -> None:
    node = helper.make_node(
        "Scan",
        ["s", "x"],
        ["y", "z"],
        body=sum_of_slices(),
        num_scan_inputs=1,
        scan_output_axes=[axis],
    )
    proto = model([node], [value("s", (2,)), value("x", (0, 2))], outputs="yz")
    s = numbers(2)
    results = evaluate(import_onnx(proto), {"s": s, "x": np.zeros((0, 2), np.float32)})
    np.testing.assert_array_equal(results["y"], s)
    assert results["z"].shape == ((0, 2) if axis == 0 else (2, 0))


@pytest.mark.parametrize("lengths", [None, [3, 1]])
@pytest.mark.parametrize("direction", [0, 1])
def test_scans_of_opset_8_have_a_batch(lengths: list[int] | None, direction: int) -> None:
    node = helper.make_node(
        "Scan",
        ["" if lengths is None else "n", "s", "x"],
        ["y", "z"],
        body=sum_of_slices(),
        num_scan_inputs=1,
        directions=[direction],
    )
    weights = [] if lengths is None else [weight("n", np.array(lengths, np.int64))]
    infos = [value("s", (2, 2)), value("x", (2, 3, 2))]
    check(typed(model([node], infos, "yz", weights, opset=8)), numbers(2, 2), numbers(2, 3, 2))


def test_an_optional_operand_is_there_or_not() -> None:
    nodes = [
        helper.make_node("OptionalHasElement", ["x"], ["y"]),
        helper.make_node("OptionalHasElement", [], ["n"]),
        helper.make_node("OptionalGetElement", ["x"], ["z"]),
    ]
    x = numbers(2, 3)
    results = evaluate(import_onnx(model(nodes, outputs="ynz", opset=18)), {"x": x})
    assert (bool(results["y"]), bool(results["n"])) == (True, False)
    np.testing.assert_array_equal(results["z"], x)


@pytest.mark.parametrize("shape", [(2, 0, 3), (0, 4, 3), (2, 4, 0)])
def test_nothing_is_normalized_by_instance(shape: tuple[int, ...]) -> None:
    weights = [weight(name, np.ones(shape[1], np.float32)) for name in ("s", "b")]
    proto = one(
        "InstanceNormalization", ("x", "s", "b"), inputs=[value("x", shape)], weights=weights
    )
    (found,) = evaluate(import_onnx(proto), {"x": np.ones(shape, np.float32)}).values()
    assert found.shape == shape
