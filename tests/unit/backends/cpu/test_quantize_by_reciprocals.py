"""Quantization by known scales: what is multiplied, what is divided, and that bytes are equal."""

from dataclasses import replace

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu.quantize_by_reciprocals import quantize_by_reciprocals
from glow_nb.base.types import ElementKind
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import QuantizeLinear
from glow_nb.kernels.operators import QuantizeByReciprocal
from tests.targets import SMALL_CORE

AWKWARD = 0.01281738467514515
CHANNELS = (0.02, 0.5, 1.0 / 255, 3.0)


def function_of(scales: tuple[float, ...], kind: ElementKind, *, is_known: bool = True) -> Function:
    builder = Builder("steps")
    x = builder.input("x", "float32<1031 x 4>")
    numbers = np.array(scales, np.float32).reshape(1, -1)
    scale = (
        builder.constant("scale", numbers)
        if is_known
        else builder.input("scale", f"float32<1 x {len(scales)}>")
    )
    offset = builder.constant("offset", np.full((1, 1), 3, kind.dtype))
    builder.save(builder.emit(QuantizeLinear(x, scale, offset, kind)), "y")
    return builder.function()


def operators(function: Function) -> set[type]:
    return {type(node) for node in function}


@pytest.mark.parametrize("kind", [ElementKind.UINT8, ElementKind.INT8])
@pytest.mark.parametrize("scales", [(0.0386410690844059,), CHANNELS])
def test_bytes_are_those_of_a_division(kind: ElementKind, scales: tuple[float, ...]) -> None:
    function = function_of(scales, kind)
    found = quantize_by_reciprocals(function, target=SMALL_CORE)
    assert QuantizeByReciprocal in operators(found)
    halves = (np.arange(1031) - 515) / 2
    x = (halves[:, None] * np.array(scales)).astype(np.float32) * np.ones((1, 4), np.float32)
    x[:3] = [[np.inf], [-np.inf], [np.nan]]
    wanted = evaluate(function, {"x": x})["y"]
    np.testing.assert_array_equal(evaluate(found, {"x": x})["y"], wanted)
    np.testing.assert_array_equal(glow_nb.compile(function).run({"x": x})["y"], wanted)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (function_of((AWKWARD,), ElementKind.UINT8), "a byte could differ"),
        (function_of((0.5, 0.5, 0.5, AWKWARD), ElementKind.INT8), "one of a channel could"),
        (function_of((0.1,), ElementKind.INT8, is_known=False), "a run brings the scale"),
        (function_of((0.1,), ElementKind.INT16), "there are more steps than checked"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_others_are_divided(function: Function, why: str) -> None:
    assert quantize_by_reciprocals(function, target=SMALL_CORE) is function, why


def test_without_fused_multiply_adds_all_are_divided() -> None:
    old = replace(SMALL_CORE, features="+sse2")
    function = function_of((0.1,), ElementKind.UINT8)
    assert quantize_by_reciprocals(function, target=old) is function


def test_what_may_be_skipped_may_be_skipped_still() -> None:
    builder = Builder("skipped")
    x, where = builder.input("x", "float32<4 x 4>"), builder.input("where", "bool<4>")
    scale = builder.constant("scale", np.full((1, 1), 0.1, np.float32))
    offset = builder.constant("offset", np.zeros((1, 1), np.int8))
    node = QuantizeLinear(x, scale, offset, ElementKind.INT8, predicate=where)
    builder.save(builder.emit(node), "y")
    found = quantize_by_reciprocals(builder.function(), target=SMALL_CORE)
    (made,) = (node for node in found if isinstance(node, QuantizeByReciprocal))
    assert made.predicate is not None


def test_one_scale_of_several_layers_has_one_reciprocal() -> None:
    builder = Builder("two")
    x = builder.input("x", "float32<4 x 4>")
    scale = builder.constant("scale", np.full((1, 1), 0.1, np.float32))
    offset = builder.constant("offset", np.zeros((1, 1), np.int8))
    for name in "yz":
        builder.save(builder.emit(QuantizeLinear(x, scale, offset, ElementKind.INT8)), name)
    found = quantize_by_reciprocals(builder.function(), target=SMALL_CORE)
    first, second = (node for node in found if isinstance(node, QuantizeByReciprocal))
    assert (first.high, first.low) == (second.high, second.low)
