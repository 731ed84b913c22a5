"""Nominal arithmetic of operators."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.base.costs import Cost
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.cost import total_cost
from glow_nb.hlir.graph import NODES, Node
from glow_nb.hlir.ops.windows import Window
from glow_nb.kernels import operators

MOVES = {
    "as_quantized", "broadcast", "concat", "decide_size", "gather", "gather_elements", "gather_nd",
    "insert_slice", "non_zero", "pad", "reshape", "save", "sizes", "slice", "split", "stored",
    "tile", "top_k", "transpose", "unique",
}  # fmt: skip
"""Operators that are known to compute nothing but where an element comes from."""


@pytest.fixture
def b() -> Builder:
    return Builder()


def convolution(b: Builder, group: int = 1) -> Node:
    x = b.input("x", "float32<2 x 9 x 9 x 8>")
    filter = b.constant("w", np.zeros((6, 3, 3, 8 // group), np.float32))
    bias = b.constant("b", np.zeros(6, np.float32))
    return ops.Convolution(
        x, filter, bias, kernel=(3, 3), stride=(2, 2), pads=(1, 1, 1, 1), dilation=(1, 1),
        group=group,
    )  # fmt: skip


def test_convolution_counts_taps_of_its_group(b: Builder) -> None:
    results = 2 * 5 * 5 * 6
    assert convolution(b).cost() == Cost(results * 9 * 8, results)
    assert convolution(b, group=2).cost() == Cost(results * 9 * 4, results)


def test_matrix_products(b: Builder) -> None:
    x = b.input("x", "float32<5 x 2 x 3>")
    w = b.constant("w", np.zeros((3, 7), np.float32))
    assert ops.MatMul(x, w).cost() == Cost(5 * 2 * 3 * 7)


def test_elementwise_counts_results(b: Builder) -> None:
    row = b.input("row", "float32<1 x 4>")
    column = b.input("column", "float32<3 x 1>")
    assert ops.Add(row, column).cost() == Cost(others=12)
    assert ops.Relu(row).cost() == Cost(others=4)


def test_reductions_count_operands(b: Builder) -> None:
    x = b.input("x", "float32<3 x 4>")
    assert ops.ReduceSum(x, (1,)).cost() == Cost(others=12)
    assert ops.ArgMax(x, 1).cost() == Cost(others=12)


def test_total_of_a_function(b: Builder) -> None:
    x = b.input("x", "float32<2 x 3>")
    w = b.constant("w", np.zeros((3, 4), np.float32))
    b.save(b.emit(ops.Relu(b.emit(ops.MatMul(x, w)))), "y")
    assert total_cost(b.function()) == Cost(24, 8)
    assert total_cost(b.function()).flops == 56


def test_every_operator_has_a_cost_or_moves_data() -> None:
    ours = {name: n for name, n in NODES.items() if n.__module__.startswith("glow_nb.")}
    for opcode, node in ours.items():
        has_rule = node.cost is not Node.cost
        assert has_rule + node.data_parallel + (opcode in MOVES) == 1, opcode


def test_winograd_convolution_executes_fewer_products(b: Builder) -> None:
    x = b.input("x", "float32<1 x 8 x 8 x 4>")
    filter = b.input("w", "float32<1 x 1 x 6 x 6 x 4 x 8>")
    bias = b.input("b", "float32<8>")
    window = Window((3, 3), (1, 1), (1, 1, 1, 1), (1, 1)).attributes
    node = operators.WinogradConvolution(
        x, filter, bias, depth=8, tile=(4, 4), group=1, block=8, **window
    )
    assert node.cost() == Cost(64 * 8 * 9 * 4, 64 * 8)
    assert node.executed_cost().multiply_adds == 4 * 36 * 8 * 4
    rows, columns = 6 * 22 + 6 * 22, 6 * 18 + 4 * 18  # numbers other than 0 in B, and in A
    assert node.executed_cost().others == 4 * (4 * rows + 8 * columns) + 64 * 8


def test_top_k_executes_insertions(b: Builder) -> None:
    node = ops.TopK(b.input("x", "float32<8 x 1000>"), k=100, axis=1)
    assert node.cost() == Cost()
    assert node.executed_cost() == Cost(others=8 * 1000 + 8 * 100 * 100 // 2)
