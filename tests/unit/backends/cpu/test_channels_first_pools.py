"""Images with the channels first are pooled as they lie."""

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu.channels_first_pools import channels_first_pools
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import AvgPool, MaxPool, Relu, Transpose
from glow_nb.hlir.optimize.eliminate_dead_nodes import eliminate_dead_nodes
from glow_nb.hlir.optimize.eliminate_noops import eliminate_noops
from glow_nb.hlir.optimize.sink_transposes import sink_transposes
from glow_nb.kernels.machine.rows import ROWS
from glow_nb.kernels.target import Target

WIDE = Target.of(ROWS["zen4"])


def _function(
    pool: type[Any],
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    pads: tuple[int, ...],
    **more: Any,
) -> Function:
    """Return a function that pools an image with the channels first, and takes a ReLU of it."""
    builder, rank = glow_nb.Builder("pools"), len(shape)
    x = builder.input("x", f"float32<{' x '.join(map(str, shape))}>")
    last = builder.emit(Transpose(x, (0, *range(2, rank), 1)))
    window: dict[str, Any] = {
        "kernel": kernel,
        "stride": stride,
        "pads": pads,
        "dilation": (1,) * len(kernel),
    }
    pooled = builder.emit(Relu(builder.emit(pool(last, **window, **more))))
    builder.save(builder.emit(Transpose(pooled, (0, rank - 1, *range(1, rank - 1)))), "y")
    return builder.function()


POOLS: list[tuple[type[Any], tuple[Any, ...], dict[str, Any]]] = [
    (MaxPool, ((2, 3, 6, 70), (2, 2), (2, 2), (0, 0, 0, 0)), {}),
    (AvgPool, ((1, 5, 9, 33), (3, 2), (1, 1), (1, 0, 2, 0)), {}),
    (AvgPool, ((2, 3, 40), (3,), (2,), (0, 0)), {"count_padding": True}),
    (MaxPool, ((1, 2, 4, 5, 35), (2, 3, 2), (2, 1, 2), (0, 1, 0, 0, 1, 0)), {}),
]


@pytest.mark.parametrize("case", POOLS, ids=lambda case: f"{case[0].__name__}{case[1][0]}")
def test_no_transpose_is_left_and_the_result_is_the_same(case: Any) -> None:
    pool, window, more = case
    function = _function(pool, *window, **more)
    made = channels_first_pools(function, target=WIDE)
    made = eliminate_dead_nodes(eliminate_noops(sink_transposes(made)))
    assert not any(isinstance(node, Transpose) for node in made.nodes)
    x = np.random.default_rng(0).standard_normal(window[0]).astype(np.float32)
    wanted, found = (
        glow_nb.compile(each, backend="interpreter", pipeline=()).run({"x": x})["y"]
        for each in (function, made)
    )
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "window",
    [
        ((1, 8, 6, 64), (3, 3), (2, 2), (1, 1, 1, 1)),  # windows reach into padding along rows
        ((1, 64, 6, 30), (2, 2), (2, 2), (0, 0, 0, 0)),  # rows of 15 fill no vector of 16
        ((1, 8, 20, 60), (13, 13), (1, 1), (0, 0, 0, 0)),  # scans of channels take less time
    ],
)
def test_other_pools_stay(window: Any) -> None:
    function = _function(MaxPool, *window)
    assert channels_first_pools(function, target=WIDE) is function


def test_transpose_that_others_read_stays() -> None:
    builder = glow_nb.Builder("pools")
    x = builder.input("x", "float32<1 x 4 x 6 x 64>")
    last = builder.emit(Transpose(x, (0, 2, 3, 1)))
    window: dict[str, Any] = {
        "kernel": (2, 2),
        "stride": (2, 2),
        "pads": (0,) * 4,
        "dilation": (1, 1),
    }
    builder.save(builder.emit(MaxPool(last, **window)), "y")
    builder.save(builder.emit(Relu(last)), "z")
    function = builder.function()
    assert channels_first_pools(function, target=WIDE) is function


@pytest.mark.jit
def test_compiled_pool_of_a_model_with_channels_first() -> None:
    function = _function(MaxPool, *POOLS[0][1])
    net = glow_nb.compile(function, threads=2)
    assert "transpose" not in str(net.program)
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 70)).astype(np.float32)
    cells = x.reshape(2, 3, 3, 2, 35, 2)
    np.testing.assert_array_equal(net.run({"x": x})["y"], np.maximum(cells.max((3, 5)), 0))
