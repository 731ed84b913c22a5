"""Groups that read a shuffle in unequal parts: what fills up the shorter ones changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.optimize import GRAPH_PASSES

CHANNELS, HALF = 18, 9


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 1.0])
@pytest.mark.parametrize("place", range(CHANNELS))
def test_a_channel_stays_out_of_groups_that_do_not_read_it(special: float, place: int) -> None:
    b = Builder()
    x = b.input("x", f"float32<1 x 3 x {CHANNELS}>")
    apart = b.emit(ops.Reshape(x, (1, 3, 2, HALF)))
    turned = b.emit(ops.Transpose(apart, (0, 1, 3, 2)))
    shuffled = b.emit(ops.Reshape(turned, (1, 3, CHANNELS)))
    filter = b.constant("w", np.arange(1, 4 * HALF + 1, dtype=np.float32).reshape(4, 1, HALF))
    bias = b.constant("b", np.zeros(4, np.float32))
    y = ops.Convolution(
        shuffled, filter, bias, kernel=(1,), stride=(1,), pads=(0, 0), dilation=(1,), group=2
    )
    b.save(b.emit(y), "y")
    function = b.function()
    after = GRAPH_PASSES.run(function, ("sink_channel_shuffles",))
    assert after is not function
    feeds = {"x": np.ones((1, 3, CHANNELS), np.float32)}
    feeds["x"][0, 1, place] = special
    np.testing.assert_array_equal(evaluate(after, feeds)["y"], evaluate(function, feeds)["y"])
