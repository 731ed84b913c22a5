"""A function whose sizes are open, for given sizes: the static function; or for other symbols."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from glow_nb.base.errors import OptionError
from glow_nb.base.map_sizes import Change, guard_with, map_sizes, renaming
from glow_nb.base.schema import attributes_of, changed_operands, closest, listed
from glow_nb.base.size import Symbol, at, note_again
from glow_nb.base.sizes_of_shapes import require_guards, sizes_of_shapes
from glow_nb.hlir.graph import Function, Node, Placeholder, Value
from glow_nb.hlir.stages import decided_sizes, fed_sizes


def with_sizes(function: Function, sizes: Mapping[str, int]) -> Function:
    """Return *function* with every size a number: ``with_sizes(function, {"batch": 8})``.

    Sizes that its own values decide stay open, unless they are given as well.

    Raises:
        OptionError: A size is missing, unknown or out of its range, or the function does not hold
            for these sizes, since a comparison was answered otherwise when it was made.
    """
    check_sizes(function, sizes)
    numbers = {symbol: sizes[symbol.name] for symbol in function.sizes if symbol.name in sizes}
    if len(numbers) == len(function.sizes):
        return sized(function, lambda size: at(size, sizes))
    return with_symbols(function, numbers)


def sized(function: Function, change: Change) -> Function:
    """Return *function* with ``change(size)`` instead of each open *size*."""
    replaced: dict[Value, Value] = {
        placeholder: dataclasses.replace(placeholder, type=map_sizes(placeholder.type, change))
        for placeholder in function.placeholders
        if placeholder.type.is_open
    }
    nodes = []
    for node in function.nodes:
        made = _sized(node, replaced, change)
        if made is not node:
            replaced.update(zip(node.results, made.results, strict=True))
        nodes.append(made)
    inputs, outputs = (_sized_ones(p, replaced) for p in (function.inputs, function.outputs))
    return dataclasses.replace(function, inputs=inputs, outputs=outputs, nodes=tuple(nodes))


def with_symbols(function: Function, symbols: Mapping[Symbol, Symbol | int]) -> Function:
    """Return *function* with other *symbols*, such as ones with other hints, instead of some.

    Some may be numbers.

    The comparisons under which it holds are noted for the new ones.
    """
    made = sized(function, renaming(symbols))
    for guard in function.guards:
        note_again(guard_with(guard, symbols))
    return made


def _sized_ones(
    placeholders: tuple[Placeholder, ...], replaced: Mapping[Value, Any]
) -> tuple[Placeholder, ...]:
    return tuple(replaced.get(placeholder, placeholder) for placeholder in placeholders)


def _sized(node: Node, replaced: Mapping[Value, Value], change: Change) -> Node:
    """Return *node* with operands and sizes replaced; it infers its types anew."""
    changes = changed_operands(node, lambda operand: replaced.get(operand, operand))
    for name, value in attributes_of(node).items():
        made = map_sizes(value, change)
        if made is not value:
            changes[name] = made
    return dataclasses.replace(node, **changes) if changes else node


def check_sizes(function: Function, sizes: Mapping[str, int]) -> None:
    """Raise OptionError unless *function* holds for *sizes*, which give all that are fed."""
    decided = decided_sizes(function)
    symbols = {symbol.name: symbol for symbol in function.sizes}
    for name in sizes:
        if name not in symbols:
            raise OptionError(
                f"function {function.name!r}: it has no size {name!r}{closest(name, symbols)}; "
                f"it has {listed(symbols)}"
            )
    for name, symbol in symbols.items():
        if name not in sizes and symbol in decided:
            continue
        if name not in sizes:
            raise OptionError(
                f"function {function.name!r}: size {name!r} is not given; it has {listed(symbols)}"
            )
        symbol.check(sizes[name])
    for guard in function.guards:
        known = all(symbol.name in sizes for symbol in guard.symbols)
        if known and not guard.holds(sizes):
            raise OptionError(
                f"function {function.name!r}: it was made for sizes where {guard}, and not for "
                f"{described(sizes)}; make it with hints like these sizes"
            )


def described(sizes: Mapping[str, int]) -> str:
    """Return *sizes* in the form of messages."""
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())


def sizes_of_inputs(
    function: Function,
    shapes: Mapping[str, tuple[int, ...]],
    given: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, int]:
    """Return the size of each symbol of *function* for inputs of these *shapes* by name.

    Some sizes may be *given*.

    Raises:
        FeedError: A symbol gets different sizes, nothing tells what it is, or the function does
            not hold for them.
    """
    types = {placeholder.name: placeholder.type for placeholder in function.inputs}
    sizes = sizes_of_shapes(types, fed_sizes(function), shapes, given)
    require_guards(function.guards, sizes)
    return sizes
