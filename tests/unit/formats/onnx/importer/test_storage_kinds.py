"""Elements of 8 bits or less: packed weights, casts, operators that compute with none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from glow_nb.base.conversion import converted
from glow_nb.base.errors import ModelError
from glow_nb.base.types import Array, ElementKind
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.formats.onnx.importer.tensors import Storage, to_array
from glow_nb.formats.onnx.schema.element_kinds import code_of
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Constant, Function
from glow_nb.network.files import load_constants, load_text, save_text
from tests.unit.storage_numbers import codes_of, near_boundaries

STORAGE = [kind for kind in ElementKind if kind.is_storage]
EIGHT_BIT_FLOATS = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")

pytestmark = pytest.mark.skipif(
    not hasattr(TensorProto, "FLOAT6E2M3"), reason="this release of ONNX has fewer kinds"
)


def model_of(
    op: str, *kinds: str, result: str, shape: tuple[int, ...] = (4,), **attributes: Any
) -> onnx.ModelProto:
    """Return a model of one operator on inputs of *kinds*."""
    names = [f"x{index}" for index in range(len(kinds))]
    inputs = [
        helper.make_tensor_value_info(name, code_of(ElementKind(kind)), shape)
        for name, kind in zip(names, kinds, strict=True)
    ]
    output = helper.make_tensor_value_info("y", code_of(ElementKind(result)), None)
    node = helper.make_node(op, names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)])


@pytest.mark.parametrize("kind", STORAGE)
@pytest.mark.parametrize("is_raw", [False, True])
def test_packed_weights_are_unpacked(kind: ElementKind, is_raw: bool) -> None:
    numbers = codes_of(kind)[: -1 if kind.bits > 2 else None].reshape(-1)
    tensor = onnx.numpy_helper.from_array(numbers, "w")
    if not is_raw:
        values = converted(numbers, ElementKind.FLOAT32)
        # onnx.helper takes other codes for what is special.
        keep = np.isfinite(values) & (values <= 448) & (values > -449) & (values != 2.0**-127)
        numbers = numbers[keep]
        tensor = helper.make_tensor("w", tensor.data_type, numbers.shape, numbers.tolist())
    assert tensor.HasField("raw_data") == is_raw
    found = to_array(tensor, "w", Storage())
    assert found.dtype == kind.dtype
    np.testing.assert_array_equal(found.view(np.uint8), numbers.view(np.uint8))


def test_too_few_packed_bytes_are_told() -> None:
    tensor = TensorProto(data_type=TensorProto.INT4, dims=[5], raw_data=b"\x12\x34")
    with pytest.raises(ModelError, match="2 bytes of data.*int4.* need 3"):
        to_array(tensor, "weight 'w'", Storage())


@pytest.mark.parametrize("kind", EIGHT_BIT_FLOATS)
@pytest.mark.parametrize("source", [np.float32, np.float64, np.float16])
def test_unsaturated_casts_are_those_of_onnx(kind: str, source: type) -> None:
    with np.errstate(over="ignore"):
        numbers: Array = near_boundaries(ElementKind(kind)).astype(source)
    name = ElementKind.of(numbers.dtype).value
    to = code_of(ElementKind(kind))
    model = model_of("Cast", name, result=kind, shape=numbers.shape, to=to, saturate=0)
    with np.errstate(all="ignore"):
        results: Any = ReferenceEvaluator(model).run(None, {"x0": numbers})
    found = evaluate(import_onnx(model), {"x0": numbers})["y"]
    np.testing.assert_array_equal(found.astype(np.float32), results[0].astype(np.float32))


E8M0_NUMBERS = np.array(
    [
        *(0, 2.0**-128, 2.0**-127, 1.2 * 2.0**-127, 1.6 * 2.0**-127, 2.0**-126),
        *(1, 1.25, 1.5, 1.75, 2, 2.0**127, 1.25 * 2.0**127, 1.75 * 2.0**127, np.inf, np.nan),
    ],
    np.float32,
)


@pytest.mark.parametrize(
    ("mode", "saturate", "expected"),
    [
        ("up", 1, [0, 0, 0, 1, 1, 1, 127, 128, 128, 128, 128, 254, 254, 254, 254, 255]),
        ("up", 0, [255, 255, 0, 1, 1, 1, 127, 128, 128, 128, 128, 254, 255, 255, 255, 255]),
        ("down", 1, [0, 0, 0, 0, 0, 1, 127, 127, 127, 127, 128, 254, 254, 254, 254, 255]),
        ("down", 0, [255, 255, 0, 0, 0, 1, 127, 127, 127, 127, 128, 254, 254, 254, 255, 255]),
        ("nearest", 1, [0, 0, 0, 0, 1, 1, 127, 127, 128, 128, 128, 254, 254, 254, 254, 255]),
        ("nearest", 0, [255, 255, 0, 0, 1, 1, 127, 127, 128, 128, 128, 254, 254, 255, 255, 255]),
    ],
)
def test_powers_of_two_are_rounded_as_asked(mode: str, saturate: int, expected: list[int]) -> None:
    to = code_of(ElementKind.FLOAT8E8M0)
    attributes: dict[str, Any] = {"to": to, "saturate": saturate, "round_mode": mode}
    shape = E8M0_NUMBERS.shape
    model = model_of("Cast", "float32", result="float8e8m0", shape=shape, **attributes)
    found = evaluate(import_onnx(model), {"x0": E8M0_NUMBERS})["y"]
    assert found.view(np.uint8).tolist() == expected


def test_unknown_round_mode_is_told() -> None:
    to = code_of(ElementKind.FLOAT8E8M0)
    model = model_of("Cast", "float32", result="float8e8m0", to=to, round_mode="away")
    with pytest.raises(ModelError, match="round_mode 'away' must be one of"):
        import_onnx(model)


@pytest.mark.parametrize("op", ["Add", "Relu", "Exp", "Equal", "ReduceMax"])
@pytest.mark.parametrize("kind", ["float8e4m3fn", "int4"])
def test_arithmetic_is_refused(op: str, kind: str) -> None:
    count = 2 if op in ("Add", "Equal") else 1
    with pytest.raises(ModelError, match=rf"{op}.*{kind}<4>.*kind must be one of.*float32"):
        import_onnx(model_of(op, *[kind] * count, result=kind))


def test_bit_cast_to_another_size_is_refused() -> None:
    model = model_of("BitCast", "float32", result="int16", to=TensorProto.INT16)
    with pytest.raises(ModelError, match="32 bits an element, but int16 has 16"):
        import_onnx(model)


def test_zero_point_of_floats_must_be_zero() -> None:
    model = model_of("DequantizeLinear", "float8e4m3fn", result="float32")
    for name, array in (("s", np.float32(2)), ("z", np.ones((), ElementKind.FLOAT8E4M3FN.dtype))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        model.graph.node[0].input.append(name)
    with pytest.raises(ModelError, match="zero point .* of floats must be zero"):
        import_onnx(model)


@pytest.mark.parametrize("kind", [*STORAGE, ElementKind.BFLOAT16])
def test_constants_beside_text_keep_their_bits(kind: ElementKind, tmp_path: Path) -> None:
    numbers = np.arange(100, dtype=np.uint8)[: 1 << min(kind.bits, 6)].view(kind.dtype)
    model = model_of("Identity", kind.value, result=kind.value, shape=numbers.shape)
    model.graph.node[0].input[0] = "w"
    model.graph.node.append(helper.make_node("Identity", ["x0"], ["unused"]))
    model.graph.initializer.append(onnx.numpy_helper.from_array(numbers, "w"))
    function = import_onnx(model)
    assert isinstance(function.nodes[0].input, Constant)  # type: ignore[attr-defined]
    path = tmp_path / "program.glow"
    save_text(function, path)
    loaded = load_text(path)
    assert isinstance(loaded, Function)
    found = evaluate(loaded, {"x0": numbers})["y"]
    assert_same(found, numbers)
    assert_same(next(iter(load_constants(path.with_suffix(".npz")).values())), numbers)


def assert_same(found: Array, expected: Array) -> None:
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()
