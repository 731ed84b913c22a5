"""ONNX's operators that draw random numbers, by what must hold of all numbers they may draw."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from glow_nb.base.errors import ModelError
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir import ops
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Constant
from tests.unit.formats.onnx.importer.models import model, one, value, weight

KINDS: dict[int, Any] = {
    TensorProto.FLOAT16: np.float16,
    TensorProto.BFLOAT16: ml_dtypes.bfloat16,
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
}
SIGMAS = 5.0


def run(proto: onnx.ModelProto, **feeds: Any) -> list[Any]:
    function = import_onnx(proto)
    present = {p.name: feeds[p.name] for p in function.inputs if p.name in feeds}
    missing = {p.name: np.zeros(p.type.shape, p.type.kind.dtype) for p in function.inputs}
    return list(evaluate(function, missing | present).values())


@pytest.mark.parametrize("dtype", KINDS)
def test_uniform_numbers_lie_between_their_bounds(dtype: int) -> None:
    proto = one("RandomUniform", (), shape=[50, 401], dtype=dtype, opset=22, low=-3.0, high=2.0)
    (found,) = run(proto)
    assert (found.shape, found.dtype) == ((50, 401), KINDS[dtype])
    numbers = found.astype(np.float64)
    assert numbers.min() >= -3
    assert numbers.max() < 2
    assert abs(numbers.mean() + 0.5) < SIGMAS * 5 / math.sqrt(12 * found.size) + 2.0**-8


@pytest.mark.parametrize("dtype", KINDS)
def test_normal_numbers_have_their_mean_and_deviation(dtype: int) -> None:
    proto = one("RandomNormal", (), shape=[50, 401], dtype=dtype, opset=22, mean=3.0, scale=0.5)
    (found,) = run(proto)
    assert (found.shape, found.dtype) == ((50, 401), KINDS[dtype])
    numbers = found.astype(np.float64)
    assert abs(numbers.mean() - 3) < SIGMAS * 0.5 / math.sqrt(found.size) + 2.0**-8
    assert abs(numbers.std() - 0.5) < SIGMAS * 0.5 / math.sqrt(2 * found.size) + 2.0**-8


@pytest.mark.parametrize("op", ["RandomUniformLike", "RandomNormalLike"])
def test_numbers_are_made_like_an_operand(op: str) -> None:
    half = value("x", (3, 4), TensorProto.FLOAT16)
    (found,) = run(one(op, inputs=[half]))
    assert (found.shape, found.dtype) == ((3, 4), np.float16)
    whole = value("x", (3, 4), TensorProto.INT32)
    (found,) = run(one(op, inputs=[whole], dtype=TensorProto.DOUBLE))
    assert (found.shape, found.dtype) == ((3, 4), np.float64)
    with pytest.raises(ModelError, match="numbers of kind int32 cannot be drawn; give a float"):
        import_onnx(one(op, inputs=[whole]))


def test_no_two_nodes_draw_the_same_numbers_but_every_import_does() -> None:
    seeds: dict[str, Any] = {"a": {}, "b": {}, "c": {"seed": 1.0}, "d": {"seed": 0.5}}
    nodes = [
        helper.make_node("RandomUniform", [], [name], shape=[100], **seed)
        for name, seed in seeds.items()
    ]
    proto = model(nodes, outputs=("a", "b", "c", "d"))
    found = run(proto)
    for index, one_of_them in enumerate(found):
        assert all((one_of_them != other).mean() > 0.9 for other in found[:index])
    for first, second in zip(found, run(proto), strict=True):
        np.testing.assert_array_equal(first, second)


def test_nodes_that_draw_stay_nodes_until_they_are_compiled() -> None:
    nodes = import_onnx(one("RandomUniform", (), shape=[9], seed=4.0)).nodes
    (drawn,) = (node for node in nodes if isinstance(node, ops.RandomUniform))
    assert isinstance(drawn.generator, Constant)
    np.testing.assert_array_equal(drawn.generator.array, [4, 0])


@pytest.mark.parametrize("seed", [math.nan, math.inf, -3e38, -7.0, 1e-45])
def test_any_seed_is_one(seed: float) -> None:
    (found,) = run(one("RandomNormal", (), shape=[9], seed=seed))
    assert np.isfinite(found).all()


@pytest.mark.parametrize("dtype", [TensorProto.BOOL, TensorProto.INT64, TensorProto.FLOAT16])
def test_bernoulli_makes_any_kind(dtype: int) -> None:
    x = value("x", (2, 5000))
    (found,) = run(one("Bernoulli", inputs=[x], dtype=dtype), x=np.full((2, 5000), 0.3, np.float32))
    assert found.dtype == helper.tensor_dtype_to_np_dtype(dtype)
    ones = found.astype(np.float64)
    assert set(ones.reshape(-1).tolist()) == {0.0, 1.0}
    assert abs(ones.mean() - 0.3) < SIGMAS * math.sqrt(0.21 / ones.size)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_multinomial_draws_classes_by_their_probabilities(dtype: Any) -> None:
    shares = np.array([[1, 0, 2, 5], [3, 3, 0, 0]])
    with np.errstate(divide="ignore"):
        logs = np.log(shares).astype(dtype) + dtype(7)
    proto = one("Multinomial", inputs=[value("x", (2, 4), helper.np_dtype_to_tensor_dtype(
        logs.dtype))], sample_size=20_000, dtype=TensorProto.INT64)  # fmt: skip
    (found,) = run(proto, x=logs)
    assert (found.shape, found.dtype) == ((2, 20_000), np.int64)
    for row, wanted in zip(found, shares / shares.sum(axis=1, keepdims=True), strict=True):
        counts = np.bincount(row, minlength=4) / row.size
        assert (abs(counts - wanted) <= SIGMAS * np.sqrt(wanted * (1 - wanted) / row.size)).all()


def test_dropout_keeps_what_its_mask_says() -> None:
    x = value("x", (100, 77))
    weights = [weight("r", np.float32(0.25)), weight("t", np.array(True))]
    ends: dict[str, Any] = {"inputs": [x], "weights": weights, "outputs": ("y", "mask")}
    proto = one("Dropout", ("x", "r", "t"), seed=3, **ends)
    numbers = np.random.default_rng(0).standard_normal((100, 77), np.float32)
    y, mask = run(proto, x=numbers)
    np.testing.assert_array_equal(y, np.where(mask, numbers * np.float32(1 / 0.75), 0))
    assert abs(mask.mean() - 0.75) < SIGMAS * math.sqrt(0.1875 / mask.size)
    assert any(isinstance(node, ops.Dropout) for node in import_onnx(proto).nodes)


@pytest.mark.parametrize("ratio", [1.0, -0.5, math.nan])
def test_a_ratio_that_is_none_is_refused(ratio: float) -> None:
    weights = [weight("r", np.float32(ratio)), weight("t", np.array(True))]
    with pytest.raises(ModelError, match="ratio must be at least 0 and less than 1, it is"):
        import_onnx(one("Dropout", ("x", "r", "t"), weights=weights))


@pytest.mark.parametrize("name", ["r", "t"])
@pytest.mark.parametrize("count", [0, 2])
def test_dropout_by_no_single_number_is_refused(name: str, count: int) -> None:
    numbers = {"r": np.full(1, 0.5, np.float32), "t": np.array([True])}
    numbers[name] = np.repeat(numbers[name], count)
    weights = [weight(key, array) for key, array in numbers.items()]
    with pytest.raises(ModelError, match=rf"must be one number, it is \w+<{count}>"):
        import_onnx(one("Dropout", ("x", "r", "t"), weights=weights))


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (
            one("RandomUniform", (), shape=[3], low=2.0, high=1.0),
            "there is no finite interval of float32 from low = 2.0 to high = 1.0",
        ),
        (
            one("RandomUniform", (), shape=[3], high=7e4, dtype=TensorProto.FLOAT16),
            "there is no finite interval of float16 from low = 0.0 to high = 70000.0",
        ),
        (
            one("RandomNormal", (), shape=[3], scale=-1.0),
            "mean = 0.0 and scale = -1.0 must be finite, scale not negative",
        ),
        (one("RandomNormal", (), shape=[3, -1]), r"shape is \[3, -1\]; no size may be negative"),
        (one("Multinomial", inputs=[value("x", (2, 3, 4))]), "must hold a row for each batch"),
    ],
)
def test_what_cannot_be_drawn_is_told(proto: onnx.ModelProto, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        import_onnx(proto)
