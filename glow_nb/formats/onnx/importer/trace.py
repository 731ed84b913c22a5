"""The nodes of one import rule, and whether it rounded to 16-bit floats between its steps."""

from __future__ import annotations

from glow_nb.base.schema import operands_of
from glow_nb.hlir.graph import Constant, Node, Value
from glow_nb.hlir.rounding import commutes_with_rounding, is_narrow, rounds_inside


class Trace:
    """The nodes that one rule emitted, folded to constants or not."""

    def __init__(self) -> None:
        self._events: list[tuple[Node, tuple[Value, ...]]] = []
        self._constants: set[Value] = set()

    def note(self, node: Node, results: tuple[Value, ...]) -> None:
        """Note that *results* came of *node*."""
        self._events.append((node, results))

    def note_rounded(self, constant: Constant) -> None:
        """Note that *constant* is not the number that the rule wanted."""
        self._constants.add(constant)

    def clear(self) -> None:
        """Forget everything."""
        self._events.clear()
        self._constants.clear()

    def include(self, inner: Trace) -> None:
        """Note all that *inner* has."""
        self._events += inner._events
        self._constants |= inner._constants

    @property
    def rounds_between(self) -> bool:
        """Return whether a node computes with 16-bit floats that were rounded here or in it."""
        rounded = set(self._constants)
        for node, results in self._events:
            if rounds_inside(node):
                return True
            reads_rounded = any(operand in rounded for operand in operands_of(node))
            if not commutes_with_rounding(node):
                if reads_rounded:
                    return True
                rounded.update(value for value in results if is_narrow(value.type))
            elif reads_rounded:
                rounded.update(results)
        return False
