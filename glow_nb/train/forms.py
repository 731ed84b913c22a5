"""The forms of a network: one that is trained, and one that is used."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from glow_nb.base.types import Array
from glow_nb.hlir.batch_statistics import normalize_by_batch
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant, Function, State, Value
from glow_nb.hlir.ops import (
    Add,
    BatchNormalization,
    BatchNormTraining,
    Broadcast,
    ConvertTo,
    Reshape,
)
from glow_nb.hlir.ops.batch_norm_training import in_inference_form
from glow_nb.hlir.ops.elementwise import as_kind
from glow_nb.hlir.ops.families import splat
from glow_nb.hlir.ops.random import Bernoulli, Drawn, Dropout
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite, substitute

GENERATOR = "generator"
"""The state of the random numbers: their seed, and the number of the step."""


def without_mode(function: Function) -> Function:
    """Return *function* without what it says of its mode, which the trainer decides.

    A batch normalization in training mode becomes one that uses running statistics.
    """
    return rewrite(function, in_inference_form, BatchNormTraining)


def statistics_of(function: Function) -> set[Value]:
    """Return the running means and variances, which no gradient changes."""
    nodes = [node for node in function if isinstance(node, BatchNormalization)]
    return {_stored(value) for node in nodes for value in (node.mean, node.variance)}


def _stored(value: Value) -> Value:
    """Return what *value* is, before it was reshaped or got another kind."""
    while isinstance(value, Reshape | ConvertTo):
        value = value.input
    return value


def inference_form(function: Function) -> Function:
    """Return *function* as it is used: nothing is dropped, and the masks of dropouts are true."""
    dropouts = {(n.generator, n.stream) for n in function if isinstance(n, Dropout)}

    def rule(node: Drawn, rewriter: Rewriter) -> Replacement:
        if isinstance(node, Dropout):
            return node.input
        if not isinstance(node, Bernoulli) or (node.generator, node.stream) not in dropouts:
            return None
        return rewriter.emit(Broadcast(splat(rewriter, node.type, True, "kept"), node.type.shape))

    return rewrite(function, rule, Dropout, Bernoulli)


def seed_numbers(seed: int) -> Array:
    """Return what the state of the random numbers begins with."""
    return np.array([seed, 0], np.int64)


def generators_of(function: Function) -> set[State]:
    """Return the states that *function* draws at random from."""
    drawn = (node.generator for node in function if isinstance(node, Drawn))
    return {generator for generator in drawn if isinstance(generator, State)}


def training_form(function: Function, seed: int, taken: Iterable[str] = ()) -> Function:
    """Return *function* as it is trained.

    A batch normalization whose running mean and variance are states takes those of the batch, and
    moves the states towards them: ``momentum * running + (1 - momentum) * batch``. The variance
    that is kept is that of a sample, with ``n - 1`` instead of ``n``, as PyTorch keeps it;
    ONNX's own operator keeps the other one.

    What is drawn at random, as by a dropout, is drawn anew in each step: the constants that seed it
    become one state, which begins with *seed* and counts the steps. It has none of the names that
    are *taken*.
    """
    updates: dict[State, Value] = {}

    def rule(node: BatchNormalization, rewriter: Rewriter) -> Replacement:
        states = _stored(node.mean), _stored(node.variance)
        if not all(isinstance(state, State) for state in states):
            return None
        result, *moved = normalize_by_batch(rewriter, node)
        for state, value in zip(states, moved, strict=True):
            assert isinstance(state, State)
            shaped = rewriter.emit(Reshape(value, state.type.shape))
            updates[state] = as_kind(rewriter, shaped, state.type.kind)
        return result

    normalized = rewrite(function, rule, BatchNormalization)
    drawn = [node.generator for node in normalized if isinstance(node, Drawn)]
    builder = Builder.continuing(normalized, taken)
    if any(isinstance(value, Constant) for value in drawn):
        generator = builder.state(GENERATOR, seed_numbers(seed))
        one = builder.constant("one", np.array([0, 1], np.int64), is_weight=False)
        updates[generator] = builder.emit(Add(generator, one))
        seeds: dict[Value, Value] = {v: generator for v in drawn if isinstance(v, Constant)}
        builder.nodes = list(substitute(builder.function(), seeds))
    for state, value in updates.items():
        builder.update(state, value)
    return builder.function()
