"""The gradient rule of every operator against differences of the loss, in float64.

The operators are those that have a rule, drawn from their declarations, so that a new rule is
tested without a line.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.differentiate import differentiate
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import NODES, Value
from glow_nb.hlir.lower import lower
from glow_nb.hlir.ops import Add, Mul, ReduceSum
from glow_nb.hlir.rules import GRADIENTS
from glow_nb.hlir.save import Save
from tests.in_turn import left_out, marked
from tests.property.drawn_losses import DrawnLoss, draw_loss
from tests.property.drawn_operators import SIZES
from tests.property.test_drawn_operators import PART, SEEDS, check_close

DIFFERENTIABLE = sorted(
    name
    for name, node_class in NODES.items()
    if node_class in GRADIENTS and node_class.__module__.startswith("glow_nb.")
)
STEPS = (1e-6, 1e-8)
"""Half the lengths of differences; a jump that lies within the first lies hardly in the second."""

TOLERANCE = 1e-5
"""Of the sum of the sizes of all that is added up, for the error of differences.

Rounding, 1e-16 of the loss, adds 1e-8 of it to a difference quotient of the smaller step.
"""

SMALL = (0, 1, 2)
"""Sizes of axes with and without elements."""


def check_gradients(loss: DrawnLoss, seed: int) -> None:
    """Check the gradient for each input along a direction that all elements have a part in."""
    function = differentiate(loss.function, loss.wrt, loss.output)
    results = evaluate(function, loss.feeds)
    found = dict(zip(loss.wrt, list(results.values())[-len(loss.wrt) :], strict=True))
    rng = np.random.default_rng(seed)
    size = abs(loss.at(loss.feeds))
    for name in loss.wrt:
        x, slopes = loss.feeds[name], found[name]
        assert slopes.dtype == x.dtype
        assert slopes.shape == x.shape
        direction = rng.uniform(-1, 1, x.shape)
        got, parts = np.sum(slopes * direction), np.sum(np.abs(slopes * direction))
        quotients = [half_difference(loss, name, step * direction) / step for step in STEPS]
        error = min(abs(got - wanted) for wanted in quotients)
        assert error <= TOLERANCE * (parts + 0.01 * size + 1e-3), (
            f"{name}: {got} instead of {quotients}\n{loss.function}"
        )


def half_difference(loss: DrawnLoss, name: str, change: Array) -> float:
    """Return half the difference that *change* of an input, to both sides, makes to the loss."""
    x = loss.feeds[name]
    ahead, behind = (loss.at(loss.feeds | {name: x + c}) for c in (change, -change))
    return (ahead - behind) / 2


def squared_slopes(loss: DrawnLoss) -> DrawnLoss:
    """Return the sum of the squares of all gradients, and of all inputs, as a loss."""
    function = differentiate(loss.function, loss.wrt)
    builder = glow_nb.Builder.continuing(function)
    saved = {node.output.name: node.input for node in function.nodes if isinstance(node, Save)}
    inputs = {p.name: p for p in function.inputs}
    values = [value for name in loss.wrt for value in (inputs[name], saved[f"d_{name}"])]
    squares = [builder.emit(Mul(value, value)) for value in values]
    sums = [builder.emit(ReduceSum(s, tuple(range(s.type.rank)), False)) for s in squares]
    total: Value = sums[0]
    for part in sums[1:]:
        total = builder.emit(Add(total, part))
    builder.save(total, "squares")
    return DrawnLoss(builder.function(), loss.feeds, "squares")


ALIKE = ("fully_connected", "minimum", "reduce_min", "sub")
"""Operators for the slow run: products of matrices, maxima and sums have like rules."""


@pytest.mark.parametrize("name", marked(DIFFERENTIABLE, slow=ALIKE))
@given(SEEDS, st.sampled_from((SIZES, SIZES, SMALL)))
@settings(max_examples=PART)
def test_gradients_are_limits_of_differences(name: str, seed: int, sizes: tuple[int, ...]) -> None:
    check_gradients(draw_loss([NODES[name]], seed, sizes=sizes), seed)


@given(SEEDS, st.sampled_from(DIFFERENTIABLE))
@settings(max_examples=10 * PART)
def test_gradients_of_small_tensors_can_be_lowered(seed: int, name: str) -> None:
    loss = draw_loss([NODES[name]], seed, ElementKind.FLOAT32, SMALL)
    function = differentiate(loss.function, loss.wrt)
    check_close(evaluate(lower(function), loss.feeds), evaluate(function, loss.feeds))


TWICE_LONG = "recurrence_gradient"
"""It is itself the gradient of an operator; its own gradient takes seconds for each example."""


@pytest.mark.parametrize(
    "name", marked(DIFFERENTIABLE, slow=[TWICE_LONG, *left_out(2, DIFFERENTIABLE)])
)
@given(SEEDS)
@settings(max_examples=PART)
def test_gradients_of_gradients_are_limits_of_differences(name: str, seed: int) -> None:
    check_gradients(squared_slopes(draw_loss([NODES[name]], seed)), seed)


@pytest.mark.jit
@given(SEEDS, st.lists(st.sampled_from(DIFFERENTIABLE), min_size=6, max_size=6), st.integers(1, 3))
@settings(max_examples=PART)
def test_machine_code_of_gradients(seed: int, names: list[str], threads: int) -> None:
    loss = draw_loss([NODES[name] for name in names], seed, ElementKind.FLOAT32)
    function = differentiate(loss.function, loss.wrt)
    found = glow_nb.compile(function, threads=threads).run(loss.feeds)
    check_close(found, evaluate(function, loss.feeds))
