"""The text of the high-level IR; :mod:`glow_nb.hlir.parse` reads it back to the same text.

::

    constant %w : float32<144 x 10> = external
    constant %zero : float32<1 x 1> = splat 0.0 fixed
    state %runs : int64<> = splat 0
    func @main(%x : float32<8 x 144>) -> (%y : float32<8 x 10>) {
      %fc = mat_mul(%x, %w) : float32<8 x 10>
      %relu = maximum(%fc, %zero) if %mask : float32<8 x 10> from %relu6, %clip
      %y_save = save(%relu, %y)
    }

A function whose sizes are open declares them with range and hint, and types have polynomials of
them: ``func @main<batch in 1..64 like 8>(%x : float32<batch x 144>)``. Guards, for which it was
made, stand after them: ``<length in 1..512 like 128 where length >= 10>``.

A ``state`` shows the value before the first run. A ``fixed`` constant is a number of a formula,
which training does not change. ``from`` names the imported nodes that a node does the work of,
where it is not the node itself. Small constants and states are written out; the numbers of the
others are kept beside the text (``external``, see :func:`external_constants`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from glow_nb.base.literals import format_attributes, format_literal
from glow_nb.base.payload import HasPayload, Payload, array_or_none
from glow_nb.base.schema import operand_specs, said_attributes_of
from glow_nb.base.size_text import format_symbols
from glow_nb.base.text import format_name, format_plan, text_of
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Constant, Function, Node, Placeholder, Result, State, Value
from glow_nb.hlir.module import Module

INLINE_ELEMENTS = 8
"""Constants of at most this many elements are written out in the text."""

MAX_INLINE_BYTES = 1 << 28
"""The largest tensor that a ``splat`` stands for: text of a few bytes must not fill the memory."""


@text_of.register
def print_module(module: Module) -> str:
    """Return *module* as text: its constants and states, then its functions."""
    storage: tuple[Constant | State, ...] = (*module.constants, *module.state)
    declared = "".join(f"{print_storage(value)}\n" for value in storage)
    return declared + "\n".join(_print_body(function) for function in module.functions)


@text_of.register
def print_function(function: Function) -> str:
    """Return *function* with its constants as text."""
    return print_module(Module((function,)))


def print_storage(value: Constant | State) -> str:
    """Return the declaration of one constant or state."""
    kind = type(value).__name__.lower()
    fixed = " fixed" if isinstance(value, Constant) and not value.is_weight else ""
    return f"{kind} {value!r} = {print_initializer(value.payload)}{fixed}"


def print_initializer(payload: Payload) -> str:
    """Return ``dense [...]``, ``splat value`` or ``external``."""
    array = array_or_none(payload)
    if array is None or array.size == 0 or array.dtype.isbuiltin != 1:
        return "external"
    if array.nbytes > MAX_INLINE_BYTES:
        return "external"
    first = array.reshape(-1)[:1]
    if array.size > 1 and _is_splat(array):
        return f"splat {format_literal(first.tolist()[0])}"
    if array.size <= INLINE_ELEMENTS:
        items = ", ".join(format_literal(item) for item in array.reshape(-1).tolist())
        return f"dense [{items}]"
    return "external"


def _is_splat(array: Array) -> bool:
    """Return whether all elements have the same bits; most arrays show it by their first ones."""
    few = array.reshape(-1)[:INLINE_ELEMENTS]
    for part in (few, array):
        bits = np.ascontiguousarray(part).view(np.uint8).reshape(part.size, -1)
        if not (bits == bits[:1]).all():
            return False
    return True


def is_external(value: HasPayload) -> bool:
    """Return whether the text does not hold the numbers of *value*."""
    return print_initializer(value.payload) == "external"


def external_constants(function: Function | Module) -> dict[str, Array]:
    """Return the arrays that belong beside the text, by the name of the constant or state."""
    storage: tuple[Constant | State, ...] = (*function.constants, *function.state)
    return {value.name: value.array for value in storage if is_external(value)}


def _print_body(function: Function) -> str:
    inputs = ", ".join(map(_print_placeholder, function.inputs))
    outputs = ", ".join(map(_print_placeholder, function.outputs))
    body = "".join(
        f"  {print_node(node)}{_print_origins(function, node)}\n" for node in function.nodes
    )
    sizes = format_symbols(function.sizes, function.guards)
    return f"func @{format_name(function.name)}{sizes}({inputs}) -> ({outputs}) {{\n{body}}}\n"


def _print_placeholder(placeholder: Placeholder) -> str:
    return f"{placeholder!r}{placeholder.counted or ''}"


def _print_origins(function: Function, node: Node) -> str:
    names = function.origins_of(node)
    return "" if names == (node.name,) else f" from {format_names(names)}"


def format_names(names: Iterable[str]) -> str:
    """Return *names* with their sigils, in one line."""
    return ", ".join(f"%{format_name(name)}" for name in names)


def print_node(node: Node) -> str:
    """Return one node's line."""
    operands = ", ".join(_print_operand(getattr(node, s.name)) for s in operand_specs(type(node)))
    predicate = f" if {_print_operand(node.predicate)}" if node.predicate is not None else ""
    types = f" : {', '.join(map(str, node.result_types))}" if node.result_types else ""
    attributes = format_attributes(said_attributes_of(node))
    return (
        f"%{format_name(node.shown_name)} = {node.opcode}({operands})"
        f"{attributes}{predicate}{format_plan(node.plan)}{types}"
    )


def _print_operand(operand: Value | tuple[Value, ...] | None) -> str:
    if operand is None:
        return "none"
    if isinstance(operand, tuple):
        return "[" + ", ".join(map(_print_operand, operand)) + "]"
    if isinstance(operand, Result):
        return f"%{format_name(operand.node.shown_name)}#{operand.index}"
    return f"%{format_name(operand.shown_name)}"
