"""How weights get new values from their gradients, or keep the old ones.

Numbers of 16 bits are updated in 32: the weight is rounded once, and what is kept for it is never.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import State, Value
from glow_nb.hlir.ops.arithmetic import Add, And
from glow_nb.hlir.ops.comparison import Less, Select
from glow_nb.hlir.ops.elementwise import Abs, as_kind
from glow_nb.hlir.ops.families import splat
from glow_nb.hlir.ops.formulas.terms import Term
from glow_nb.hlir.ops.shape import Concat, Reshape
from glow_nb.train.numbers import computed_kind
from glow_nb.train.optimizers import Optimizer, clip_to_norm, squares_of
from glow_nb.train.sums import beside, total

Changes = Mapping[State, Value]
"""The next value of each state."""


@dataclass(frozen=True)
class GradientCheck:
    """An output with one number for each weight, which is not finite if the gradient is not.

    Attributes:
        output: Its name.
        weights: The names of the weights, in its order.
        is_length: The numbers are squares of the lengths of the gradients; else sums of
            these times 0.
    """

    output: str
    weights: tuple[str, ...]
    is_length: bool


@dataclass(frozen=True)
class Update:
    """The new weights and states that an optimizer computes from gradients.

    Attributes:
        changes: The new value of each weight, of all that is kept for it, and of the count of
            steps.
        guards: The conditions under which these are saved.
        numbers: The name of the input for each number that the optimizer feeds.
        check: The test whether the gradients are finite; None for no test.
    """

    changes: Changes
    guards: Sequence[Value]
    numbers: Mapping[str, str]
    check: GradientCheck | None


def emit_update(
    builder: Builder,
    optimizer: Optimizer,
    gradients: Mapping[State, Value],
    counter: State,
    *,
    checks: bool,
) -> Update:
    """Emit what *optimizer* makes of *gradients*, which must be finite if it *checks* them.

    The *counter* of steps becomes one more.
    """
    number = TensorType(number_kind(gradients), ())
    inputs = {name: builder.input(name, number) for name in optimizer.numbers(0)}
    terms = {weight: _computed(builder, g) for weight, g in gradients.items()}
    guards, check = [], None
    if optimizer.clip_norm is not None:
        squares = squares_of(terms.values())
        clipped, length = clip_to_norm(list(terms.values()), squares, optimizer.clip_norm)
        terms = dict(zip(terms, clipped, strict=True))
        guards.append(is_finite(builder, length.value))
        check, _ = _emit_check(builder, gradients, squares, is_length=True)
    elif checks:
        # Zeros, and NaN where a number is not finite: a sum of finite numbers may overflow.
        sums = [total(term * 0.0) for term in terms.values()]
        check, numbers = _emit_check(builder, gradients, sums, is_length=False)
        guards.append(is_finite(builder, total(numbers).value))
    one = builder.constant("one", np.ones((), counter.type.kind.dtype), is_weight=False)
    changes: dict[State, Value] = {counter: builder.emit(Add(counter, one))}
    for weight, gradient in terms.items():
        changes |= _emit_change(builder, optimizer, weight, gradient, inputs)
    return Update(changes, guards, {name: i.name for name, i in inputs.items()}, check)


def _emit_change(
    builder: Builder,
    optimizer: Optimizer,
    weight: State,
    gradient: Term,
    inputs: Mapping[str, Value],
) -> dict[State, Value]:
    """Emit the new value of *weight* and of what is kept for it."""
    kept = {name: kept_state(builder, weight, name, n) for name, n in optimizer.kept.items()}
    numbers = {
        name: Term(builder, beside(builder, i, gradient.value.type)) for name, i in inputs.items()
    }
    old = {name: Term(builder, state) for name, state in kept.items()}
    new = optimizer.updated(_computed(builder, weight), gradient, old, numbers)
    found = {kept.get(name, weight): term.value for name, term in new.items()}
    return {state: as_kind(builder, v, state.type.kind) for state, v in found.items()}


def _emit_check(
    builder: Builder, weights: Iterable[State], numbers: Sequence[Term], *, is_length: bool
) -> tuple[GradientCheck, Term]:
    """Emit an output of all *numbers*, one for each of the *weights*; return it, too."""
    kind = number_kind(weights)
    single = [builder.emit(Reshape(as_kind(builder, n.value, kind), (1,))) for n in numbers]
    joined = single[0] if len(single) == 1 else builder.emit(Concat(tuple(single), axis=0))
    saved = builder.save(joined, builder.unique_name("gradients"))
    names = tuple(weight.name for weight in weights)
    return GradientCheck(saved.name, names, is_length), Term(builder, joined)


def number_kind(weights: Iterable[State]) -> ElementKind:
    """Return the kind of what is fed beside samples: float64 if a weight is, else float32."""
    is_wide = any(weight.type.kind is ElementKind.FLOAT64 for weight in weights)
    return ElementKind.FLOAT64 if is_wide else ElementKind.FLOAT32


def kept_state(builder: Builder, weight: State, name: str, number: float) -> State:
    """Return a state of the shape of *weight*, full of *number*."""
    kind = computed_kind(weight.type.kind)
    return builder.state(f"{weight.name}.{name}", np.full(weight.type.shape, number, kind.dtype))


def _computed(builder: Builder, value: Value) -> Term:
    """Return *value*, a weight or its gradient, in the kind in which weights are updated."""
    return Term(builder, as_kind(builder, value, computed_kind(value.type.kind)))


def is_finite(builder: Builder, value: Value) -> Value:
    """Return whether *value*, of one element, is finite, as a bool of rank 0."""
    number = beside(builder, value, value.type.with_shape(()))
    infinite = splat(builder, number.type, np.inf, "infinity")
    return builder.emit(Less(builder.emit(Abs(number)), infinite), "is_finite")


def save_all(builder: Builder, changes: Changes, guards: Sequence[Value]) -> None:
    """Save *changes*; unless all *guards* hold, the states keep their values."""
    guard: Value | None = None
    for holds in guards:
        guard = holds if guard is None else builder.emit(And(guard, holds))
    for state, value in changes.items():
        kept = value
        if guard is not None:
            kept = builder.emit(Select(beside(builder, guard, state.type), value, state))
        builder.update(state, kept)
