"""Optimizers, by PyTorch's formulas.

An optimizer is a dataclass of its numbers. It emits the new value of a weight as elementwise nodes,
which run as one loop over the weight. Numbers that change from step to step, such as the rate, are
inputs. Weights of 16 bits are updated in 32 bits, and their momenta have 32 bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import reduce
from math import isfinite, sqrt

import numpy as np
from typing_extensions import override

from glow_nb.base.arguments import truth
from glow_nb.base.errors import OptionError
from glow_nb.base.types import ElementKind
from glow_nb.hlir.ops.elementwise import Sign, Sqrt
from glow_nb.hlir.ops.formulas.terms import Term, where
from glow_nb.train.numbers import computed_kind, keep_numbers
from glow_nb.train.schedules import Schedule, rate_at
from glow_nb.train.sums import beside, total

Terms = Mapping[str, Term]

_DIVIDE = ("epsilon", "clip_norm")
"""Names of numbers that keep a divisor from being 0."""


@dataclass(frozen=True)
class Optimizer(ABC):
    """Base of optimizers.

    Attributes:
        rate: The learning rate, or a :class:`Schedule`.
        weight_decay: Weight decay: this times the weight is added to its gradient.
        l1: L1 regularization: this times the sign of the weight (0 at 0) is added to its gradient.
        clip_norm: Gradient clipping: if the global norm of all gradients is larger, they are scaled
            by ``clip_norm / (norm + 1e-6)`` before the two terms are added, as by
            ``clip_grad_norm_``.
    """

    rate: float | Schedule = 0.01
    _: KW_ONLY
    weight_decay: float = 0.0
    l1: float = 0.0
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.rate, Schedule):
            keep_numbers(self, "rate")
        floats = (field.name for field in fields(self) if isinstance(field.default, float))
        keep_numbers(self, *(name for name in floats if name != "rate"))
        if self.clip_norm is not None:
            keep_numbers(self, "clip_norm", positive=True)
        if hasattr(self, "epsilon"):
            keep_numbers(self, "epsilon", positive=True)

    def check_kind(self, kind: ElementKind) -> None:
        """Raise OptionError if a number cannot update weights of *kind*.

        Updates are computed in :func:`~glow_nb.train.numbers.computed_kind`, in which each number
        must be finite, and divisors must not be 0.
        """
        computed = computed_kind(kind)
        for name in (field.name for field in fields(self)):
            number = getattr(self, name)
            if not isinstance(number, float):
                continue
            with np.errstate(over="ignore", under="ignore"):
                rounded = float(np.asarray(number, computed.dtype))
            if not isfinite(rounded) or (name in _DIVIDE and not rounded):
                raise OptionError(
                    f"{name}={number!r}: it is {rounded} as {computed.value}, the kind in which "
                    f"weights of {kind.value} are updated; give a "
                    f"{'larger' if isfinite(rounded) else 'smaller'} one"
                )

    @property
    @abstractmethod
    def kept(self) -> Mapping[str, float]:
        """The tensors kept for each weight, of its shape: their names and initial values."""

    def numbers(self, step: int) -> dict[str, float]:
        """Return the inputs of the step after *step* earlier steps, by name."""
        return {"rate": rate_at(self.rate, step)}

    def updated(self, weight: Term, gradient: Term, kept: Terms, numbers: Terms) -> dict[str, Term]:
        """Return the new weight, under the name ``""``, and the new values of the tensors kept for
        it.
        """
        if self.weight_decay:
            gradient = gradient + self.weight_decay * weight
        if self.l1:
            gradient = gradient + self.l1 * weight.apply(Sign)
        return self.formula(weight, gradient, kept, numbers)

    @abstractmethod
    def formula(self, weight: Term, gradient: Term, kept: Terms, numbers: Terms) -> dict[str, Term]:
        """Return what :meth:`updated` returns, for a gradient to which all terms were added."""


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent: ``w -= rate * g``.

    With *momentum*: ``v = momentum * v + g; w -= rate * v``; with *nesterov*, too,
    ``w -= rate * (g + momentum * v)``.

    Attributes:
        momentum: The share of ``v`` that is kept in a step; 0 for none.
        nesterov: Whether the step looks ahead (Nesterov's momentum).
    """

    momentum: float = 0.0
    nesterov: bool = False

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        keep_numbers(self, "momentum", most=1)
        truth("nesterov", self.nesterov)
        if self.nesterov and not self.momentum:
            raise OptionError("nesterov=True: it needs a momentum above 0; the momentum is 0")

    @property
    @override
    def kept(self) -> Mapping[str, float]:
        return {"momentum": 0.0} if self.momentum else {}

    @override
    def formula(self, weight: Term, gradient: Term, kept: Terms, numbers: Terms) -> dict[str, Term]:
        if not self.momentum:
            return {"": weight - numbers["rate"] * gradient}
        velocity = self.momentum * kept["momentum"] + gradient
        change = gradient + self.momentum * velocity if self.nesterov else velocity
        return {"": weight - numbers["rate"] * change, "momentum": velocity}


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (1412.6980).

    In step ``t``, counting from 1::

    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    w -= rate / (1 - beta1 ** t) * m / (sqrt(v) / sqrt(1 - beta2 ** t) + epsilon)

    Attributes:
        rate: The learning rate, or a :class:`Schedule`.
        beta1: The share of ``m`` that is kept in a step.
        beta2: The share of ``v`` that is kept in a step.
        epsilon: A number that keeps the divisor away from 0.
    """

    rate: float | Schedule = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        keep_numbers(self, "beta1", "beta2", below=1)

    @property
    @override
    def kept(self) -> Mapping[str, float]:
        return {"moment": 0.0, "second_moment": 0.0}

    @override
    def numbers(self, step: int) -> dict[str, float]:
        rate = rate_at(self.rate, step)
        begun = sqrt(1 - self.beta2 ** (step + 1))
        return {"rate": rate, "step_size": rate / (1 - self.beta1 ** (step + 1)), "begun": begun}

    @override
    def formula(self, weight: Term, gradient: Term, kept: Terms, numbers: Terms) -> dict[str, Term]:
        moment = self.beta1 * kept["moment"] + (1 - self.beta1) * gradient
        second = self.beta2 * kept["second_moment"] + (1 - self.beta2) * (gradient * gradient)
        change = moment / (second.apply(Sqrt) / numbers["begun"] + self.epsilon)
        new = weight - numbers["step_size"] * change
        return {"": new, "moment": moment, "second_moment": second}


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay (1711.05101): first ``w *= 1 - rate * weight_decay``.

    The decay is not part of the gradient.
    """

    weight_decay: float = 1e-2

    @override
    def updated(self, weight: Term, gradient: Term, kept: Terms, numbers: Terms) -> dict[str, Term]:
        if self.l1:
            gradient = gradient + self.l1 * weight.apply(Sign)
        if self.weight_decay:
            weight = weight * (1.0 - self.weight_decay * numbers["rate"])
        return self.formula(weight, gradient, kept, numbers)


@dataclass(frozen=True)
class RMSprop(Optimizer):
    """Steps divided by the root of a running mean of squares.

    ::

        v = alpha * v + (1 - alpha) * g * g
        w -= rate * g / (sqrt(v) + epsilon)

    With *momentum*, ``b = momentum * b + g / (sqrt(v) + epsilon); w -= rate * b``.

    Attributes:
        alpha: The share of ``v`` that is kept in a step.
        epsilon: A number that keeps the divisor away from 0.
        momentum: The share of ``b`` that is kept in a step; 0 for none.
    """

    alpha: float = 0.99
    epsilon: float = 1e-8
    momentum: float = 0.0

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        keep_numbers(self, "alpha", below=1)
        keep_numbers(self, "momentum", most=1)

    @property
    @override
    def kept(self) -> Mapping[str, float]:
        return {"square": 0.0} | ({"momentum": 0.0} if self.momentum else {})

    @override
    def formula(self, weight: Term, gradient: Term, kept: Terms, numbers: Terms) -> dict[str, Term]:
        square = self.alpha * kept["square"] + (1 - self.alpha) * (gradient * gradient)
        change = gradient / (square.apply(Sqrt) + self.epsilon)
        if not self.momentum:
            return {"": weight - numbers["rate"] * change, "square": square}
        velocity = self.momentum * kept["momentum"] + change
        new = weight - numbers["rate"] * velocity
        return {"": new, "square": square, "momentum": velocity}


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squares.

    In the step after ``t`` earlier steps::

        s += g * g
        w -= rate / (1 + t * rate_decay) * g / (sqrt(s) + epsilon)

    Attributes:
        rate_decay: Decay of the rate.
        first: Initial value of the sums.
        epsilon: Number that keeps the divisor from being 0.
    """

    rate_decay: float = 0.0
    first: float = 0.0
    epsilon: float = 1e-10

    @property
    @override
    def kept(self) -> Mapping[str, float]:
        return {"squares": self.first}

    @override
    def numbers(self, step: int) -> dict[str, float]:
        return {"rate": rate_at(self.rate, step) / (1 + step * self.rate_decay)}

    @override
    def formula(self, weight: Term, gradient: Term, kept: Terms, numbers: Terms) -> dict[str, Term]:
        squares = kept["squares"] + gradient * gradient
        change = gradient / (squares.apply(Sqrt) + self.epsilon)
        return {"": weight - numbers["rate"] * change, "squares": squares}


def squares_of(gradients: Iterable[Term]) -> list[Term]:
    """Return the squared norm of each gradient."""
    return [total(gradient * gradient) for gradient in gradients]


def clip_to_norm(
    gradients: Sequence[Term], squares: Sequence[Term], most: float
) -> tuple[list[Term], Term]:
    """Return *gradients* scaled down to the global norm *most* if theirs is larger, and their norm.

    *squares* are those of :func:`squares_of`.
    """
    length = reduce(Term.__add__, squares).apply(Sqrt)
    factor = most / (length + 1e-6)
    factor = where(factor < 1.0, factor, 1.0)
    return [g * _beside(factor, g) for g in gradients], length


def _beside(number: Term, term: Term) -> Term:
    return Term(term.builder, beside(term.builder, number.value, term.value.type))
