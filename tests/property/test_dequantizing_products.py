"""Products with low-bit weights: the kernel, the lowered form and NumPy mean the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.backends.cpu.pack_dequantizing_products import pack_dequantizing_products
from glow_nb.base.conversion import converted
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.lower import lower
from glow_nb.hlir.optimize.fold_constants import fold_constants
from glow_nb.kernels.target import LANE_COUNTS, Target

KINDS = [ElementKind(name) for name in ("int4", "uint4", "int8", "uint8", "int2", "uint2")]
FLOATS = [ElementKind(name) for name in ("float32", "float32", "float16", "bfloat16")]
TOLERANCES = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}


@st.composite
def products(draw: st.DrawFn) -> Function:
    """A product with constant weights and maybe an epilogue, whose input is called ``x``."""
    kind, float_kind = draw(st.sampled_from(KINDS)), draw(st.sampled_from(FLOATS))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    rows = draw(st.sampled_from([1, 2, 4, 7, 16, 30]))
    inner, depth = draw(st.integers(1, 300)), draw(st.integers(1, 80))
    block = draw(st.sampled_from([8, 12, 16, 32, 64, 400]))
    least, greatest = kind.limits
    shape = (-(-inner // block), depth)

    def integers(*sizes: int) -> Array:
        return converted(random.integers(least, greatest + 1, sizes), kind)

    b = Builder()
    x = b.input("x", TensorType(float_kind, (*draw(st.sampled_from([(), (2,)])), rows, inner)))
    scale = random.uniform(0.01, 0.1, shape).astype(draw(st.sampled_from(["float32", "float16"])))
    offset = draw(st.sampled_from(["none", "middle", "any"]))
    middle = converted(np.full(shape, least + greatest + 1 >> 1), kind)
    operands = (
        b.constant("weights", integers(inner, depth)),
        b.constant("scale", scale),
        None
        if offset == "none"
        else b.constant("offset", middle if offset == "middle" else integers(*shape)),
    )
    product: Value = b.emit(ops.DequantizingMatMul(x, *operands, block=block))
    if draw(st.booleans()):
        row = random.standard_normal((1,) * (product.type.rank - 1) + (depth,))
        bias = b.constant("bias", converted(row, float_kind))
        product = b.emit(ops.Relu(b.emit(ops.Add(product, bias))))
    b.save(product, "y")
    return b.function()


def feed(function: Function) -> dict[str, Array]:
    """Return numbers for ``x``."""
    type = function.inputs[0].type
    numbers = np.random.default_rng(0).standard_normal(type.shape)
    return {"x": converted(numbers, type.kind)}


def assert_near(found: Array, wanted: Array, function: Function) -> None:
    """Fail unless results are as near as those of products of floats."""
    kind = function.inputs[0].type.kind.value
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    largest = np.abs(wanted).max(initial=1.0)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCES[kind] * largest)


@settings(max_examples=60)
@given(products())
def test_lowered_and_packed_forms_mean_the_same(function: Function) -> None:
    feeds = feed(function)
    (wanted,) = evaluate(function, feeds).values()
    for changed in (lower(function), fold_constants(pack_dequantizing_products(function))):
        (found,) = evaluate(changed, feeds).values()
        assert_near(found, wanted, function)


@pytest.mark.jit
@settings(max_examples=max(1, settings().max_examples // 20))
@given(products(), st.sampled_from(LANE_COUNTS), st.integers(1, 3))
def test_compiled_products_mean_the_same(function: Function, lanes: int, threads: int) -> None:
    feeds = feed(function)
    (wanted,) = evaluate(function, feeds).values()
    backend = CpuBackend(Target.host(lanes), threads=threads)
    net = glow_nb.compile(function, backend=backend, threads=threads)
    (found,) = net.run(feeds).values()
    assert_near(found, wanted, function)
    assert any("dequantizing" in kernel.source for kernel in net.kernels)
