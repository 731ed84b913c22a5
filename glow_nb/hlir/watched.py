"""A graph that gives more of its values than its outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from glow_nb.base.errors import OptionError
from glow_nb.base.schema import closest, operands_of
from glow_nb.hlir.graph import Constant, Function, Node, Placeholder, Value
from glow_nb.hlir.save import Save


def with_values(function: Function, names: Iterable[str]) -> tuple[Function, dict[str, str]]:
    """Return *function* with the values called *names* as outputs; and the output of each name.

    A node with one result is the name of this; ``split#1`` is a result of one with several. Inputs,
    states (as they are before a run) and constants have names as well. What is an output already
    is not added.

    Raises:
        OptionError: A name is that of no value, or of a node with several.
    """
    outputs = {output.name for output in function.outputs}
    taken, saved = set(function.names), _saved(function)
    added: list[tuple[Placeholder, Save]] = []
    found: dict[str, str] = {}
    for name in names:
        value = None if name in outputs else _value(function, name)
        if value is None or value in saved:
            found[name] = name if value is None else saved[value]
            continue
        output = Placeholder(_free(f"{name}_watched", taken), value.type)
        save = Save(value, output, name=_free(f"{output.name}_save", taken))
        added.append((output, save))
        found[name] = saved[value] = output.name
    return _with_saves(function, added), found


def value_names(function: Function) -> list[str]:
    """Return the names that :func:`with_values` takes for all values that nodes make."""
    return [result.name for node in function.nodes for result in node.results]


def named_nodes(function: Function) -> dict[str, tuple[str, ...]]:
    """Return all names of *function*, each with the imported nodes that it was made from.

    Inputs, outputs, states and constants stand for none.
    """
    found: dict[str, tuple[str, ...]] = {value.name: () for value in function.storage}
    for node in function.nodes:
        origins = function.origins_of(node)
        found |= dict.fromkeys([node.name, *(result.name for result in node.results)], origins)
        found.update((name, (name,)) for name in origins if name not in function.names)
    return found


def constants_behind(function: Function, names: Iterable[str]) -> list[Constant]:
    """Return the constants that the imported nodes *names* read.

    Passes compute nodes of constants alone beforehand: what these read is read as well.
    """
    wanted = set(names)
    known: dict[Value, list[Constant]] = {constant: [constant] for constant in function.constants}
    found: dict[Constant, None] = {}
    for node in function.nodes:
        operands = operands_of(node)
        read = [constant for value in operands for constant in known.get(value, ())]
        if not wanted.isdisjoint(function.origins_of(node)):
            found.update(dict.fromkeys(read))
        if all(value in known for value in operands):
            known.update(dict.fromkeys(node.results, read))
    return list(found)


def _with_saves(function: Function, added: list[tuple[Placeholder, Save]]) -> Function:
    if not added:
        return function
    outputs = (*function.outputs, *(output for output, _ in added))
    more = dataclasses.replace(function, outputs=outputs)
    return more.with_nodes((*function.nodes, *(save for _, save in added)))


def _saved(function: Function) -> dict[Value, str]:
    """Return the name of the output that each value is saved to."""
    outputs = set(function.outputs)
    return {
        node.input: node.output.name
        for node in function.nodes
        if isinstance(node, Save) and node.output in outputs
    }


def _value(function: Function, name: str) -> Value:
    """Return the one value called *name*, or raise OptionError."""
    named: dict[str, Value] = {value.name: value for value in function.storage}
    for node in function.nodes:
        named[node.name] = node
        named.update({result.name: result for result in node.results})
    value = named.get(name)
    if value is None:
        raise OptionError(f"watch: there is no value {name!r}{_instead(function, name, named)}")
    results = value.results if isinstance(value, Node) else (value,)
    if len(results) != 1:
        advice = (
            f"choose one of {[result.name for result in results]}" if results else "it has none"
        )
        raise OptionError(f"watch: node {name!r} has {len(results)} results; {advice}")
    return results[0]


def _instead(function: Function, name: str, known: Iterable[str]) -> str:
    """Return what took the place of *name*, or what is called nearly so."""
    heirs = [node.name for node in function.nodes if name in function.origins_of(node)]
    if heirs:
        return f"; passes made {heirs} of it, which can be watched"
    return f"{closest(name, known)}; print(net.function) shows the names"


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
