"""The function ``fma`` of scalar expressions, in machine code and in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import glow_nb
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import NODES, Node, Value, define_node
from glow_nb.hlir.ops.elementwise import fused_multiply_add

INT32, FLOAT16 = ElementKind.INT32, ElementKind.FLOAT16
FLOAT32, FLOAT64 = ElementKind.FLOAT32, ElementKind.FLOAT64


@pytest.fixture
def multiply_add() -> Iterator[type[Any]]:
    """Define an operator as a user would, and forget it again."""

    @define_node("multiply_add_for_the_test", scalar="fma(x, y, z)")
    class MultiplyAdd(Node):
        """``x y + z``, as float64."""

        x: Value
        y: Value
        z: Value

        @override
        def infer_type(self) -> TensorType:
            return self.x.type.with_kind(FLOAT64)

        @override
        def evaluate(self, x: Array, y: Array, z: Array) -> Array:
            return fused_multiply_add(x, y, z).astype(np.float64)

    yield MultiplyAdd
    del NODES[MultiplyAdd.opcode]


@pytest.mark.jit
@pytest.mark.parametrize(
    "kinds",
    [
        (FLOAT32, FLOAT32, FLOAT32),
        (FLOAT64, FLOAT64, FLOAT64),
        (FLOAT16, FLOAT16, FLOAT16),
        (FLOAT32, FLOAT32, FLOAT64),
        (INT32, INT32, INT32),
    ],
)
def test_kinds_are_brought_together(
    kinds: tuple[ElementKind, ...], multiply_add: type[Any]
) -> None:
    random, b = np.random.default_rng(0), Builder()
    feeds = {
        name: (1000 * random.normal(size=37)).astype(kind.dtype)
        for name, kind in zip("xyz", kinds, strict=True)
    }
    operands = {name: b.input(name, TensorType.of(array)) for name, array in feeds.items()}
    b.save(b.emit(multiply_add(**operands)), "result")
    results = [
        glow_nb.compile(b.function(), backend=backend).run(feeds)["result"]
        for backend in ("cpu", "interpreter")
    ]
    wide = {name: array.astype(np.float64) for name, array in feeds.items()}
    expected = wide["x"] * wide["y"] + wide["z"]
    for found in results:
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-1)


@pytest.mark.jit
def test_products_are_not_rounded(multiply_add: type[Any]) -> None:
    x = np.full(5, 1 + 2.0**-12, np.float32)
    feeds = {"x": x, "y": x, "z": -(x * x)}
    b = Builder()
    operands = {name: b.input(name, TensorType.of(array)) for name, array in feeds.items()}
    b.save(b.emit(multiply_add(**operands)), "result")
    for backend in ("cpu", "interpreter"):
        found = glow_nb.compile(b.function(), backend=backend).run(feeds)["result"]
        np.testing.assert_array_equal(found, 2.0**-24)
