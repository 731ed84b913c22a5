"""Networks of integers: near the float ones, and integers exactly where they pay."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb import quant
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.base.errors import CalibrationError, GlowWarning, OptionError
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant, Function
from glow_nb.hlir.ops import (
    Convolution,
    CumSum,
    Dequantize,
    DequantizeLinear,
    FullyConnected,
    MatMul,
    Quantize,
    ReduceMean,
    Slice,
    Softmax,
)
from glow_nb.kernels.target import Target
from glow_nb.quant.methods import METHODS
from glow_nb.quant.schemas import SCHEMAS, Encoding
from glow_nb.quant.weights import MOST_BIAS, least_scales, quantize_bias, quantize_weights
from tests.in_turn import in_turn, marked
from tests.unit.quant.networks import branching, convolutional, dense, random, residual

INT8, UINT8 = ElementKind.INT8, ElementKind.UINT8


def samples_of(function: Function, count: int = 8) -> list[Array]:
    shape = function.inputs[0].type.shape
    return [random(*shape, seed=seed) for seed in range(count)]


def converted(function: Function, *, least_gain: float = 0.0, **options: Any) -> quant.Conversion:
    """Quantize *function*, also where conversions cost more than integers save."""
    ranges = quant.calibrate(function, samples_of(function), backend="interpreter")
    return quant.convert(function, ranges, least_gain=least_gain, **options)


def decibels(function: Function, quantized: Function) -> float:
    """Return the ratio of signal and noise of the output, over all samples."""
    signal = noise = 0.0
    for sample in samples_of(function):
        (wanted,) = glow_nb.evaluate(function, {"x": sample}).values()
        (found,) = glow_nb.evaluate(quantized, {"x": sample}).values()
        signal += float(np.sum(wanted.astype(np.float64) ** 2))
        noise += float(np.sum((wanted - found).astype(np.float64) ** 2))
    return 10 * float(np.log10(signal / noise)) if noise else np.inf


def scales(function: Function) -> dict[str, tuple[float | None, int | None]]:
    """Return scale and offset of each quantized value by its name."""
    nodes = (node for node in function.nodes if isinstance(node, Quantize))
    return {node.input.name: (node.type.scale, node.type.offset) for node in nodes}


@pytest.mark.parametrize(
    ("network", "options"),
    in_turn(
        [dense, convolutional, residual, branching],
        list(itertools.product(["uint8", "int8", "int16"], SCHEMAS)),
        most=2,
    ),
)
def test_little_is_lost(network: Callable[[], Function], options: tuple[str, str]) -> None:
    activations, schema = options
    function = network()
    found = converted(function, activations=activations, schema=schema).function
    assert decibels(function, found) > (22 if schema == "power_of_two" else 28)


@pytest.mark.parametrize(
    ("options", "method"),
    in_turn([{"weights": "uint8"}, {"per_channel": False}, {}], METHODS, most=2),
)
def test_every_method_works_with_all_weights(options: dict[str, Any], method: str) -> None:
    """The default run has two methods for each kind of weights."""
    function = convolutional()
    assert decibels(function, converted(function, method=method, **options).function) > 22


def test_weights_and_biases_are_integers() -> None:
    function = converted(dense()).function
    kinds = {constant.name: constant.type.kind.value for constant in function.constants}
    stored = {name: kind for name, kind in kinds.items() if name.endswith("_stored")}
    assert stored == {"w_stored": "int8", "b_stored": "int32"} | {
        "v_stored": "int8",
        "c_stored": "int32",
    }
    weights = next(node for node in function.nodes if isinstance(node, DequantizeLinear))
    assert weights.scale.type.shape == (1, 7)
    one = converted(dense(), per_channel=False).function
    weights = next(node for node in one.nodes if isinstance(node, DequantizeLinear))
    assert weights.scale.type.shape == (1, 1)


def test_numbers_that_are_moved_keep_their_scale() -> None:
    found = scales(converted(convolutional()).function)
    assert list(found) == ["x", "relu0", "pool0", "relu1", "pool1", "flat"]
    assert found["relu0"] == found["pool0"]
    assert found["relu1"] == found["pool1"] == found["flat"]


def test_a_sum_is_done_where_the_product_behind_it_is() -> None:
    found = converted(residual())
    known = scales(found.function)
    assert list(known) == ["x", "stem_relu", "inner_relu", "sum_relu", "head_mean", "mean"]
    read: Any = found.function["sum"]
    assert [type(operand).__name__ for operand in (read.lhs, read.rhs)] == [
        "Convolution",
        "Dequantize",
    ]
    assert found.quantized == {"convolution": 5, "add": 1, "avg_pool": 1}


def test_parts_that_only_a_concat_reads_have_its_scale() -> None:
    found = converted(branching())
    all_scales = scales(found.function)
    assert all_scales["relu1"] == all_scales["gate"] == all_scales["joined"]
    assert all_scales["relu0"] != all_scales["joined"]


def test_what_stays_float_is_named() -> None:
    found = converted(branching(), keep=iter(["last", "rel*1"]))
    by_floats = "its results are read only by operators on floats"
    assert [(kept.name, kept.reason) for kept in found.kept] == [
        ("relu1", "keep='rel*1'"),
        ("gate", by_floats),
        ("last", "keep='last'"),
        ("softmax", "it has no form for integers"),
    ]
    assert str(found).splitlines() == [
        "branching: on integers: 3 convolution",
        "float relu: keep='rel*1': relu1",
        f"float sigmoid: {by_floats}: gate",
        "float convolution: keep='last': last",
        "float softmax: it has no form for integers: softmax",
        "for inputs of the sizes of the samples: x [1, 4, 4, 3]",
        f"predicted gain of the network on one thread: {found.gains.predicted.gain:.2f}",
    ]


def islands() -> Function:
    """Return a large convolution and a small dense layer, floats before and after each."""
    b = glow_nb.Builder("islands")
    large: Any = b.emit(Softmax(b.input("x", "float32<1 x 28 x 28 x 64>"), axis=3), name="before")
    window: Any = {"stride": (1, 1), "pads": (0,) * 4, "dilation": (1, 1), "group": 1}
    filter, bias = b.constant("w", random(256, 1, 1, 64)), b.constant("b", random(256))
    large = b.emit(Convolution(large, filter, bias, kernel=(1, 1), **window), name="large")
    large = b.emit(Softmax(large, axis=3), name="between")
    mean = b.emit(ReduceMean(large, axes=(1, 2), keep_dims=False), name="mean")
    some = b.emit(Slice(mean, (0, 0), (1, 8), (1, 1)), name="some")
    sums = b.emit(CumSum(some, axis=1), name="sums")
    v, c = b.constant("v", random(8, 2, seed=1)), b.constant("c", random(2))
    tiny = b.emit(FullyConnected(sums, v, c), name="tiny")
    b.save(b.emit(Softmax(tiny, axis=1), name="last"), "y")
    return b.function()


AVX2 = Target("x86_64-unknown-linux-gnu", "znver3", "+avx,+avx2,+fma,+f16c", lanes=8)
AVX512 = Target(
    "x86_64-unknown-linux-gnu",
    "znver4",
    "+avx,+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512vl,+avx512vnni",
    lanes=16,
)


@pytest.mark.parametrize("target", marked([AVX2, AVX512], slow=[AVX2]), ids=["avx2", "avx512"])
def test_an_island_that_saves_less_than_its_conversions_cost_stays_float(target: Target) -> None:
    function = islands()
    found = converted(function, least_gain=1.0, backend=CpuBackend(target))
    reasons = {kept.name: kept.reason for kept in found.kept}
    assert found.quantized == {"convolution": 1}
    assert list(scales(found.function)) == ["before"]
    assert reasons["tiny"].startswith("predicted gain 0.")
    assert reasons["tiny"].endswith(" < 1")
    assert found.gains.predicted.gain > 1
    every = converted(function, backend=CpuBackend(target))
    assert every.quantized == {"convolution": 1, "fully_connected": 1}
    assert every.gains.predicted.gain < found.gains.predicted.gain
    none = converted(function, least_gain=1e6, backend=CpuBackend(target))
    assert none.quantized == {}
    assert none.gains.predicted.gain == 1
    assert decibels(function, none.function) == np.inf


@pytest.mark.parametrize("number", [np.inf, np.nan])
@pytest.mark.parametrize("name", ["w", "b"])
def test_a_product_with_a_number_that_is_not_finite_stays_float(name: str, number: float) -> None:
    """A class that is masked by its bias, for instance."""
    b = glow_nb.Builder()
    numbers = {"w": random(5, 3), "b": random(3, seed=1)}
    numbers[name][..., 0] = number
    x = b.input("x", "float32<2 x 5>")
    w, bias = (b.constant(key, array) for key, array in numbers.items())
    b.save(b.emit(FullyConnected(x, w, bias), name="layer"), "y")
    with pytest.warns(GlowWarning, match="not finite"):
        ranges = quant.calibrate(b.function(), random(4, 5), backend="interpreter")
    found = quant.convert(b.function(), ranges, least_gain=0)
    (kept,) = found.kept
    assert (kept.name, kept.reason) == ("layer", "a weight, or a number of its bias, is not finite")
    assert quant.equalize(b.function()).pairs == ()


def test_products_of_activations_stay_float() -> None:
    b = glow_nb.Builder("product")
    x = b.input("x", "float32<3 x 3>")
    b.save(b.emit(MatMul(x, x), name="square"), "y")
    (kept,) = converted(b.function()).kept
    assert (kept.opcode, kept.reason) == ("mat_mul", "its weights are not constant")


def test_the_function_has_the_names_of_the_model() -> None:
    function = convolutional()
    found = converted(function).function
    assert found.inputs == function.inputs
    assert [output.name for output in found.outputs] == ["y"]
    names = {node.name for node in function.nodes}
    assert names <= {node.name for node in found.nodes}
    assert sum(isinstance(node, Dequantize) for node in found.nodes) == 6


def test_what_float64_computes_stays_float_for_its_kind() -> None:
    b = Builder()
    weights = b.constant("w", np.ones((5, 3)))
    b.save(b.emit(MatMul(b.input("x", "float64<2 x 5>"), weights), "product"), "y")
    function = b.function()
    ranges = quant.calibrate(function, [np.ones((2, 5))], backend="interpreter")
    reasons = [kept.reason for kept in quant.convert(function, ranges).kept]
    assert reasons == ["it computes float64<2 x 3>, not plain float32"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activations": "int4"}, "activations='int4': choose one of"),
        ({"activations": np.dtype("int8")}, r"activations=dtype\('int8'\): choose one of"),
        ({"weights": "int16"}, "weights='int16': choose one of"),
        ({"schema": "asym"}, "schema='asym'"),
        ({"method": "kl"}, "method='kl'"),
        ({"keep": "first"}, "keep='first': give a list"),
        ({"least_gain": -1.0}, "least_gain=-1.0: give a number of at least 0"),
        ({"least_gain": True}, "least_gain=True: give a number of at least 0"),
        ({"per_channel": "no"}, "per_channel='no': give True or False"),
        ({"least_gain": 10**400}, "least_gain=1000.*: give a number of at least 0"),
        ({"backend": "interpreter"}, "backend='interpreter': it does not estimate how long"),
        ({"keep": ["frist"]}, "keep: 'frist' fits no node of 'dense'; did you mean 'first'"),
    ],
)
def test_options_without_meaning_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        converted(dense(), **options)


def test_ranges_of_other_networks_are_refused() -> None:
    ranges = quant.calibrate(dense(), samples_of(dense()), backend="interpreter")
    with pytest.raises(CalibrationError, match="is computed with other weights"):
        quant.quantize(dense(scale=2.0), ranges)
    with pytest.raises(CalibrationError, match="3 is no Ranges"):
        quant.quantize(dense(), 3)  # type: ignore[arg-type]
    b = glow_nb.Builder("other")
    b.save(b.input("z", "float32<1>"), "y")
    with pytest.raises(CalibrationError, match=r"for the inputs \['x'\], the network has \['z'\]"):
        quant.quantize(b.function(), ranges)


def test_channels_of_zeros_have_the_scale_of_the_others() -> None:
    weights = np.array([[0.0, 0.0], [1.27, -0.5]], np.float32)
    found = quantize_weights(weights, 0, INT8, SCHEMAS["symmetric"], 0.0)
    np.testing.assert_array_equal(found.stored, [[0, 0], [127, -50]])
    np.testing.assert_allclose(found.scale, [[0.01], [0.01]])
    nothing = quantize_weights(np.zeros((2, 2), np.float32), 0, INT8, SCHEMAS["symmetric"], 0.0)
    assert not nothing.real.any()


def test_a_large_bias_makes_the_scale_of_its_weights_larger() -> None:
    input = Encoding(UINT8, 1e-3, 0)
    bias = np.array([1e6, 1.0], np.float32)
    weights = np.full((2, 3), 1e-3, np.float32)
    least = least_scales(bias, input)
    found = quantize_weights(weights, 0, INT8, SCHEMAS["symmetric"], least)
    stored, scale = quantize_bias(bias, input, found.scale)
    assert abs(stored[0]) <= MOST_BIAS + 256
    np.testing.assert_allclose(stored * scale, bias, rtol=1e-5)


def test_constants_are_a_quarter_as_large() -> None:
    b = glow_nb.Builder("large")
    x: Any = b.input("x", "float32<1 x 512>")
    for index in range(3):
        w = b.constant(f"w{index}", random(512, 512, seed=index) / 20)
        x = b.emit(MatMul(x, w))
    b.save(x, "y")
    function = b.function()
    found = converted(function).function

    def size(constants: tuple[Constant, ...]) -> int:
        return sum(constant.type.size_bytes for constant in constants)

    assert size(found.constants) < 0.27 * size(function.constants)
