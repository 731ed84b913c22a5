"""Lines that no convolution reads are left out before they are transposed."""

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu.strides_before_transposes import strides_before_transposes
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Convolution, Relu, Slice, Transpose

Case = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _function(shape: tuple[int, ...], kernel: Any, stride: Any, pads: Any) -> Function:
    """Return a convolution of an image with the channels first."""
    builder, rank = glow_nb.Builder("convolutions"), len(shape)
    weights = np.random.default_rng(0).standard_normal((5, *kernel, shape[1])).astype(np.float32)
    x = builder.input("x", f"float32<{' x '.join(map(str, shape))}>")
    last = builder.emit(Transpose(x, (0, *range(2, rank), 1)))
    filter, bias = builder.constant("w", weights), builder.constant("b", np.ones(5, np.float32))
    window: dict[str, Any] = {
        "kernel": kernel,
        "stride": stride,
        "pads": pads,
        "dilation": (1,) * len(kernel),
    }
    builder.save(builder.emit(Convolution(last, filter, bias, group=1, **window)), "y")
    return builder.function()


STRIDED: list[tuple[Case, tuple[int, ...]]] = [
    (((2, 3, 7, 9), (1, 1), (2, 2), (0, 0, 0, 0)), (1, 2)),
    (((1, 4, 8, 9), (1, 3), (3, 2), (0, 1, 0, 1)), (1, 2)),
    (((1, 2, 5, 6, 7), (1, 1, 1), (2, 1, 2), (0,) * 6), (1, 1, 2)),
    (((1, 2, 5, 6, 7), (1, 3, 1), (2, 2, 1), (0, 1, 0, 0, 1, 0)), (1, 2, 1)),
]


@pytest.mark.parametrize(("case", "stride"), STRIDED, ids=lambda case: str(case[0]))
def test_lines_are_left_out_and_the_result_is_the_same(case: Case, stride: Any) -> None:
    function = _function(*case)
    made = strides_before_transposes(function)
    (convolution,) = (node for node in made.nodes if isinstance(node, Convolution))
    assert convolution.stride == stride
    assert isinstance(convolution.input, Transpose) and isinstance(convolution.input.input, Slice)
    x = np.random.default_rng(1).standard_normal(case[0]).astype(np.float32)
    wanted, found = (
        glow_nb.compile(each, backend="interpreter", pipeline=()).run({"x": x})["y"]
        for each in (function, made)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "case",
    [
        ((1, 3, 8, 8), (3, 3), (2, 2), (1, 1, 1, 1)),
        ((1, 3, 8, 8), (1, 1), (1, 2), (0, 0, 0, 0)),
        ((1, 3, 8, 8), (1, 1), (2, 2), (1, 0, 1, 0)),
        ((1, 3, 8), (1,), (2,), (0, 0)),
    ],
)
def test_convolutions_that_read_all_lines_stay(case: Any) -> None:
    function = _function(*case)
    assert strides_before_transposes(function) is function


def test_transpose_that_others_read_stays_whole() -> None:
    function = _function(*STRIDED[0][0])
    builder = glow_nb.Builder.continuing(function)
    (last,) = (node for node in function.nodes if isinstance(node, Transpose))
    builder.save(builder.emit(Relu(last)), "z")
    shared = builder.function()
    assert strides_before_transposes(shared) is shared


@pytest.mark.jit
def test_compiled_transpose_reads_every_second_line() -> None:
    net = glow_nb.compile(_function(*STRIDED[0][0]), threads=1)
    assert "float32<2 x 3 x 4 x 9>" in str(net.program)
    x = np.random.default_rng(1).standard_normal((2, 3, 7, 9)).astype(np.float32)
    wanted = glow_nb.compile(_function(*STRIDED[0][0]), backend="interpreter").run({"x": x})["y"]
    np.testing.assert_allclose(net.run({"x": x})["y"], wanted, rtol=1e-5, atol=1e-5)
