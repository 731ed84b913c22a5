"""What ``bisect`` takes for rounding: one step of the coarsest numbers of a network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import glow_nb
from glow_nb import bisection
from glow_nb.base.steps import Step
from glow_nb.base.types import ElementKind
from glow_nb.bisection.rounding import Rounding, rounding_of
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.rewrite import Rewriter, rewrite
from tests.unit.quant.networks import random

INT8, UINT8 = ElementKind.INT8, ElementKind.UINT8

SAMPLE = random(2, 5, seed=3)


def network(kind: str = "float32", stored: ElementKind | None = None) -> Function:
    """Return a product of *kind* and a ReLU, with bytes of the kind *stored* between them."""
    b = glow_nb.Builder("net")
    x = b.input("x", f"{kind}<2 x 5>")
    weights = random(5, 64).astype(ElementKind(kind).dtype)
    value: Value = b.emit(ops.MatMul(x, b.constant("w", weights)), name="product")
    if stored is not None:
        largest = float(np.abs(SAMPLE @ weights).max())
        made = ops.Quantize(value, kind=stored, scale=largest / stored.limits[1], offset=0)
        value = b.emit(ops.Dequantize(b.emit(made, name="stored")), name="read")
    b.save(b.emit(ops.Relu(value)), "y")
    return b.function()


def nudged(function: Function, *, factor: float = 1.004) -> Function:
    """Make the product a little larger, so that some numbers round to the next step."""

    def rule(node: Node, rewriter: Rewriter) -> Value | None:
        if not isinstance(node, ops.MatMul) or node.name != "product":
            return None
        more = rewriter.constant("more", np.full((1, 1), factor, np.float32))
        return rewriter.emit(ops.Mul(rewriter.emit(ops.MatMul(node.lhs, node.rhs)), more))

    return rewrite(function, rule)


@pytest.mark.parametrize(
    ("function", "rounding"),
    [
        (network(), Rounding(1e-4)),
        (network("float64"), Rounding(1e-4)),
        (network("float16"), Rounding(2**-10, "one step of float16")),
        (network("bfloat16"), Rounding(2**-7, "one step of bfloat16")),
        (network(stored=INT8), Rounding(2**-6, "one step of int8", INT8)),
        (network(stored=UINT8), Rounding(2**-6, "one step of uint8", UINT8)),
        (network(stored=ElementKind.INT16), Rounding(1e-4)),
    ],
)
def test_the_step_is_that_of_the_coarsest_numbers(function: Function, rounding: Rounding) -> None:
    assert rounding_of(function) == rounding
    program = glow_nb.compile(function, backend="interpreter", threads=1).program
    assert rounding_of(program) == replace(rounding, kind=None)


def test_weights_alone_are_not_rounded_in_a_run() -> None:
    b = glow_nb.Builder("net")
    w = b.constant("w", random(5, 7))
    made = ops.Quantize(w, kind=ElementKind.INT8, scale=0.02, offset=0)
    stored = b.emit(made)
    x = b.input("x", "float32<2 x 5>")
    b.save(b.emit(ops.MatMul(x, b.emit(ops.Dequantize(stored)))), "y")
    function = b.function()
    assert rounding_of(function) == Rounding(1e-4)
    assert rounding_of(function, "bfloat16") == Rounding(2**-7, "one step of bfloat16")


def test_a_step_of_a_byte_is_no_error_unless_a_tolerance_says_so() -> None:
    function, steps = network(stored=ElementKind.INT8), (nudged,)
    found = bisection.bisect(function, SAMPLE, backend="interpreter", pipeline=steps)
    assert found.first_bad is None
    assert 1e-4 < max(step.distance for step in found.steps) <= found.tolerance
    assert str(found).endswith(" states agree within 0.0156, one step of int8")
    exact = bisection.bisect(
        function, SAMPLE, backend="interpreter", pipeline=steps, tolerance=1e-4
    )
    assert exact.first_bad is not None and exact.first_bad.step == "nudged"
    assert "of the largest output, more than 0.0001, first in %" in str(exact)


def halves(step: float = 2.0**-5) -> Function:
    """Return a network of numbers in the middle between two steps, and what rounding does to them.

    All of the result is rounding: its least change turns numbers of 1/64 over.
    """
    b = glow_nb.Builder("halves")
    x = b.input("x", "float32<1 x 64>")
    product = b.emit(ops.MatMul(x, b.constant("w", np.eye(64, dtype=np.float32))), name="product")
    stored = b.emit(ops.Quantize(product, kind=ElementKind.INT8, scale=step, offset=0))
    b.save(b.emit(ops.Sub(b.emit(ops.Dequantize(stored)), x)), "y")
    return b.function()


@pytest.mark.parametrize(("factor", "is_bad"), [(1 + 2.0**-20, False), (1.5, True)])
def test_steps_that_add_up_are_measured(factor: float, is_bad: bool) -> None:
    x = (np.arange(64, dtype=np.float32)[None] + np.float32(0.5)) * np.float32(2.0**-5)
    told: list[str] = []
    found = bisection.bisect(
        halves(),
        x,
        backend="interpreter",
        pipeline=(Step(nudged, {"factor": factor}),),
        progress=lambda step, number, count: told.append(step),
    )
    assert found.steps[1].distance >= 2
    assert found.tolerance == 4
    assert (found.first_bad is not None) == is_bad
    assert "4, 2 times the effect of a change by 2^-20 before each" in str(found)
    assert told.count("rounding of the import") == 1
    exact = bisection.bisect(
        halves(),
        x,
        backend="interpreter",
        pipeline=(Step(nudged, {"factor": factor}),),
        tolerance=1,
    )
    assert exact.first_bad is not None and exact.tolerance == 1


def test_lower_precision_rounds() -> None:
    b = glow_nb.Builder("net")
    x, weights = b.input("x", "float32<8 x 256>"), random(256, 64)
    b.save(b.emit(ops.MatMul(x, b.constant("w", weights)), name="product"), "y")
    found = bisection.bisect(
        b.function(), random(8, 256, seed=1), backend="interpreter", precision="bfloat16", threads=1
    )
    assert found.first_bad is None
    assert found.reason == "one step of bfloat16"
    assert any(step.step == "lower_precision" and step.distance > 1e-4 for step in found.steps)
