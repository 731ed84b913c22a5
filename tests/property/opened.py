"""Functions of fixed sizes made such of open ones: what is drawn needs no text for that."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from glow_nb.base.errors import GlowError
from glow_nb.base.schema import attributes_of, changed_operands
from glow_nb.base.size import Symbol
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Function, Node, Placeholder, Value
from glow_nb.hlir.save import Save

Opening = Callable[[int, int], int]
"""Takes an axis and its size, and returns the size that stands there instead."""


def every(symbol: Symbol, number: int) -> Opening:
    """Put *symbol* in place of every size that is *number*."""
    return lambda _, size: symbol.size if size == number else size


def first(symbol: Symbol, number: int) -> Opening:
    """Put *symbol* in place of first sizes that are *number*."""
    return lambda axis, size: symbol.size if (axis, size) == (0, number) else size


def opened(function: Function, opening: Opening, *, in_attributes: bool = False) -> Function | None:
    """Return *function* with other sizes of inputs and constants, which become inputs.

    Rows of numbers among the attributes may be sizes, too, which stand on no axis. None if an
    operator does not take them.
    """
    replaced: dict[Value, Value] = {}
    for value in (*function.inputs, *function.constants):
        type = _opened(value.type, opening)
        if isinstance(value, Placeholder) or type.is_open:
            replaced[value] = Placeholder(value.name, type)
    inputs = tuple(value for value in replaced.values() if isinstance(value, Placeholder))
    nodes: list[Node] = []
    outputs = []
    try:
        for node in function.nodes:
            made = _renewed(node, replaced, opening if in_attributes else None)
            nodes.append(made)
            replaced.update(zip(node.results, made.results, strict=True))
            if isinstance(made, Save):
                outputs.append(made.output)
    except GlowError:
        return None
    return Function(function.name, inputs, tuple(outputs), tuple(nodes))


def _opened(type: TensorType, opening: Opening) -> TensorType:
    return type.with_shape(tuple(opening(axis, size) for axis, size in enumerate(type.shape)))


def _renewed(node: Node, replaced: dict[Value, Value], opening: Opening | None) -> Node:
    changes = changed_operands(node, lambda value: replaced.get(value, value))
    if isinstance(node, Save):
        value = changes.get("input", node.input)
        changes["output"] = dataclasses.replace(node.output, type=value.type)
    for name, value in attributes_of(node).items() if opening else ():
        if opening and isinstance(value, tuple) and set(map(type, value)) == {int}:
            changes[name] = tuple(opening(-1, number) for number in value)
    return dataclasses.replace(node, **changes) if changes else node


def feeds_for(function: Function, seed: int) -> dict[str, Array]:
    """Return small numbers, most of them exact, for the inputs of a static *function*."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for value in function.inputs:
        kind = value.type.kind
        numbers = rng.integers(0, 9 if kind.is_float else 2, value.type.shape)
        feeds[value.name] = (numbers / 4 if kind.is_float else numbers).astype(kind.dtype)
    return feeds
