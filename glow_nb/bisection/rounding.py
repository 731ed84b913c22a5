"""How far results may be apart by rounding: by one step of the coarsest numbers in a network.

Passes and kernels add up in another order, and a number near the middle between two steps may then
round to the other one. That is no error. In a deep network such steps add up: how far is measured,
by nudging all numbers before they are rounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from typing_extensions import override

from glow_nb.base.conversion import is_small_float
from glow_nb.base.distance import largest_distance
from glow_nb.base.precision import FULL, Precision
from glow_nb.base.types import Array, ElementKind
from glow_nb.bisection.states import Evaluator, StateValues
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Function, Node
from glow_nb.llir.program import Program, mutated
from glow_nb.llir.stack import StackInst

OF_FLOAT32 = 1e-4
"""Largest difference over the largest output that still counts as rounding of float32."""

NUDGE = 2.0**-20
"""How far sums of float32 in another order are apart, at most, for the usual numbers of terms."""

MARGIN = 2
"""How many times the effect of nudged numbers counts as rounding: passes nudge others."""

ROUNDING = (ops.Quantize, ops.QuantizeLinear, ops.Rescale, ops.Requantize)

WIDE = (ElementKind.FLOAT32, ElementKind.FLOAT64)


@dataclass(frozen=True)
class Rounding:
    """The differences that count as rounding.

    Attributes:
        tolerance: The largest difference, over the largest output.
        reason: The numbers that have a step of that size, or how it was measured; empty if it is
            that of float32, or was given.
        kind: That of integers to which the graph rounds, whose steps may add up to more.
    """

    tolerance: float
    reason: str = ""
    kind: ElementKind | None = None

    def measured(
        self, function: Function, feeds: Mapping[str, Array], expected: StateValues
    ) -> Rounding:
        """Return what counts as rounding for these *feeds*, of which *expected* is the result.

        It is :data:`MARGIN` times what comes out of *function* if all numbers are nudged before
        they are rounded to integers; at least what this says.
        """
        if self.kind is None:
            return self
        nudged = _Nudged(feeds)(function).outputs
        effect = largest_distance(expected.outputs.values(), nudged.values())
        if not self.tolerance < MARGIN * effect < np.inf:
            return Rounding(self.tolerance, self.reason)
        kind = self.kind.value
        reason = f"{MARGIN} times the effect of a change by 2^-20 before each rounding to {kind}"
        return Rounding(MARGIN * effect, reason)


class _Nudged(Evaluator):
    """Evaluates graphs with floats that are changed a little before they are rounded."""

    def __init__(self, feeds: Mapping[str, Array]) -> None:
        super().__init__(feeds)
        self._random = np.random.default_rng(0)

    @override
    def _compute(self, node: Node, arguments: Sequence[Any]) -> tuple[Array, ...]:
        if not isinstance(node, ROUNDING):
            return super()._compute(node, arguments)
        return super()._compute(node, [self._nudged(arguments[0]), *arguments[1:]])

    def _nudged(self, array: Array) -> Array:
        if array.dtype.kind != "f":
            return array
        factors = 1 + NUDGE * self._random.choice((-1.0, 1.0), array.shape)
        return np.asarray(array * factors, array.dtype)


def rounding_of(ir: Function | Program, precision: Precision = FULL) -> Rounding:
    """Return what counts as rounding in the results of *ir*, compiled for *precision*.

    For integers of n bits it is ``2^(2 - n)``, one step of numbers that use half of the range on
    one side of zero; for floats the distance of 1 from the next one; at least :data:`OF_FLOAT32`.
    """
    kinds = _kinds_of_program(ir) if isinstance(ir, Program) else _kinds_of_graph(ir)
    lower = () if precision == FULL else (ElementKind(precision),)
    steps = {kind: _step(kind) for kind in (*kinds, *lower)}
    coarsest = max(steps, key=lambda kind: steps[kind], default=None)
    if coarsest is None or steps[coarsest] <= OF_FLOAT32:
        return Rounding(OF_FLOAT32)
    is_measured = isinstance(ir, Function) and not _is_narrow_float(coarsest)
    reason = f"one step of {coarsest.value}"
    return Rounding(steps[coarsest], reason, coarsest if is_measured else None)


def _kinds_of_graph(function: Function) -> Iterator[ElementKind]:
    """Yield the kinds to which nodes round what is no constant."""
    for node in function.nodes:
        if isinstance(node, ROUNDING) and not isinstance(node.input, Constant):
            yield node.kind
        yield from (type.kind for type in node.result_types if _is_narrow_float(type.kind))


def _kinds_of_program(program: Program) -> Iterator[ElementKind]:
    """Yield the kinds of what instructions write that hold rounded numbers, as far as they tell."""
    for stack in program.work:
        for instruction in stack.body if isinstance(stack, StackInst) else (stack,):
            for buffer in mutated(instruction):
                kind = buffer.type.kind
                if _is_narrow_float(kind) or kind in (ElementKind.INT8, ElementKind.UINT8):
                    yield kind


def _is_narrow_float(kind: ElementKind) -> bool:
    is_scale = kind is ElementKind.FLOAT8E8M0  # powers of two, which scale others
    return (kind.is_float or is_small_float(kind)) and kind not in WIDE and not is_scale


def _step(kind: ElementKind) -> float:
    if _is_narrow_float(kind):
        found: Any = ml_dtypes.finfo(kind.dtype)  # type: ignore[no-untyped-call]
        return float(found.eps)
    return 2.0 ** (2 - kind.bits)
