"""The nodes of one function inside of another one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from glow_nb.base.schema import map_operands
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant, Function, Value
from glow_nb.hlir.save import Save


def inline(function: Function, builder: Builder, values: Mapping[str, Value]) -> dict[str, Value]:
    """Emit the nodes of *function* with *values* for its inputs; return its outputs by name.

    The values may have other shapes than the inputs, if the nodes take them.
    """
    renewed: dict[Value, Value] = {place: values[place.name] for place in function.inputs}

    def renew(value: Value) -> Value:
        if isinstance(value, Constant) and value not in renewed:
            renewed[value] = dataclasses.replace(value, name=builder.unique_name(value.name))
        return renewed[value]

    results: dict[str, Value] = {}
    for node in function:
        if isinstance(node, Save):
            results[node.output.name] = renew(node.input)
        else:
            emitted = builder.emit(map_operands(node, renew).copied(name=""))
            renewed.update(zip(node.results, emitted.results, strict=True))
    return results
