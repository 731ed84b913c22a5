"""The constants of a network that are trained: its parameters, or those that the user names."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
from typing_extensions import override

from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError
from glow_nb.base.schema import closest, operands_of
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Constant, Function, Node, Value, producer_of
from glow_nb.hlir.ops.activation import PRelu
from glow_nb.hlir.ops.arithmetic import Add, Sub
from glow_nb.hlir.ops.convolution import Convolution
from glow_nb.hlir.ops.matrix import FullyConnected, MatMul
from glow_nb.hlir.ops.shape import Reshape, Transpose
from glow_nb.hlir.ops.transposed_convolution import TransposedConvolution
from glow_nb.hlir.save import Save

PRODUCTS = (MatMul, FullyConnected, Convolution, TransposedConvolution)

MASKED = -100.0
"""What masks add to scores that shall not count is this, or below: -1e4, -65504, -1e9."""


@dataclass(frozen=True)
class Selection:
    """The trained constants of a network, and the others.

    Attributes:
        weights: The constants that are trained.
        left_out: The names of other constants of floats, with the reason.
    """

    weights: tuple[Constant, ...]
    left_out: tuple[tuple[str, str], ...]

    @override
    def __str__(self) -> str:
        names = ", ".join(weight.name for weight in self.weights)
        numbers = sum(weight.type.size for weight in self.weights)
        text = f"trains {len(self.weights)} weights with {numbers} numbers: {names!s:.1000}"
        if self.left_out:
            left = ", ".join(f"{name} ({reason})" for name, reason in self.left_out)
            text += f"; leaves {left!s:.1000}; choose by trained= and frozen="
        return text


def select(
    function: Function,
    trained: Sequence[str] | None,
    frozen: Sequence[str],
    chosen_before: Container[str] = (),
) -> Selection:
    """Return which constants of floats of *function* are trained.

    Those are what *trained* names (patterns of weights, or the very names of other constants, such
    as single numbers), by default all weights but what is no parameter: constants that
    are not finite, or masks; of one element, unless a layer has them as its bias, filter or scale;
    and those that no gradient comes to, as they reach the outputs through comparisons, shapes and
    conversions to integers alone. In either case, not what *frozen* names. What was
    *chosen_before*, for other sizes of the network, is chosen again without a look at its numbers.

    Raises:
        OptionError: A pattern fits nothing, or nothing is left.
    """
    floats = [c for c in function.constants if c.type.kind.is_float]
    weights = [c for c in floats if c.is_weight]
    known = weights
    if trained is not None:
        known = [c for c in floats if c.is_weight or c.name in trained]
    _check_patterns("trained", trained or (), known, function)
    _check_patterns("frozen", frozen, known, function)
    reasons = _Reasons(function)
    chosen: list[Constant] = []
    left: list[tuple[str, str]] = []
    for weight in known:
        if trained is None:
            is_known = weight.name in chosen_before
            reason = None if is_known else reasons.against(weight)
        else:
            reason = None if _fits_any(weight, trained) else "not in trained="
        if reason is None and _fits_any(weight, frozen):
            reason = "frozen"
        if reason is None:
            chosen.append(weight)
        elif trained is None:
            left.append((weight.name, reason))
    if not chosen:
        raise OptionError(_says_that_nothing_is_left(function, known, left))
    return Selection(tuple(chosen), tuple(left))


def as_patterns(option: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return *names* that a user gives as *option*; raise OptionError if they are no texts."""
    given = (names,) if isinstance(names, str) or not isinstance(names, Iterable) else names
    patterns = tuple(given)
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise OptionError(
                f"{option}: {described(pattern)} is no name; give names or patterns of them"
            )
    return patterns


def _check_patterns(
    option: str, patterns: Sequence[str], known: Sequence[Constant], function: Function
) -> None:
    names = [constant.name for constant in known]
    for pattern in patterns:
        if any(_fits(name, pattern) for name in names):
            continue
        others = [c.type for c in function.constants if c.name == pattern]
        is_kind = f" (it is {others[0]}, which is not trained)" if others else ""
        raise OptionError(
            f"{option}: {pattern!r} fits no weight{closest(pattern, names)}{is_kind}; there are "
            f"{names!s:.1000}"
        )


def _says_that_nothing_is_left(
    function: Function, known: Sequence[Constant], left: Sequence[tuple[str, str]]
) -> str:
    subject = f"function {function.name!r} has no weights to train"
    if not known:
        return f"{subject}: it reads no constants of floats"
    if not left or {reason for _, reason in left} == {"frozen"}:
        return f"{subject}: all of {[c.name for c in known]!s:.1000} are frozen"
    reasons = ", ".join(f"{name} ({reason})" for name, reason in left)
    return f"{subject}: {reasons!s:.1000}; name those that are parameters by trained="


def _fits_any(constant: Constant, patterns: Iterable[str]) -> bool:
    return any(_fits(constant.name, pattern) for pattern in patterns)


def _fits(name: str, pattern: str) -> bool:
    """Return whether *pattern* is *name*, which may have brackets, or a glob that fits it."""
    return name == pattern or fnmatchcase(name, pattern)


class _Reasons:
    """Why constants of a function are no parameters."""

    def __init__(self, function: Function) -> None:
        self._users = function.users()
        self._reached = _reached_by_gradients(function)

    def against(self, constant: Constant) -> str | None:
        """Return why *constant* is no parameter, None if it may be one."""
        if constant not in self._reached:
            return "no gradient comes to it"
        if constant.payload is not None and constant.type.size:
            found = _against_numbers(constant.array)
            if found is not None:
                return found
            if _is_of_bits(constant.array) and not self._is_of_a_layer(constant):
                return "a mask"
        if constant.type.size == 1 and not self._is_of_a_layer(constant):
            return "one element"
        return None

    def _is_of_a_layer(self, value: Value) -> bool:
        """Return whether a layer has *value* as its own, and not formulas alone."""
        return any(self._is_layer_with(node, value) for node in self._users.get(value, ()))

    def _is_layer_with(self, node: Node, value: Value) -> bool:
        if isinstance(node, Add | Sub):
            others = [o for o in operands_of(node) if o is not value]
            return any(isinstance(_made_by(other), PRODUCTS) for other in others)
        if len(operands_of(node)) == 1:  # it moves or converts the number, or makes it another one
            return any(self._is_of_a_layer(result) for result in node.results)
        return isinstance(node, PRelu) or not (node.data_parallel or isinstance(node, Save))


def _against_numbers(array: Array) -> str | None:
    """Return what in the numbers themselves shows that they are no parameter."""
    least, most = float(array.min()), float(array.max())
    if not (np.isfinite(least) and np.isfinite(most)):
        return "not finite"
    if least <= MASKED and most == 0 and bool(np.all((array == 0) | (array <= MASKED))):
        return "a mask"
    return None


def _is_of_bits(array: Array) -> bool:
    """Return whether all numbers are 0 or 1, and there are both: scales begin with ones alone."""
    return array.min() == 0 and array.max() == 1 and bool(np.all((array == 0) | (array == 1)))


def _made_by(value: Value) -> Node | None:
    """Return the node that computes *value*, before it was moved."""
    node = producer_of(value)
    while isinstance(node, Reshape | Transpose):
        node = producer_of(node.input)
    return node


def _reached_by_gradients(function: Function) -> set[Value]:
    """Return all that the outputs depend on through floats alone."""
    reached: set[Value] = set()
    for node in reversed(function.nodes):
        is_on_the_way = isinstance(node, Save) or any(
            result in reached and result.type.kind.is_float for result in node.results
        )
        if is_on_the_way:
            reached.update(operand for operand in operands_of(node) if operand.type.kind.is_float)
    return reached
