"""Convolutions that pad with another number than 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.reference
import pytest

import glow_nb
from glow_nb.base.errors import VerifyError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Placeholder

SIZES = {1: (5,), 2: (4, 5), 3: (3, 2, 4)}
NUMBERS = {"int8": -128, "uint8": 255, "int16": -999, "int32": 70_000}


def functions(kind: str, rank: int, group: int, number: int) -> tuple[Function, Function, Array]:
    """Return a convolution that pads with *number*, the same after a pad, and numbers for it."""
    random, sizes = np.random.default_rng(rank), SIZES[rank]
    dtype = ElementKind(kind).dtype
    x = random.integers(*ElementKind(kind).limits, (2, *sizes, 4), dtype, endpoint=True)
    begins, ends = (2, 0, 1)[:rank], (1, 2, 0)[:rank]
    made = []
    for is_explicit in (False, True):
        b = Builder()
        value: Any = b.input("x", TensorType.of(x))
        window: dict[str, Any] = {"kernel": (2,) * rank, "dilation": (2, 1, 1)[:rank]}
        window |= {"stride": (1, 2, 1)[:rank], "pads": begins + ends, "group": group}
        if is_explicit:
            around = (0, *begins, 0, 0, *ends, 0)
            value = b.emit(ops.Pad(value, around, value=float(number)))
            window["pads"] = (0,) * 2 * rank
        else:
            window["pad_value"] = number
        filter = np.arange(4 * 2**rank * 4 // group, dtype=np.int8).reshape(
            4, *(2,) * rank, 4 // group
        )
        weights = b.constant("w", filter - 9), b.constant("b", np.arange(4, dtype=np.int32))
        b.save(b.emit(ops.Convolution(value, *weights, **window)), "y")
        made.append(b.function())
    return made[0], made[1], x


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", NUMBERS)
def test_it_is_that_of_a_padded_input(kind: str, rank: int, group: int) -> None:
    padding, padded, x = functions(kind, rank, group, NUMBERS[kind])
    wanted = evaluate(padded, {"x": x})["y"]
    np.testing.assert_array_equal(evaluate(padding, {"x": x})["y"], wanted)
    for function in (padding, padded):
        net = glow_nb.compile(function, backend="interpreter")
        np.testing.assert_array_equal(net.run({"x": x})["y"], wanted)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "rank", "group", "threads"),
    [("int8", 2, 4, 1), ("uint8", 2, 2, 2), ("int16", 1, 1, 2), ("int32", 3, 1, 1)],
)
def test_kernels_pad_with_it(kind: str, rank: int, group: int, threads: int) -> None:
    padding, _, x = functions(kind, rank, group, NUMBERS[kind])
    net = glow_nb.compile(padding, threads=threads)
    np.testing.assert_array_equal(net.run({"x": x})["y"], evaluate(padding, {"x": x})["y"])


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_a_model_of_it_computes_the_same(kind: str) -> None:
    padding, _, x = functions(kind, 2, 1, NUMBERS[kind])
    model = glow_nb.export_onnx(padding)
    (found,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_array_equal(found, evaluate(padding, {"x": x})["y"])
    again = glow_nb.compile(model, backend="interpreter")
    np.testing.assert_array_equal(again.run({"x": x})["y"], found)


@pytest.mark.parametrize(
    ("kind", "number", "fault"),
    [
        ("float32", 1, "pad_value is 1, but around input .* it must be 0; use a pad"),
        ("uint8", -1, "pad_value is -1, but for input .* it must be from 0 to 255"),
    ],
)
def test_what_is_no_number_of_the_input_is_refused(kind: str, number: int, fault: str) -> None:
    sums = "float32" if kind == "float32" else "int32"
    x = Placeholder("x", TensorType(ElementKind(kind), (1, 4, 1)))
    filter = Placeholder("w", TensorType(ElementKind(kind), (1, 2, 1)))
    bias = Placeholder("b", TensorType(ElementKind(sums), (1,)))
    with pytest.raises(VerifyError, match=fault):
        ops.Convolution(
            x, filter, bias, kernel=(2,), stride=(1,), pads=(1, 1), dilation=(1,), pad_value=number
        )
