"""Constants that nodes over constants compute: when, where, and which of them are the same."""

from __future__ import annotations

import tracemalloc
from functools import reduce

import numpy as np
import pytest
from typing_extensions import override

from glow_nb.base.errors import GlowError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate_node
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.ops import Add, Concat, MatMul, Maximum, Mul, Relu, Reshape, Transpose
from glow_nb.hlir.optimize.eliminate_common_nodes import eliminate_common_nodes
from glow_nb.hlir.optimize.fold_constants import fold_constants
from glow_nb.hlir.recipe import LARGE_BYTES, NodeRecipe, folded
from glow_nb.kernels.operators import WinogradFilter

WIDE = TensorType(ElementKind.FLOAT32, (128, 128))


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def constant(*shape: int, seed: int = 0) -> Constant:
    return Constant.of(f"w{seed}", numbers(*shape, seed=seed))


NODES: list[Node] = [
    Mul(constant(128, 128), constant(128, 1, seed=1)),
    Relu(constant(128, 128)),
    Reshape(constant(128, 128), (64, 256)),
    Transpose(constant(128, 64, 2), (2, 0, 1)),
    WinogradFilter(constant(1, 2, 3, 3, 64, 16), (4, 4), (1, 1)),
    WinogradFilter(constant(1, 3, 3, 5, 8), (2,), (2,)),
    Concat((constant(128, 128), constant(128, 128, seed=1)), axis=1),
]


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.opcode)
def test_what_is_written_is_what_the_node_computes(node: Node) -> None:
    place = np.full(node.type.shape, np.nan, np.float32)
    NodeRecipe(node).write_to(place)
    (expected,) = evaluate_node(node, {})
    np.testing.assert_array_equal(place, expected)
    np.testing.assert_array_equal(NodeRecipe(node).array, expected)


def test_a_packed_filter_is_transformed_without_a_copy_of_it() -> None:
    """One panel after the other: a packed filter is a view, [panels, taps, channels, columns]."""
    panels, channels, columns = 32, 64, 16
    plain = numbers(panels, columns, 3, 3, channels)
    packed = plain.transpose(0, 2, 3, 4, 1)[np.newaxis]
    type = TensorType(ElementKind.FLOAT32, packed.shape)
    node = WinogradFilter(Constant("w", type, packed), (4, 4), (1, 1))
    place = np.empty(node.type.shape, np.float32)
    tracemalloc.start()
    node.transform(packed, place)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < packed.nbytes / 2
    np.testing.assert_array_equal(place, node.evaluate(np.ascontiguousarray(packed)))


def test_a_chain_is_made_from_its_beginning() -> None:
    scaled = folded(Mul(constant(128, 256), constant(128, 1, seed=1)), "scaled")
    transposed = folded(Transpose(scaled, (1, 0)), "transposed")
    place = np.empty((256, 128), np.float32)
    transposed.write_to(place)
    np.testing.assert_array_equal(place, (numbers(128, 256) * numbers(128, 1, seed=1)).T)


def test_large_numbers_are_not_made_before_they_are_asked_for() -> None:
    made: list[str] = []

    class Watched(Relu):
        @override
        def evaluate(self, input: Array) -> Array:
            made.append(self.opcode)
            return super().evaluate(input)

    large = folded(Watched(constant(128, 128)), "large")
    assert large.type.size_bytes >= LARGE_BYTES
    assert made == []
    assert large.array is large.array
    assert len(made) == 1
    assert not large.array.flags.writeable
    folded(Watched(constant(4, 4)), "small")
    assert len(made) == 2


def product(*rights: Constant) -> Function:
    """Return the sum of the products of an input with each of *rights*."""
    builder = Builder("main")
    x = builder.input("x", WIDE)
    terms: list[Value] = [builder.emit(MatMul(x, right)) for right in rights]
    builder.save(reduce(lambda total, term: builder.emit(Add(total, term)), terms), "y")
    return builder.function()


def test_numbers_made_alike_are_one_constant() -> None:
    first, second = (folded(Transpose(constant(128, 128), (1, 0)), name) for name in "ab")
    other = folded(Transpose(constant(128, 128, seed=1), (1, 0)), "c")
    merged = eliminate_common_nodes(product(first, second, other))
    assert merged.constants == (first, other)


def test_folding_leaves_the_numbers_of_large_results_for_later() -> None:
    builder = Builder("main")
    x = builder.input("x", WIDE)
    transposed = builder.emit(Transpose(constant(128, 128), (1, 0)))
    builder.save(builder.emit(MatMul(x, transposed)), "y")
    (weights,) = fold_constants(builder.function()).constants
    assert isinstance(weights.payload, NodeRecipe)
    np.testing.assert_array_equal(weights.array, numbers(128, 128).T)


def test_numbers_that_were_not_supplied_are_an_error_wherever_they_are_asked_for() -> None:
    external = Constant("w", WIDE)
    for ask in (
        lambda: external.array,
        lambda: external.write_to(np.empty((128, 128), np.float32)),
    ):
        with pytest.raises(GlowError, match=r"constant %w.*were not supplied.*constants="):
            ask()


def test_a_long_chain_is_made_on_the_way() -> None:
    last = constant(128, 128)
    for number in range(3000):
        last = folded(Relu(last), f"relu_{number}")
    np.testing.assert_array_equal(last.array, np.maximum(numbers(128, 128), 0))


def test_what_is_read_twice_again_and_again_is_made_on_the_way() -> None:
    older = newer = constant(128, 128)
    for number in range(100):
        older, newer = newer, folded(Maximum(older, newer), f"value_{number}")
        newer = folded(Maximum(newer, older), f"larger_{number}")
    np.testing.assert_array_equal(newer.array, numbers(128, 128))
