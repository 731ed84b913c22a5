"""Values of a graph under construction that are computed alike, and so are the same."""

from __future__ import annotations

from collections.abc import Hashable

from glow_nb.base.schema import attributes_of, operand_specs, operands_of
from glow_nb.hlir.graph import Constant, Node, Result, Value, producer_of
from glow_nb.hlir.ops.random import Drawn

MOST_ELEMENTS = 64
"""Larger constants are the same only if they are one."""


class SameValues:
    """Finds for each value the first one that is computed in the same way."""

    def __init__(self) -> None:
        """Begin without values."""
        self._found: dict[Value, Value] = {}
        self._first: dict[Hashable, Value] = {}

    def representative(self, value: Value) -> Value:
        """Return the first value that was asked for, or read by such, and is as *value*."""
        pending = [value]
        while pending:
            current = pending[-1]
            node = producer_of(current)
            missing = [] if node is None else [v for v in operands_of(node) if v not in self._found]
            if current not in self._found and missing:
                pending += missing
                continue
            pending.pop()
            if current not in self._found:
                self._found[current] = self._first.setdefault(self._key(current, node), current)
        return self._found[value]

    def _key(self, value: Value, node: Node | None) -> Hashable:
        if isinstance(value, Constant) and value.type.size <= MOST_ELEMENTS:
            return value.type, value.array.tobytes()
        if node is None or isinstance(node, Drawn):
            return value
        operands = tuple(self._operand(getattr(node, s.name)) for s in operand_specs(type(node)))
        index = value.index if isinstance(value, Result) else 0
        return type(node), operands, tuple(attributes_of(node).items()), index

    def _operand(self, operand: Value | tuple[Value, ...] | None) -> Hashable:
        if isinstance(operand, tuple):
            return tuple(self._found[value] for value in operand)
        return None if operand is None else self._found[operand]
