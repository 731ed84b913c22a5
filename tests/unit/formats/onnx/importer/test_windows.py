"""Convolutions and pools mean what onnxruntime takes them for."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from tests.unit.formats.onnx.importer.models import one, value, weight
from tests.unit.formats.onnx.importer.reference import check, numbers, typed

CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 7), (4, 3, 3), {"pads": [1, 0]}),
    ((2, 3, 7, 5), (4, 3, 3, 2), {"strides": [2, 1], "pads": [0, 1, 2, 0]}),
    ((1, 4, 6, 6), (6, 2, 3, 3), {"group": 2, "dilations": [2, 1]}),
    ((1, 4, 6, 6), (8, 1, 3, 3), {"group": 4, "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((1, 4, 7, 8), (2, 4, 4, 4), {"auto_pad": "SAME_LOWER"}),
    ((1, 4, 7, 8), (2, 4, 4, 4), {"auto_pad": "VALID", "kernel_shape": [4, 4]}),
    ((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), {"strides": [1, 2, 1], "pads": [1, 1, 0, 0, 1, 0]}),
]


@pytest.mark.parametrize(("shape", "filter", "attributes"), CONVOLUTIONS)
@pytest.mark.parametrize("constant", [False, True])
def test_convolution(
    shape: tuple[int, ...], filter: tuple[int, ...], attributes: dict[str, Any], constant: bool
) -> None:
    x, w, b = numbers(*shape), numbers(*filter), numbers(filter[0])
    inputs = [value("x", shape)] + ([] if constant else [value("w", filter)])
    weights = [weight("b", b)] + ([weight("w", w)] if constant else [])
    proto = one("Conv", ("x", "w", "b"), inputs=inputs, weights=weights, **attributes)
    check(typed(proto), *((x,) if constant else (x, w)))


TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 4), (3, 2, 3), {"strides": [2]}),
    ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": [2, 3], "pads": [1, 0, 0, 2]}),
    ((1, 4, 4, 4), (4, 2, 2, 3), {"group": 2, "dilations": [2, 1], "output_padding": [0, 0]}),
    ((1, 4, 4, 4), (4, 2, 3, 3), {"strides": [2, 2], "output_padding": [1, 1], "group": 4}),
    ((1, 2, 3, 3), (2, 2, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 2, 3, 3), (2, 2, 3, 3), {"strides": [3, 2], "output_shape": [10, 8]}),
    ((1, 1, 3, 3), (1, 1, 1, 1), {"pads": [1, 1, 1, 1]}),
]


@pytest.mark.parametrize(("shape", "filter", "attributes"), TRANSPOSED)
def test_transposed_convolution(
    shape: tuple[int, ...], filter: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    proto = one(
        "ConvTranspose",
        ("x", "w"),
        inputs=[value("x", shape)],
        weights=[weight("w", numbers(*filter))],
        **attributes,
    )
    check(typed(proto), numbers(*shape))


POOLS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 2, 7), {"kernel_shape": [3], "strides": [2], "ceil_mode": 1}),
    ((1, 2, 6, 7), {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
    ((1, 2, 6, 7), {"kernel_shape": [3, 3], "strides": [3, 2], "pads": [1, 1, 1, 1]}),
    (
        (1, 2, 5, 5),
        {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    ),
    ((1, 2, 9, 9), {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    ((1, 2, 4, 5, 6), {"kernel_shape": [2, 2, 2], "strides": [1, 2, 2]}),
]


@pytest.mark.parametrize(("shape", "attributes"), POOLS)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "AveragePool with padding"])
def test_pool(op: str, shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    op, _, counts = op.partition(" ")
    rest = dict(attributes, count_include_pad=1) if counts else attributes
    proto = typed(one(op, opset=22, inputs=[value("x", shape)], **rest))
    check(proto, numbers(*shape))


def test_max_pool_places() -> None:
    proto = one(
        "MaxPool",
        inputs=[value("x", (2, 3, 6, 6))],
        outputs=("y", "i"),
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 0, 0],
    )
    typed(proto).graph.output[1].type.tensor_type.elem_type = onnx.TensorProto.INT64
    check(proto, numbers(2, 3, 6, 6))
