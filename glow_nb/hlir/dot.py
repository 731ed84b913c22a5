"""A function as a graph in Graphviz' dot language, to be looked at."""

from __future__ import annotations

import json
from collections.abc import Collection

from glow_nb.base.literals import format_literal
from glow_nb.base.schema import operands_of, said_attributes_of
from glow_nb.hlir.graph import Constant, Function, Node, Placeholder, Result, Value
from glow_nb.hlir.save import Save

_COLOURS = {"placeholder": "#cfe8cf", "constant": "#e8e8e8", "node": "#ffffff", "save": "#cfe8cf"}


def print_dot(
    function: Function, *, constants: bool = False, in_registers: Collection[str] = ()
) -> str:
    """Return *function* in dot; *constants* draws the constants too.

    Edges run from producer to reader and carry the type. Those of predicates are dashed, and those
    of the values that are named *in_registers*, as they never get into memory, are dotted.
    """
    ids: dict[Value, str] = {}
    lines = ["digraph {", "  rankdir = TB;", "  node [shape = box, style = filled, fontsize = 10];"]
    storage: list[Value] = [*function.placeholders, *function.state]
    if constants:
        storage += function.constants
    for value in storage:
        ids[value] = f"v{len(ids)}"
        kind = "constant" if isinstance(value, Constant) else "placeholder"
        lines.append(_box(ids[value], f"{value.name}\n{value.type}", kind))
    for node in function.nodes:
        ids[node] = f"v{len(ids)}"
        lines.append(_box(ids[node], _label(node), "save" if isinstance(node, Save) else "node"))
        lines += _edges(node, ids, in_registers)
    return "\n".join([*lines, "}"]) + "\n"


def _label(node: Node) -> str:
    attributes = (f"{key} = {format_literal(v)}" for key, v in said_attributes_of(node).items())
    return "\n".join([f"{node.opcode}", node.name, *attributes])


def _box(identifier: str, label: str, kind: str) -> str:
    colour = json.dumps(_COLOURS[kind])
    return f"  {identifier} [label = {json.dumps(label)}, fillcolor = {colour}];"


def _edges(node: Node, ids: dict[Value, str], in_registers: Collection[str]) -> list[str]:
    edges: list[str] = []
    for operand in operands_of(node):
        source = operand.node if isinstance(operand, Result) else operand
        if source not in ids:
            continue
        style = ", style = dotted" if source.name in in_registers else ""
        style = ", style = dashed" if operand is node.predicate else style
        label = json.dumps(str(operand.type))
        if isinstance(node, Save) and isinstance(operand, Placeholder) and operand is node.output:
            edges.append(f"  {ids[node]} -> {ids[operand]} [label = {label}, fontsize = 8];")
            continue
        edges.append(f"  {ids[source]} -> {ids[node]} [label = {label}, fontsize = 8{style}];")
    return edges
