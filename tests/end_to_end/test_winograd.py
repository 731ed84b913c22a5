"""Winograd convolutions in real networks: how far the results are from the truth.

The truth is the same network in ``float64``, operator by operator. A difference is measured over
the largest output.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import glow_nb
from experiments.twins import NAMES, make_twin
from glow_nb.duel.feeds import random_feeds
from glow_nb.errors import OptionError

pytestmark = pytest.mark.jit

TOLERANCE = 1e-4
QUICK = ("squeezenet",)


def in_float64(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return *model* with all weights, inputs and results in ``float64``."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for tensor in wide.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for value in (*wide.graph.input, *wide.graph.output, *wide.graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    return wide


def _cases() -> list[object]:
    return [
        pytest.param(
            name, batch, id=f"{name}-{batch}",
            marks=() if name in QUICK and batch == 1 else (pytest.mark.slow,),
        )
        for name in NAMES
        for batch in (1, 8)
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "batch"), _cases())
def test_twins_stay_near_the_truth(name: str, batch: int) -> None:
    model = make_twin(name, batch)
    feeds = random_feeds(model)
    wide = glow_nb.load(in_float64(model))
    assert isinstance(wide, glow_nb.Function)
    truth = glow_nb.evaluate(wide, {key: x.astype(np.float64) for key, x in feeds.items()})
    nets = [glow_nb.compile(model, threads=threads) for threads in (1, 2)]
    for net in nets:
        found = net.run(feeds)
        for key, expected in truth.items():
            error = np.abs(found[key] - expected).max() / np.abs(expected).max()
            assert error <= TOLERANCE, (key, error)
    if name in QUICK:
        assert any(kernel.family == "winograd" for kernel in nets[0].kernels)
        direct = glow_nb.compile(model, threads=1, winograd="off")
        assert not any(kernel.family == "winograd" for kernel in direct.kernels)


def test_unknown_choice_is_refused() -> None:
    with pytest.raises(OptionError, match="winograd='sometimes': give one of"):
        glow_nb.compile(make_twin("squeezenet", 1), winograd="sometimes")
