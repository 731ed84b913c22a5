"""Padding that wraps goes around as often as it must."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.base.errors import ModelError
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from tests.unit.formats.onnx.importer.models import one, value, weight


@pytest.mark.parametrize(
    "pads", [(7, 0, 5, 9), (0, 5, 0, 0), (3, 4, 3, 4), (10, 1, 0, 1), (0, 8, 0, 12)]
)
def test_wrapping_takes_several_turns(pads: tuple[int, ...]) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    proto = one(
        "Pad",
        ["x", "pads"],
        inputs=[value("x", (3, 4))],
        weights=[weight("pads", np.array(pads, np.int64))],
        opset=19,
        mode="wrap",
    )
    (result,) = evaluate(import_onnx(proto), {"x": x}).values()
    wanted = np.pad(x, [(pads[0], pads[2]), (pads[1], pads[3])], mode="wrap")
    np.testing.assert_array_equal(result, wanted)


def test_an_empty_axis_has_nothing_to_wrap() -> None:
    proto = one(
        "Pad",
        ["x", "pads"],
        inputs=[value("x", (0,))],
        weights=[weight("pads", np.array([0, 1], np.int64))],
        opset=19,
        mode="wrap",
    )
    with pytest.raises(ModelError, match="more than mode 'wrap' can fill from 0 elements"):
        import_onnx(proto)
