"""What an import rule builds with, as far as rules of users need it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.formats.onnx.importer.shaping import Shaping
from glow_nb.hlir.graph import Constant, Node, Value
from glow_nb.hlir.ops.formulas.terms import Term, terms


class ImportContext(Shaping):
    """The function under construction, as an import rule sees it.

    What is emitted on constants alone becomes a constant.
    """

    @abstractmethod
    def emit_all(self, node: Node, name: str | None = None) -> tuple[Value, ...]:
        """Append a node and return its results, constants if all operands are."""

    @abstractmethod
    def constant(self, array: Array, name: str | None = None) -> Constant:
        """Return a constant that holds *array*."""

    @abstractmethod
    def number(self, like: TensorType, number: float, /) -> Constant:
        """Return a constant of *like*'s kind that broadcasts to it: all sizes are 1."""

    @abstractmethod
    def known(self, value: Value, what: str) -> Array:
        """Return the numbers of a *value* that must be known now, called *what* in the error.

        Raises:
            UnboundInput: It depends on inputs of the model.
        """

    @abstractmethod
    def known_integers(self, value: Value, what: str) -> tuple[int, ...]:
        """Return a known integer tensor of rank 0 or 1 as a tuple."""

    @abstractmethod
    def kind(self, code: int) -> ElementKind:
        """Return the element kind of an ONNX type *code* that the node names."""

    def term(self, value: Value) -> Term:
        """Return *value* as a term of formulas."""
        return Term(self, value)

    def terms(self, *values: Value) -> tuple[Term, ...]:
        """Return *values* as terms of formulas."""
        return terms(self, *values)

    def unsupported(self, reason: str) -> UnsupportedError:
        """Return the error that says why the node being imported cannot be."""
        return UnsupportedError(reason)

    def axis(self, axis: int, rank: int) -> int:
        """Return *axis* counted from the front."""
        if not -rank <= axis < rank:
            raise self.wrong(f"axis {axis} is outside a tensor of rank {rank}")
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int) -> tuple[int, ...]:
        """Return *axes* counted from the front; raise ModelError if one comes twice."""
        found = tuple(self.axis(axis, rank) for axis in axes)
        if len(set(found)) < len(found):
            raise self.wrong(f"axes {list(axes)} name one twice in a tensor of rank {rank}")
        return found
