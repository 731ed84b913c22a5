"""Sizes that are known when the network runs: from shapes of its inputs, or from numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.quotient import Quotient
from glow_nb.base.size import Size, Symbol, bounds
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.graph import Placeholder, Value

NUMBER = TensorType(ElementKind.INT64, (1,))


class Steps(Protocol):
    """Writes ONNX operators and constants."""

    @property
    def decided(self) -> Mapping[Symbol, Value]:
        """The numbers of sizes that were computed before."""

    @property
    def inputs(self) -> Sequence[Placeholder]:
        """The inputs of the function."""

    def step(self, op: str, type: TensorType, *operands: Value | None, **attributes: Any) -> Value:
        """Write the ONNX operator *op*; return its result of *type*."""

    def integers(self, numbers: Sequence[int]) -> Value:
        """Return a vector of int64 *numbers*."""


def vector_of(steps: Steps, numbers: Sequence[int]) -> Value:
    """Write what computes *numbers*, some of which are open sizes, as a vector of int64."""
    parts = [_number(steps, number) for number in numbers]
    if len(parts) == 1:
        return parts[0]
    return steps.step("Concat", TensorType(NUMBER.kind, (len(parts),)), *parts, axis=0)


def _number(steps: Steps, number: int) -> Value:
    if not isinstance(number, Size):
        return steps.integers([number])
    terms = []
    for factors, coefficient in number.terms.items():
        parts = [_factor(steps, factor) for factor in factors]
        if coefficient != 1 or not parts:
            parts.append(steps.integers([coefficient]))
        terms.append(_combined(steps, "Mul", parts))
    return _combined(steps, "Add", terms)


def _combined(steps: Steps, op: str, parts: Sequence[Value]) -> Value:
    total, *others = parts
    for other in others:
        total = steps.step(op, NUMBER, total, other)
    return total


def _factor(steps: Steps, factor: Symbol | Quotient) -> Value:
    if isinstance(factor, Quotient):
        if bounds(factor.numerator)[0] < 0:
            raise UnsupportedError(
                f"size {factor!s}: ONNX rounds the quotient of a negative number up; give the "
                "sizes first, glow_nb.load(function, shapes={...})"
            )
        sides = (_number(steps, factor.numerator), _number(steps, factor.denominator))
        return steps.step("Div", NUMBER, *sides)
    if factor in steps.decided:
        return steps.decided[factor]
    for placeholder in steps.inputs:
        for axis, size in enumerate(placeholder.type.shape):
            if size == factor.size:
                rank = TensorType(NUMBER.kind, (placeholder.type.rank,))
                shape = steps.step("Shape", rank, placeholder)
                return steps.step("Gather", NUMBER, shape, steps.integers([axis]), axis=0)
    raise UnsupportedError(
        f"size {factor.name!r}: no axis of an input has this very size, which the model would "
        "compute others from; give the sizes first, glow_nb.load(function, shapes={...})"
    )
