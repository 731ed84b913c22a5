"""Evaluation of a function node by node with NumPy, which defines the meaning of a graph.

Passes, lowering and backends are tested against this reference; it is not optimized for speed.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

import numpy as np

from glow_nb.base.counted import cut
from glow_nb.base.errors import GlowError, VerifyError
from glow_nb.base.feeds import Feeds, as_fitting, name_feeds
from glow_nb.base.foreign import foreign
from glow_nb.base.memory_limit import out_of_memory
from glow_nb.base.schema import operand_specs
from glow_nb.base.staged_run import StagedRun
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.given_function import given_function
from glow_nb.hlir.graph import Constant, Function, Node, Placeholder, Value
from glow_nb.hlir.save import Save
from glow_nb.hlir.stages import decided_sizes, stages_of
from glow_nb.hlir.verify import verify
from glow_nb.hlir.with_sizes import sizes_of_inputs, with_sizes


def evaluate(
    function: Function,
    feeds: Feeds,
    state: MutableMapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Return the outputs of *function* by name, for *feeds* by input name; counted ones are cut.

    Sizes that the function leaves open are those of the feeds.

    Args:
        function: The function to evaluate.
        feeds: One array for each input by name, or a bare array if there is one input.
        state: The values of the states by name; those that are missing begin with their initial
            values. What the function saves is put there at the end, for the next run::

                state = {}
                first, second = (evaluate(function, feeds, state) for _ in range(2))

    Raises:
        FeedError: An input is missing or unknown, or it or a state is of another kind or shape.
        OptionError: *function* is none.
        MemoryLimitError: The system gives no memory for a result.
    """
    state = {} if state is None else state
    if decided_sizes(given_function(function)):
        return _evaluate_stages(function, feeds, state)
    inputs = {placeholder.name: placeholder for placeholder in given_function(function).inputs}
    named = name_feeds(inputs.keys(), feeds)
    if function.sizes:
        found = sizes_of_inputs(function, {name: np.shape(array) for name, array in named.items()})
        function = with_sizes(function, found)
        inputs = {placeholder.name: placeholder for placeholder in function.inputs}
    values: dict[Value, Array] = {
        placeholder: as_fitting(f"input {name!r}", named[name], placeholder.type)
        for name, placeholder in inputs.items()
    }
    for kept in function.state:
        held = state.get(kept.name, kept.array)
        values[kept] = as_fitting(f"state {kept.name!r}", held, kept.type)
    saved: dict[Placeholder, Array] = {}
    last_use = _last_uses(function)
    for node in function.nodes:
        if isinstance(node, Save):
            saved[node.output] = _value_of(node.input, values)
        else:
            values.update(zip(node.results, evaluate_node(node, values), strict=True))
        for value in last_use.get(node, ()):
            values.pop(value, None)
    if not saved.keys() >= set(function.outputs):
        verify(function)  # which says what is wrong
    state.update({kept.name: saved[kept].copy() for kept in function.state if kept in saved})
    ordered = {output.name: saved[output] for output in function.outputs}
    return cut(ordered, {o.name: o.counted for o in function.outputs if o.counted})


def _evaluate_stages(
    function: Function, feeds: Feeds, state: MutableMapping[str, Array]
) -> dict[str, Array]:
    """Do what :func:`evaluate` does with a function that decides some of its sizes itself."""
    stages = stages_of(function)
    named = name_feeds({value.name: value for value in function.inputs}.keys(), feeds)
    run = StagedRun(
        [value.name for value in function.inputs],
        [value.name for value in function.outputs],
        [stage.passage for stage in stages],
        lambda number, inputs: evaluate(stages[number].function, inputs, state),
    )
    return run({name: np.asarray(array) for name, array in named.items()})


def evaluate_node(node: Node, values: Mapping[Value, Array]) -> tuple[Array, ...]:
    """Return the results of one node, given its operands in *values*; constants may be left out."""
    arguments: list[object] = []
    for spec in operand_specs(type(node)):
        operand = getattr(node, spec.name)
        if spec.is_variadic:
            arguments.append(tuple(_value_of(value, values) for value in operand))
        else:
            arguments.append(None if operand is None else _value_of(operand, values))
    with np.errstate(all="ignore"), foreign(GlowError, f"{node!r}: evaluate"):
        try:
            result = node.evaluate(*arguments)
        except MemoryError as error:
            raise out_of_memory(f"{node!r} : {node.type}", error) from error
    arrays = result if isinstance(result, tuple) else (result,)
    arrays = tuple(np.asarray(array) for array in arrays)
    for array, expected in zip(arrays, node.result_types, strict=True):
        if TensorType.of(array) != expected.with_kind(expected.kind):
            raise VerifyError(node, f"evaluate gave {TensorType.of(array)}, declared {expected}")
    return arrays


def _value_of(value: Value, values: Mapping[Value, Array]) -> Array:
    found = values.get(value)
    if found is not None:
        return found
    if isinstance(value, Constant):
        return value.array
    raise GlowError(
        f"{value!r} is read, but no node before its reader makes it, and it is no input of the "
        "function; emit the node that makes it"
    )


def _last_uses(function: Function) -> dict[Node, list[Value]]:
    """Return the values that each node is the last to read, so that memory is given back early."""
    last: dict[Value, Node] = {value: users[-1] for value, users in function.users().items()}
    freed: dict[Node, list[Value]] = {}
    for value, node in last.items():
        freed.setdefault(node, []).append(value)
    return freed
