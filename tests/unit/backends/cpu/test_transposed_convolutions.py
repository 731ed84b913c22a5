"""Transposed convolutions as products whose columns are added up."""

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu.transposed_convolutions import as_columns, transposed_convolutions
from glow_nb.base.types import ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops.windows import Window
from glow_nb.hlir.rewrite import rewrite
from glow_nb.kernels.machine.rows import ROWS, ZEN3
from glow_nb.kernels.target import Target


def _function(
    shape: tuple[int, ...],
    channels: int,
    window: Window,
    *,
    group: int = 1,
    more: int = 0,
    kind: str = "float32",
    is_first: bool = False,
) -> Function:
    """Return a transposed convolution of *shape*, ``[N, *in, K]``, whose result has *more*.

    Its input has the channels first, and is transposed, if *is_first*.
    """
    batch, *places, depth = shape
    rank = len(places)
    steps = zip(places, window.stride, window.span, window.pads, window.pads[rank:], strict=False)
    size = tuple(s * (n - 1) + span - b - e + more for n, s, span, b, e in steps)
    rng, b = np.random.default_rng(0), glow_nb.Builder("spread")
    given = (batch, depth, *places) if is_first else shape
    x: Any = b.input("x", f"{kind}<{' x '.join(map(str, given))}>")
    if is_first:
        x = b.emit(ops.Transpose(x, (0, *range(2, rank + 2), 1)))
    weights = rng.standard_normal((depth, *window.kernel, channels // group))
    filter = b.constant("w", weights.astype(ElementKind(kind).dtype))
    spread = ops.TransposedConvolution(x, filter, size=size, group=group, **window.attributes)
    b.save(b.emit(spread), "y")
    return b.function()


CASES: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (((1, 5, 6, 4), 1, Window((3, 3), (2, 2), (0, 0, 0, 0), (1, 1))), {}),
    (((2, 4, 3, 6), 4, Window((3, 2), (2, 3), (1, 0, 1, 1), (2, 1))), {"group": 2, "more": 1}),
    (((1, 4, 3, 3), 3, Window((2, 2), (2, 2), (0, 0, 0, 0), (1, 1))), {"group": 3}),
    (((3, 9, 4), 2, Window((5,), (3,), (1, 2), (1,))), {"is_first": True}),
    (((1, 2, 3, 2, 4), 3, Window((3, 3, 3), (2, 2, 2), (1,) * 6, (1, 1, 1))), {"more": 1}),
    (((1, 6, 7, 5), 2, Window((3, 3), (1, 1), (1, 1, 1, 1), (1, 1))), {"kind": "float64"}),
    (((1, 6, 5, 4), 1, Window((3, 3), (2, 2), (1, 1, 1, 1), (1, 1))), {"kind": "float16"}),
]


@pytest.mark.parametrize(("sizes", "options"), CASES)
def test_columns_add_up_to_the_transposed_convolution(
    sizes: tuple[Any, ...], options: dict[str, Any]
) -> None:
    function = _function(*sizes, **options)
    made = rewrite(function, as_columns, ops.TransposedConvolution)
    assert any(isinstance(node, ops.ColumnsToImage) for node in made.nodes)
    (x,) = function.inputs
    feeds = {"x": np.random.default_rng(1).standard_normal(x.type.shape).astype(x.type.kind.dtype)}
    wanted, found = (evaluate(each, feeds)["y"] for each in (function, made))
    tolerance = 1e-2 if x.type.kind is ElementKind.FLOAT16 else 1e-5
    np.testing.assert_allclose(found, wanted, atol=tolerance)


def _adds_up(function: Function, row: Any, threads: int = 1) -> bool:
    made = transposed_convolutions(function, target=Target.of(row), threads=threads)
    return any(isinstance(node, ops.ColumnsToImage) for node in made.nodes)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_few_channels_are_added_up_on_every_processor(row: Any) -> None:
    window = Window((3, 3), (2, 2), (0, 0, 0, 0), (1, 1))
    for is_first in (False, True):
        function = _function((1, 56, 56, 48), 2, window, is_first=is_first)
        assert _adds_up(function, row)
        assert _adds_up(function, row, threads=4)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_many_channels_stay_convolutions_on_every_processor(row: Any) -> None:
    window = Window((3, 3), (1, 1), (1, 1, 1, 1), (1, 1))
    assert not _adds_up(_function((1, 14, 14, 96), 48, window), row)


def test_columns_that_no_near_cache_holds_are_not_added_up() -> None:
    window = Window((7, 7), (3, 3), (3, 3, 3, 3), (1, 1))
    assert not _adds_up(_function((2, 33, 33, 48), 64, window, group=8), ZEN3)


@pytest.mark.parametrize("kind", ["int32", "float16", "bfloat16", "float64"])
def test_floats_of_every_kind_are_added_up_and_integers_stay(kind: str) -> None:
    window = Window((3, 3), (2, 2), (0, 0, 0, 0), (1, 1))
    function = _function((1, 56, 56, 48), 1, window, kind=kind, is_first=True)
    assert _adds_up(function, ZEN3) is ElementKind(kind).is_float


@pytest.mark.jit
def test_few_channels_first_are_not_transposed() -> None:
    window = Window((3, 3), (2, 2), (1, 1, 1, 1), (1, 1))
    function = _function((1, 20, 21, 16), 1, window, is_first=True)
    net = glow_nb.compile(function, threads=2)
    assert len(net.kernels) == 2
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 16, 20, 21)).astype(np.float32)}
    np.testing.assert_allclose(net.run(feeds)["y"], evaluate(function, feeds)["y"], atol=1e-5)
