"""Products of 16-bit floats with float32 results: their operands are float32 in ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.formats.onnx.export import export_onnx
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Node, Value

WINDOW: dict[str, Any] = {"kernel": (3,), "stride": (2,), "pads": (1, 0), "dilation": (1,)}


def bias() -> Value:
    return Builder().constant("bias", np.linspace(-1, 1, 4, dtype=np.float32))


@pytest.mark.parametrize(
    ("shapes", "form"),
    [
        (((2, 5), (5, 4)), lambda x, w: ops.MatMul(x, w, wide=True)),
        (((2, 5), (5, 4)), lambda x, w: ops.FullyConnected(x, w, bias(), wide=True)),
        (((2, 7, 5), (4, 3, 5)), lambda x, w: ops.Convolution(x, w, bias(), wide=True, **WINDOW)),
        (
            ((2, 4, 4), (4, 3, 5)),
            lambda x, w: ops.TransposedConvolution(x, w, (8,), wide=True, **WINDOW),
        ),
    ],
)
def test_a_wide_product_becomes_one_of_float32(shapes, form) -> None:  # type: ignore[no-untyped-def]
    builder, random = Builder(), np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype(ElementKind.BFLOAT16.dtype) for shape in shapes]
    feeds = dict(zip("xw", arrays, strict=True))
    node: Node = form(*(builder.input(name, TensorType.of(a)) for name, a in feeds.items()))
    builder.save(builder.emit(node), "y")
    function = builder.function()
    again = import_onnx(export_onnx(function))
    (wanted,), (found,) = (evaluate(each, feeds).values() for each in (function, again))
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
