"""The identity of values of a graph, by their computation and not by their names."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from glow_nb.base.schema import attributes_of, operand_specs
from glow_nb.hlir.graph import Constant, Function, Node, Value


def structural_keys(function: Function) -> dict[Value, str]:
    """Return a text for each input, constant and result that is equal for equal values.

    It is a digest of operators, their attributes, the types of their operands and the numbers of
    constants, down to the inputs, of which place and type count. Names, and what else is computed,
    have no part in it.
    """
    keys: dict[Value, str] = {}
    for index, placeholder in enumerate(function.inputs):
        keys[placeholder] = _digest("input", str(index), str(placeholder.type))
    for state in function.state:
        keys[state] = _digest("state", state.name, str(state.type))
    for constant in function.constants:
        keys[constant] = _digest("constant", str(constant.type), _content(constant))
    for node in function.nodes:
        known = _node_key(node, keys)
        for index, result in enumerate(node.results):
            keys[result] = f"{known}#{index}" if index else known
    return keys


def _node_key(node: Node, keys: Mapping[Value, str]) -> str:
    parts = [node.opcode, *map(repr, attributes_of(node).values())]
    for spec in operand_specs(type(node)):
        operand = getattr(node, spec.name)
        values = operand if spec.is_variadic else (operand,)
        parts += [f"{spec.name}: {_operand(value, keys)}" for value in values]
    parts.append(_operand(node.predicate, keys))
    return _digest(*parts)


def _operand(value: Value | None, keys: Mapping[Value, str]) -> str:
    if value is None or value not in keys:  # what a save writes is no value
        return "none"
    return f"{keys[value]} {value.type}"


def _content(constant: Constant) -> str:
    numbers = np.ascontiguousarray(constant.array).reshape(-1).view(np.uint8)
    return hashlib.blake2b(numbers.data, digest_size=16).hexdigest()


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
