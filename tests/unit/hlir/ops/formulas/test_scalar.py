"""Gradients that follow from formulas are those of the rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from glow_nb.hlir import ops
from glow_nb.hlir.backpropagate import rule_of, through_formula
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.differentiate import differentiate
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import NODES, Node, define_node
from glow_nb.hlir.ops.families import FLOATS, UnaryElementwise
from glow_nb.hlir.ops.formulas.scalar import has_known_formula
from glow_nb.hlir.rules import GRADIENTS, LOWERINGS
from tests.property.drawn_losses import draw_loss
from tests.property.test_gradients import check_gradients

COMPOSED: list[type[Node]] = [
    ops.Clip,
    ops.HardSigmoid,
    ops.HardSwish,
    ops.LeakyRelu,
    ops.PRelu,
    ops.Reciprocal,
    ops.Relu,
    ops.Swish,
]


@pytest.mark.parametrize("node_class", COMPOSED, ids=lambda c: c.opcode)
def test_a_formula_has_the_gradient_of_the_rule(
    node_class: type[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert has_known_formula(node_class)
    losses = [draw_loss([node_class], seed) for seed in range(4)]
    monkeypatch.delitem(GRADIENTS, node_class)
    monkeypatch.delitem(LOWERINGS, node_class, raising=False)
    assert rule_of(node_class) is through_formula
    for seed, loss in enumerate(losses):
        check_gradients(loss, seed)


def test_a_word_that_is_no_operator_makes_no_rule() -> None:
    assert not has_known_formula(ops.Elu)  # expm1
    assert not has_known_formula(ops.Gelu)  # gelu
    assert not has_known_formula(ops.MatMul)


@pytest.fixture
def gate() -> Iterator[type[UnaryElementwise]]:
    """Define an operator as a user would, and forget it again."""

    @define_node(
        "gate_for_the_test",
        scalar="where(is_open, where(input < limit, input * tanh(input), -input), 0)"
        " if mode == 'gate' else input",
    )
    class Gate(UnaryElementwise):
        """``x * tanh(x)`` below *limit*, else ``-x``."""

        kinds = FLOATS
        limit: float = 1.0
        is_open: bool = True
        mode: str = "gate"

        @override
        def compute(self, x: Any) -> Any:
            return np.where(x < self.limit, x * np.tanh(x), -x)

    yield Gate
    del NODES[Gate.opcode]


def test_an_operator_of_a_user_needs_no_rule(gate: type[UnaryElementwise]) -> None:
    builder = Builder()
    x = builder.input("x", "float32<2>")
    node = builder.emit(gate(x))
    builder.save(builder.emit(ops.ReduceSum(node, (0,), keep_dims=False)), "loss")
    found = evaluate(
        differentiate(builder.function(), ["x"]), {"x": np.array([0.5, 2], np.float32)}
    )
    slope = np.tanh(0.5) + 0.5 * (1 - np.tanh(0.5) ** 2)
    np.testing.assert_allclose(found["d_x"], [slope, -1], rtol=1e-6)
