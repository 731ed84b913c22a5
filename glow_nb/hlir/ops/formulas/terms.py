"""Arithmetic on values that reads as such: ``up * (1 - y) * y`` emits three nodes."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.override import override
from glow_nb.hlir.builder import Emitter
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops.arithmetic import Add, And, Div, Modulo, Mul, Sub
from glow_nb.hlir.ops.comparison import Equal, Greater, GreaterEqual, Less, LessEqual, Select
from glow_nb.hlir.ops.elementwise import Neg
from glow_nb.hlir.ops.families import BinaryElementwise, UnaryElementwise


@dataclass(frozen=True, eq=False, repr=False)
class Term:
    """A value in a formula; what is done to it is emitted to its builder.

    A number beside it becomes a constant of its kind and rank, of one element, which broadcasts.
    Comparisons give terms of bool; ``==`` is that of objects, so equality is :meth:`equals`.

    Attributes:
        builder: The builder that emits the operators.
        value: The value in the graph.
    """

    builder: Emitter
    value: Value

    @override
    def __repr__(self) -> str:
        return f"Term({self.value!r})"

    def apply(self, function: type[UnaryElementwise]) -> Term:
        """Return ``function(self)``."""
        return self._emitted(function(self.value))

    def equals(self, other: Operand) -> Term:
        """Return where both are equal."""
        return self.joined(Equal, other)

    def __add__(self, other: Operand) -> Term:
        return self.joined(Add, other)

    def __radd__(self, other: float) -> Term:
        return self.number(other) + self

    def __sub__(self, other: Operand) -> Term:
        return self.joined(Sub, other)

    def __rsub__(self, other: float) -> Term:
        return self.number(other) - self

    def __mul__(self, other: Operand) -> Term:
        return self.joined(Mul, other)

    def __rmul__(self, other: float) -> Term:
        return self * other

    def __truediv__(self, other: Operand) -> Term:
        return self.joined(Div, other)

    def __rtruediv__(self, other: float) -> Term:
        return self.number(other) / self

    def __mod__(self, other: Operand) -> Term:
        return self.joined(Modulo, other)

    def __neg__(self) -> Term:
        return self.apply(Neg)

    def __and__(self, other: Term) -> Term:
        return self.joined(And, other)

    def __lt__(self, other: Operand) -> Term:
        return self.joined(Less, other)

    def __le__(self, other: Operand) -> Term:
        return self.joined(LessEqual, other)

    def __gt__(self, other: Operand) -> Term:
        return self.joined(Greater, other)

    def __ge__(self, other: Operand) -> Term:
        return self.joined(GreaterEqual, other)

    def number(self, number: float) -> Term:
        """Return *number* as a constant that goes with this term."""
        return Term(self.builder, self.builder.number(self.value.type, number))

    def joined(self, function: type[BinaryElementwise], other: Operand) -> Term:
        """Return ``function(self, other)``."""
        term = other if isinstance(other, Term) else self.number(other)
        return self._emitted(function(self.value, term.value))

    def _emitted(self, node: Node) -> Term:
        return Term(self.builder, self.builder.emit(node))


Operand = Term | float


def terms(builder: Emitter, *values: Value) -> tuple[Term, ...]:
    """Return *values* as terms that emit to *builder*."""
    return tuple(Term(builder, value) for value in values)


def where(condition: Term, lhs: Operand, rhs: Operand) -> Term:
    """Return *lhs* where *condition* holds, else *rhs*; at least one of them is a term."""
    known = lhs if isinstance(lhs, Term) else rhs
    assert isinstance(known, Term)
    first, second = (o if isinstance(o, Term) else known.number(o) for o in (lhs, rhs))
    node = Select(condition.value, first.value, second.value)
    return Term(condition.builder, condition.builder.emit(node))
