"""Which packed operators the cpu backend selects for matrix products."""

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu.algorithms import candidates
from glow_nb.backends.cpu.select_packed_operators import candidates_of, select_packed_operators
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.ops import (
    Convolution,
    FullyConnected,
    MatMul,
    Mul,
    Transpose,
)
from glow_nb.hlir.ops.windows import Window
from glow_nb.hlir.recipe import folded
from glow_nb.kernels.operators import (
    PackedConvolution,
    PackedMatMul,
    UnpackedMatMul,
    WinogradConvolution,
)
from glow_nb.kernels.products.blocking import rank_blocks
from glow_nb.kernels.products.operand_cost import suits_in_place
from glow_nb.kernels.target import Target
from tests.targets import SMALL_CORE

Shape = tuple[int, ...]


def selected(
    left: Shape, right: Shape, orders: tuple[Shape, Shape], *, has_bias: bool = False
) -> Node:
    """Return what becomes of a product of inputs that are transposed."""
    builder = Builder("product")
    operands: list[Value] = []
    for name, shape, order in (("lhs", left, orders[0]), ("rhs", right, orders[1])):
        value: Value = builder.input(name, f"float32<{' x '.join(map(str, shape))}>")
        if order != tuple(range(len(shape))):
            value = builder.emit(Transpose(value, order))
        operands.append(value)
    if has_bias:
        columns = operands[1].type.shape[-1]
        bias = builder.constant("bias", np.ones(columns, np.float32))
        builder.save(builder.emit(FullyConnected(operands[0], operands[1], bias)), "y")
    else:
        builder.save(builder.emit(MatMul(operands[0], operands[1])), "y")
    function = select_packed_operators(builder.function(), target=SMALL_CORE)
    found = [n for n in function if isinstance(n, (PackedMatMul, UnpackedMatMul))]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("has_bias", [False, True])
def test_few_rows_read_a_transposed_matrix_where_it_lies(has_bias: bool) -> None:
    node = selected((2, 64), (100, 64), ((0, 1), (1, 0)), has_bias=has_bias)
    assert isinstance(node, UnpackedMatMul)
    assert (node.lhs.name, node.rhs.name) == ("lhs", "rhs")
    assert (node.bias is not None) == has_bias
    assert (node.lhs_order, node.rhs_order) == ((0, 1), (1, 0))


def test_heads_are_read_where_they_lie() -> None:
    node = selected((1, 2, 4, 64), (1, 99, 4, 64), ((0, 2, 1, 3), (0, 2, 3, 1)))
    assert isinstance(node, UnpackedMatMul)
    assert (node.lhs.name, node.rhs.name) == ("lhs", "rhs")
    assert (node.lhs_order, node.rhs_order) == ((0, 2, 1, 3), (0, 2, 3, 1))


def test_left_rows_that_are_no_vectors_are_transposed_before() -> None:
    node = selected((64, 2), (100, 64), ((1, 0), (1, 0)))
    assert isinstance(node, UnpackedMatMul)
    assert isinstance(node.lhs, Transpose)


def test_many_rows_read_panels() -> None:
    assert isinstance(selected((5120, 64), (100, 64), ((0, 1), (1, 0))), PackedMatMul)


@pytest.mark.parametrize(
    ("rows", "columns", "form"),
    [(1, 768, UnpackedMatMul), (77, 768, UnpackedMatMul), (2000, 768, PackedMatMul)],
)
def test_a_matrix_is_copied_for_many_rows_only(rows: int, columns: int, form: type[Node]) -> None:
    assert isinstance(selected((rows, 64), (64, columns), ((0, 1), (0, 1))), form)


def test_values_of_heads_at_equal_distances_are_read_where_they_lie() -> None:
    node = selected((1, 4, 3, 50), (1, 50, 4, 64), ((0, 1, 2, 3), (0, 2, 1, 3)))
    assert isinstance(node, UnpackedMatMul)
    assert (node.rhs.name, node.rhs_order) == ("rhs", (0, 2, 1, 3))


def test_values_of_heads_at_other_distances_are_transposed_before() -> None:
    node = selected((2, 4, 3, 50), (2, 50, 4, 64), ((0, 1, 2, 3), (0, 2, 1, 3)))
    assert isinstance(node, UnpackedMatMul)
    assert isinstance(node.rhs, Transpose)


@pytest.mark.parametrize(
    ("left", "right", "orders"),
    [
        ((3, 2, 5, 1), (2, 3, 7, 1), ((0, 1, 2, 3), (1, 0, 3, 2))),
        ((2, 3, 5, 1), (7, 1), ((1, 0, 2, 3), (1, 0))),
    ],
)
def test_sums_of_one_product_take_matrices_at_any_distances(
    left: Shape, right: Shape, orders: tuple[Shape, Shape]
) -> None:
    assert selected(left, right, orders).type.shape[-2:] == (5, 7)


@pytest.mark.parametrize(("size", "channels"), [(28, 128), (56, 64), (40, 256)])
def test_tiles_that_are_less_precise_are_not_selected_for_a_small_gain(
    size: int, channels: int
) -> None:
    builder = Builder("convolution")
    input = builder.input("input", f"float32<1 x {size} x {size} x {channels}>")
    filter = builder.constant("filter", np.ones((channels, 3, 3, channels), np.float32))
    bias = builder.constant("bias", np.zeros(channels, np.float32))
    window = Window((3, 3), (1, 1), (1, 1, 1, 1), (1, 1)).attributes
    node = Convolution(input, filter, bias, **window)
    builder.save(builder.emit(node, name="made"), "y")
    function = builder.function()
    product = function["made"]
    assert isinstance(product, Convolution)
    first, *others = candidates_of(product, SMALL_CORE, "auto")
    assert any(candidate.cycles < first.cycles for candidate in others), (
        "there is no small gain to decline"
    )
    made = select_packed_operators(function, target=SMALL_CORE)
    (found,) = (each for each in made if isinstance(each, WinogradConvolution))
    assert found.tile == first.plan.sizes("tile") == (4, 4)


def test_a_convolution_may_have_no_filters() -> None:
    builder = Builder("convolution")
    input = builder.input("input", "float32<1 x 8 x 8 x 4>")
    filter = builder.constant("filter", np.zeros((0, 3, 3, 4), np.float32))
    bias = builder.constant("bias", np.zeros(0, np.float32))
    ones = (1, 1)
    made = Convolution(
        input, filter, bias, kernel=(3, 3), stride=ones, pads=(1, 1, 1, 1), dilation=ones, group=1
    )
    builder.save(builder.emit(made), "y")
    select_packed_operators(builder.function(), target=Target.host())


@pytest.mark.parametrize(
    ("winograd", "wanted"),
    [("auto", WinogradConvolution), ("guarded", PackedConvolution), ("off", PackedConvolution)],
)
def test_a_filter_of_the_run_is_transformed_unless_it_might_hold_nan(
    winograd: str, wanted: type[Node]
) -> None:
    function = convolution_with_filter_of_the_run(128, 64)
    made = select_packed_operators(function, target=Target.host(16), winograd=winograd)
    assert any(isinstance(node, wanted) for node in made)


@pytest.mark.parametrize(("factor", "is_held"), [(0.5, True), (1e30, False), (np.nan, False)])
def test_folded_weights_are_transformed_if_none_can_be_huge(factor: float, is_held: bool) -> None:
    builder = Builder("layer")
    image = builder.input("x", "float32<1 x 28 x 28 x 64>")
    weights = Constant.of("w", np.full((128, 3, 3, 64), -2, np.float32))
    factors = Constant.of("f", np.full((128, 1, 1, 1), factor, np.float32))
    filter = folded(Mul(weights, factors), "folded")
    bias = builder.constant("b", np.ones(128, np.float32))
    ones: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1)}
    node = Convolution(image, filter, bias, kernel=(3, 3), pads=(1, 1, 1, 1), **ones)
    builder.save(builder.emit(node), "y")
    made = select_packed_operators(builder.function(), target=Target.host(16))
    assert any(isinstance(node, WinogradConvolution) for node in made) == is_held


def convolution_with_filter_of_the_run(depth: int, channels: int) -> Function:
    """Return a network of a convolution of 3 x 3 taps whose filter is an input."""
    builder = Builder("layer")
    image = builder.input("x", f"float32<1 x 28 x 28 x {channels}>")
    filter = builder.input("w", f"float32<{depth} x 3 x 3 x {channels}>")
    bias = builder.constant("b", np.ones(depth, np.float32))
    ones: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1)}
    node = Convolution(image, filter, bias, kernel=(3, 3), pads=(1, 1, 1, 1), **ones)
    builder.save(builder.emit(node), "y")
    return builder.function()


def test_panels_of_a_filter_of_the_run_are_filled_if_that_costs_little() -> None:
    function = convolution_with_filter_of_the_run(512, 64)
    made = select_packed_operators(function, target=Target.host(16), winograd="off")
    (packed,) = (node for node in made if isinstance(node, PackedConvolution))
    assert packed.depth % packed.block == 0


@pytest.mark.jit
def test_a_filter_of_the_run_gives_what_a_constant_one_gives() -> None:
    function = convolution_with_filter_of_the_run(20, 32)
    random = np.random.default_rng(0)
    feeds = {
        p.name: random.standard_normal(p.type.shape).astype(np.float32) for p in function.inputs
    }
    found = glow_nb.compile(function, threads=2).run(feeds)["y"]
    wanted = evaluate(function, feeds)["y"]
    assert np.abs(found - wanted).max() < 2e-5 * np.abs(wanted).max()


def alike(count: int) -> Function:
    """Return products and convolutions that differ in their weights alone, *count* of each kind."""
    builder = Builder("alike")
    rows: Value = builder.input("rows", "float32<24 x 32>")
    image: Value = builder.input("image", "float32<1 x 9 x 9 x 16>")
    window: Any = {"kernel": (3, 3), "stride": (1, 1), "pads": (1,) * 4, "dilation": (1, 1)}
    bias = builder.constant("bias", np.zeros(16, np.float32))
    for number in range(count):
        weights = builder.constant(f"w{number}", np.full((32, 32), number + 1, np.float32))
        rows = builder.emit(MatMul(rows, weights))
        transposed = builder.emit(Transpose(rows, (1, 0)))
        rows = builder.emit(MatMul(rows, builder.emit(MatMul(transposed, rows))))
        filter = builder.constant(f"f{number}", np.full((16, 3, 3, 16), number + 1, np.float32))
        image = builder.emit(Convolution(image, filter, bias, group=1, **window))
    builder.save(rows, "y")
    builder.save(image, "z")
    return builder.function()


def test_the_ways_of_products_that_are_alike_are_estimated_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []

    def counted(*problem: Any, **more: Any) -> tuple[int, ...]:
        asked.append(problem)
        return rank_blocks(*problem, **more)

    monkeypatch.setattr("glow_nb.backends.cpu.algorithms.direct.rank_blocks", counted)
    counts = []
    for count in (1, 5):
        candidates._candidates.cache_clear()
        suits_in_place.cache_clear()
        select_packed_operators(alike(count), target=SMALL_CORE)
        counts.append(len(asked))
        asked.clear()
    assert counts[0] == counts[1] > 0
