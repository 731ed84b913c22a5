"""Products with a reciprocal of two parts are rounded to the integers that quotients are."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glow_nb
from glow_nb.backends.cpu.multiply_by_reciprocals import multiply_by_reciprocals
from glow_nb.base.errors import VerifyError
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.kernels.operators import QuantizeByProduct
from glow_nb.kernels.operators.quantize_by_product import _rounds_alike, reciprocal_of
from glow_nb.kernels.target import Target

WITH_FMA = replace(Target.host(8), cpu="x86-64", features="+sse2,+avx,+avx2,+fma")


def quantization(scale: Array, offset: int, kind: str, shape: tuple[int, ...]) -> Function:
    b = Builder()
    x = b.input("x", f"float32<{' x '.join(map(str, shape))}>")
    zero = np.full((1,) * len(shape), offset, kind)
    node = ops.QuantizeLinear(
        x, b.constant("scale", scale), b.constant("zero", zero), kind=ElementKind(kind)
    )
    b.save(b.emit(node), "y")
    return b.function()


def is_multiplied(function: Function, target: Target) -> bool:
    made = multiply_by_reciprocals(function, target=target)
    return any(isinstance(node, QuantizeByProduct) for node in made)


def beside_borders(scale: np.float32, random: np.random.Generator) -> Array:
    """Return numbers beside the middles between multiples of *scale*, and any others."""
    middles = (np.arange(-700, 700) + 0.5) * float(scale)
    near = middles.astype(np.float32).view(np.int32)
    near = near + random.integers(-6, 7, (20, near.size), np.int32)
    others = (random.normal(size=4000) * 200 * scale).astype(np.float32)
    special = np.array([0, -0.0, np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, -1e-45], np.float32)
    return np.concatenate([near.view(np.float32).ravel(), others, special])


@given(
    st.floats(2.0**-30, 2.0**30, width=32), st.integers(0, 255), st.sampled_from(["int8", "uint8"])
)
def test_all_inputs_become_the_same_bytes(scale: float, offset: int, kind: str) -> None:
    number = np.float32(scale)
    x = beside_borders(number, np.random.default_rng(offset))
    offset -= 128 * (kind == "int8")
    function = quantization(np.full((1,), number), offset, kind, x.shape)
    assert is_multiplied(function, WITH_FMA)
    made = multiply_by_reciprocals(function, target=WITH_FMA)
    wanted = evaluate(function, {"x": x})["y"]
    np.testing.assert_array_equal(evaluate(made, {"x": x})["y"], wanted)


@pytest.mark.jit
def test_kernels_round_to_the_same_bytes() -> None:
    if "fma" not in Target.host().enabled_features:
        pytest.skip("this processor has no fma")
    random = np.random.default_rng(0)
    scales = random.uniform(1e-3, 0.5, 17).astype(np.float32)
    x = np.stack([beside_borders(scale, random) for scale in scales], axis=1)
    function = quantization(scales[np.newaxis], 7, "uint8", x.shape)
    net = glow_nb.compile(function)
    assert any("quantize_by_product" in kernel.instruction for kernel in net.kernels)
    np.testing.assert_array_equal(net.run({"x": x})["y"], evaluate(function, {"x": x})["y"])


def test_one_number_is_no_reciprocal_as_a_rule() -> None:
    """The check declines what is not precise enough."""
    scales = np.random.default_rng(1).uniform(1e-3, 0.5, 50).astype(np.float32)
    alone = [_rounds_alike(scale, 1 / scale, np.float32(0)) for scale in scales]
    assert sum(alone) < 5
    assert all(reciprocal_of(scale.reshape(1)) is not None for scale in scales)


@pytest.mark.parametrize("scale", [2.0**-100, 2.0**100])
def test_scales_beyond_the_range_are_divided_by(scale: float) -> None:
    assert reciprocal_of(np.full(1, scale, np.float32)) is None


def test_what_is_not_known_or_not_bytes_is_divided() -> None:
    many = np.full((1, 100), 0.1, np.float32)
    functions = [
        quantization(many, 0, "uint8", (2, 100)),
        quantization(many[:, :1], 0, "int16", (2, 100)),
    ]
    assert not any(is_multiplied(function, WITH_FMA) for function in functions)
    known = quantization(many[:, :1], 0, "uint8", (2, 100))
    assert is_multiplied(known, WITH_FMA)
    assert not is_multiplied(known, replace(WITH_FMA, features="+sse2"))


def test_operands_must_fit() -> None:
    b = Builder()
    x, low = b.input("x", "float32<2 x 3>"), b.input("low", "float32<1 x 1>")
    zero = b.input("zero", "uint8<1 x 1>")
    message = "'high' is float32<1 x 2>, which does not broadcast to 'input' float32<2 x 3>"
    with pytest.raises(VerifyError, match=re.escape(message)):
        QuantizeByProduct(x, b.input("high", "float32<1 x 2>"), low, zero, ElementKind.UINT8)
