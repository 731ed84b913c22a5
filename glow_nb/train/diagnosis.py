"""Where numbers that are not finite come from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glow_nb.base.schema import operands_of
from glow_nb.base.types import Array
from glow_nb.hlir.evaluate import evaluate_node
from glow_nb.hlir.graph import Constant, Function, State, Value
from glow_nb.hlir.save import Save


def first_fault(function: Function, feeds: Mapping[str, Array], states: Mapping[str, Array]) -> str:
    """Say what is the first in *function* that is not finite, evaluating it node by node.

    That is an input, a state, or the first operator whose result is not finite though its operands
    are.
    """
    values: dict[Value, Array] = {}
    for input in function.inputs:
        values[input] = np.asarray(feeds[input.name])
    for state in function.state:
        values[state] = states.get(state.name, state.array)
    for value, array in values.items():
        if not _is_finite(array):
            role = "the weight or state" if isinstance(value, State) else "the input"
            return f"{role} {value!r} holds {_shown(array)} already"
    for node in function.nodes:
        if isinstance(node, Save):
            continue
        results = evaluate_node(node, values)
        values.update(zip(node.results, results, strict=True))
        faults = [array for array in results if not _is_finite(array)]
        if faults and all(_is_finite(_array_of(operand, values)) for operand in operands_of(node)):
            origins = ", ".join(map(repr, function.origins_of(node)))
            of = "" if function.origins_of(node) == (node.name,) else f" (of {origins})"
            return f"{node!r}{of} is the first operator whose result has {_shown(faults[0])}"
    return "no operator of the model alone; sums of finite numbers overflow in its kernels"


def _array_of(value: Value, values: Mapping[Value, Array]) -> Array:
    return value.array if isinstance(value, Constant) else values[value]


def _is_finite(array: Array) -> bool:
    return array.dtype.kind not in "fV" or bool(np.isfinite(array.astype(np.float64)).all())


def _shown(array: Array) -> str:
    place = tuple(int(i) for i in np.argwhere(~np.isfinite(array.astype(np.float64)))[0])
    return f"{array[place]} at {list(place)}"
