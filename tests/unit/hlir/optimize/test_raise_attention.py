"""Masks of attention that is written out: which of them become one, and which are kept."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.hlir.optimize.attention_masks import diagonal_of

SCORES = (2, 3, 4, 5)
TRIANGLE = np.tri(4, 5, 1, dtype=np.bool_)
LEAST = float(np.finfo(np.float32).min)


class Written:
    """An attention in primitives, of which masks are added or chosen one after the other."""

    def __init__(self) -> None:
        self.b = Builder()
        q, t = (
            self.b.input("q", "float32<2 x 3 x 4 x 8>"),
            self.b.input("t", "float32<2 x 3 x 8 x 5>"),
        )
        self.scores: Value = self.b.emit(ops.MatMul(q, t))

    def add(self, mask: Array | str) -> Written:
        operand = self.operand(mask)
        self.scores = self.b.emit(ops.Add(self.scores, operand))
        return self

    def choose(self, seen: Array | str, fill: float) -> Written:
        lost = self.b.constant("lost", np.full((1,) * 4, fill, np.float32))
        self.scores = self.b.emit(ops.Select(self.operand(seen), self.scores, lost))
        return self

    def operand(self, mask: Array | str) -> Value:
        if isinstance(mask, str):
            return self.b.input("mask", mask)
        return self.b.constant("mask", mask[None, None])

    def raised(self) -> ops.Attention | None:
        """Return the node that the pass makes, if it does, after checking that it is right."""
        weights = self.b.emit(ops.Softmax(self.scores, axis=3))
        value = self.b.input("v", "float32<2 x 3 x 5 x 6>")
        self.b.save(self.b.emit(ops.MatMul(weights, value)), "y")
        function = self.b.function()
        raised = GRAPH_PASSES.run(function, ("raise_attention", "eliminate_dead_nodes"))
        check_same(raised, function)
        found = [node for node in raised.nodes if isinstance(node, ops.Attention)]
        return found[0] if found else None


def check_same(function: Function, original: Function) -> None:
    random = np.random.default_rng(0)
    feeds = {
        p.name: random.random(p.type.shape) > 0.5
        if p.type.kind is ElementKind.BOOL
        else random.normal(size=p.type.shape).astype(np.float32)
        for p in original.inputs
    }
    found, expected = evaluate(function, feeds)["y"], evaluate(original, feeds)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def added(triangle: Array, fill: float) -> Array:
    return np.where(triangle, 0, fill).astype(np.float32)


@pytest.mark.parametrize("fill", [-np.inf, LEAST])
def test_a_triangle_alone_is_causal(fill: float) -> None:
    for written in (Written().add(added(TRIANGLE, fill)), Written().choose(TRIANGLE, fill)):
        node = written.raised()
        assert node is not None
        assert (node.causal, node.offset, node.mask) == (True, 1, None)


def test_a_triangle_that_hides_a_query_whole_keeps_its_minimum() -> None:
    lower = np.tri(4, 5, -1, dtype=np.bool_)
    node = Written().choose(lower, -np.inf).raised()
    assert node is not None
    assert (node.causal, node.offset) == (True, -1)
    node = Written().choose(lower, LEAST).raised()
    assert node is not None
    assert not node.causal
    assert node.fill == LEAST


def test_a_minimum_that_is_not_small_stays_a_score() -> None:
    node = Written().choose(TRIANGLE, -100.0).raised()
    assert node is not None
    assert (node.causal, node.fill) == (False, -100.0)
    node = Written().add(added(TRIANGLE, -100.0)).raised()
    assert node is not None
    assert (node.causal, node.mask is None) == (False, False)


def test_infinities_of_a_triangle_and_another_mask_go_together() -> None:
    node = Written().add("float32<2 x 1 x 1 x 5>").add(added(TRIANGLE, -np.inf)).raised()
    assert node is not None
    assert (node.causal, node.offset) == (True, 1)
    assert node.mask is not None
    assert node.mask.type.shape == (2, 1, 1, 5)


def test_minima_of_a_triangle_and_another_mask_are_added() -> None:
    node = Written().add("float32<2 x 1 x 4 x 5>").add(added(TRIANGLE, LEAST)).raised()
    assert node is not None
    assert not node.causal
    assert node.mask is not None
    assert node.mask.type.shape == (2, 1, 4, 5)


def test_two_masks_are_one_unless_that_is_larger() -> None:
    bools = Written().choose("bool<2 x 1 x 1 x 5>", -np.inf).choose("bool<2 x 1 x 4 x 5>", -np.inf)
    mixed = Written().choose("bool<1 x 1 x 1 x 5>", -np.inf).add("float32<2 x 1 x 4 x 5>")
    for written in (bools, mixed):
        node = written.raised()
        assert node is not None
        assert node.mask is not None
        assert node.mask.type.shape == (2, 1, 4, 5)
    large = Written().add("float32<1 x 1 x 4 x 5>").add("float32<2 x 1 x 1 x 5>")
    assert large.raised() is None


def test_what_hides_nothing_is_dropped() -> None:
    node = Written().add(np.zeros((4, 5), np.float32)).choose(np.ones((4, 5), np.bool_), LEAST)
    raised = node.raised()
    assert raised is not None
    assert (raised.causal, raised.mask) == (False, None)


def test_finite_minima_of_two_choices_are_kept() -> None:
    written = Written().choose("bool<2 x 1 x 1 x 5>", LEAST).choose(TRIANGLE, LEAST)
    assert written.raised() is None


def test_a_long_sum_is_no_attention() -> None:
    written = Written()
    for _ in range(2000):
        written.add("float32<1 x 1 x 1 x 5>")
    assert written.raised() is None


def test_a_mask_of_a_wider_kind_is_kept() -> None:
    written = Written()
    b = written.b
    wide = b.emit(ops.ConvertTo(written.scores, ElementKind.FLOAT64))
    mask = b.constant("mask", np.ones((1, 1, 4, 5)))
    written.scores = b.emit(ops.ConvertTo(b.emit(ops.Add(wide, mask)), ElementKind.FLOAT32))
    assert written.raised() is None


@pytest.mark.parametrize("offset", [-3, -1, 0, 1, 3])
def test_the_diagonal_of_a_triangle(offset: int) -> None:
    assert diagonal_of(np.tri(4, 5, offset, dtype=np.bool_)) == offset
    other = np.tri(4, 5, offset, dtype=np.bool_)
    other[0, 4] = True
    assert diagonal_of(other) is None
    assert diagonal_of(np.zeros((4, 5), np.bool_)) is None
