"""When products of bytes take weights in pairs that do not saturate, and in how wide panels."""

import numpy as np
import pytest

from glow_nb.backends.cpu.paired_weights import steps_over_fewest
from glow_nb.backends.cpu.select_packed_operators import select_packed_operators
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Constant, Function, Node
from glow_nb.hlir.ops import FullyConnected, MatMul
from glow_nb.kernels.operators import PairedConvolution
from glow_nb.kernels.operators.pairings import STEP_INPUTS, PairedWeights
from tests.unit.backends.cpu.test_select_products_of_bytes import AVX2, processor


def product_of_bytes(left: str, weights: Array, *, rows: tuple[int, ...] = (30,)) -> Function:
    """Return bytes times constant weights, plus a bias if they have one batch."""
    builder = Builder()
    x = builder.input("x", TensorType(ElementKind(left), (*rows, weights.shape[0])))
    w = builder.constant("w", weights)
    bias = builder.constant("b", np.arange(weights.shape[1], dtype=np.int32))
    node: Node = FullyConnected(x, w, bias) if len(rows) == 1 else MatMul(x, w)
    builder.save(builder.emit(node), "y")
    return builder.function()


@pytest.mark.parametrize("left", ["uint8", "int8"])
@pytest.mark.parametrize("rows", [(30,), (2, 15), (2, 3, 4), (2, 1, 1, 3, 1, 4)])
def test_constant_bytes_lie_in_pairs_where_few_are_large(left: str, rows: tuple[int, ...]) -> None:
    random = np.random.default_rng(1)
    weights = random.integers(-40, 40, (64, 40)).astype(np.int8)
    weights[::7] *= 3
    function = product_of_bytes(left, weights, rows=rows)
    made = select_packed_operators(function, target=processor(AVX2))
    (found,) = (node for node in made if isinstance(node, PairedConvolution))
    assert found.input.type.kind is ElementKind.UINT8
    limits = np.iinfo(left)
    numbers = random.integers(limits.min, limits.max, (*rows, 64), left, endpoint=True)
    (wanted,) = evaluate(function, {"x": numbers}).values()
    np.testing.assert_array_equal(evaluate(made, {"x": numbers})["y"], wanted)


@pytest.mark.parametrize(
    ("weights", "features", "rows"),
    [
        (np.full((64, 40), 65, np.int8), AVX2, 30),  # none of them can be pairs
        (np.full((64, 40), 64, np.uint8), AVX2, 30),
        (np.full((64, 40), 64, np.int8), f"{AVX2},+avxvnni", 30),
        (np.full((64, 40), 64, np.int8), "+sse2", 30),
        (np.full((64, 40), 64, np.int8), AVX2, 8),  # memory is what it waits for
        (np.zeros((0, 40), np.int8), AVX2, 30),
    ],
)
def test_other_constant_bytes_do_not_lie_in_pairs(weights: Array, features: str, rows: int) -> None:
    function = product_of_bytes("uint8", weights, rows=(rows,))
    made = select_packed_operators(function, target=processor(features))
    assert not any(isinstance(node, PairedConvolution) for node in made)


def test_bytes_of_the_run_or_of_a_text_do_not_lie_in_pairs() -> None:
    builder = Builder()
    x = builder.input("x", "uint8<30 x 64>")
    w = builder.input("w", "int8<64 x 40>")
    text = Constant("t", TensorType(ElementKind.INT8, (64, 40)))
    builder.save(builder.emit(MatMul(x, w)), "y")
    builder.save(builder.emit(MatMul(x, text)), "z")
    made = select_packed_operators(builder.function(), target=processor(AVX2))
    assert not any(isinstance(node, PairedConvolution) for node in made)


@pytest.mark.parametrize("rows", [(30,), (3, 10), (3, 2, 5)])
def test_paired_products_keep_their_predicate(rows: tuple[int, ...]) -> None:
    builder = Builder()
    x = builder.input("x", TensorType(ElementKind.UINT8, (*rows, 64)))
    chosen = builder.input("chosen", TensorType(ElementKind.BOOL, rows[:1]))
    w = builder.constant("w", np.ones((64, 24), np.int8))
    builder.save(builder.emit(MatMul(x, w, predicate=chosen)), "y")
    made = select_packed_operators(builder.function(), target=processor(AVX2))
    (found,) = (node for node in made if isinstance(node, PairedConvolution))
    assert found.predicate is chosen


def only_pairs(shift: int, columns: int) -> Array:
    """Return int8 ``[64, columns]`` whose only pairs are neighbours of 16, turned by *shift*.

    In each column, one of each two is large, drawn at random: two large ones are no pair.
    """
    large = np.random.default_rng(3).integers(0, 2, (8, columns))
    window = np.ones((16, columns), np.int8)
    for pair, places in enumerate(large):
        window[(2 * pair + places + shift) % 16, np.arange(columns)] = 100
    return np.tile(window, (4, 1))


@pytest.mark.parametrize(
    ("shifts", "block"),
    [
        ((0, 0, 0), 24),  # any width has pairs
        ((0, 1, 0), 16),  # 24 columns would have other pairs in a third of them
    ],
)
def test_the_width_of_panels_is_that_whose_weights_take_few_steps(
    shifts: tuple[int, ...], block: int
) -> None:
    weights = np.concatenate([only_pairs(shift, 16) for shift in shifts], axis=1)
    function = product_of_bytes("uint8", weights, rows=(120,))
    made = select_packed_operators(function, target=processor(AVX2))
    (found,) = (node for node in made if isinstance(node, PairedConvolution))
    assert found.block == block


def test_each_step_that_weights_take_is_part_of_the_estimate() -> None:
    function = product_of_bytes("uint8", only_pairs(0, 40))
    (node,) = (node for node in function if isinstance(node, FullyConnected))
    fewest = 3 * 64 // STEP_INPUTS  # in three panels
    for steps, factor in ((fewest, 1.0), (fewest + 12, 1.25)):
        made = PairedWeights(np.zeros((steps, 64), np.int8), np.zeros(1, np.int32))
        assert steps_over_fewest(node, 16, made) == factor
