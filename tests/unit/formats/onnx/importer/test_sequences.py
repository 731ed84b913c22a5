"""ReverseSequence with lengths that no sequence of the batch has."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import glow_nb
from glow_nb.base.errors import ModelError
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from tests.unit.formats.onnx.importer.models import one, value, weight

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def reversing(lengths: list[int] | None) -> onnx.ModelProto:
    """Return a model of sequences of 4 steps, with these lengths or with such that are fed."""
    ends: dict[str, Any] = {"inputs": [value("x", X.shape)]}
    if lengths is None:
        ends["inputs"].append(value("n", (3,), TensorProto.INT64))
    else:
        ends["weights"] = [weight("n", np.array(lengths))]
    made: onnx.ModelProto = one("ReverseSequence", ("x", "n"), time_axis=0, batch_axis=1, **ends)
    return made


@pytest.mark.parametrize("wrong", [-1, 5])
def test_known_lengths_outside_of_the_steps_are_refused(wrong: int) -> None:
    with pytest.raises(ModelError, match=rf"the length {wrong}, and the sequences have 4 steps"):
        import_onnx(reversing([4, 2, wrong]))


def test_fed_lengths_outside_of_the_steps_count_as_the_nearest() -> None:
    function = import_onnx(reversing(None))
    feeds = {"x": X, "n": np.array([-3, 2, 2**40])}
    wanted = np.stack([X[:, 0], X[[1, 0, 2, 3], 1], X[::-1, 2]], axis=1)
    np.testing.assert_array_equal(evaluate(function, feeds)["y"], wanted)
    network = glow_nb.compile(function, backend="interpreter")
    np.testing.assert_array_equal(network.run(feeds)["y"], wanted)
