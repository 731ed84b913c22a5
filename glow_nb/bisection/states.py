"""The results of a state of the compiler: its outputs, and every value before them by its name.

Graphs are evaluated node by node. Programs run in the interpreter, with a place of its own for
every activation as long as they are not allocated. States follow one another closely, so an
operator whose operands have the same bits as in the state before is not computed again.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glow_nb.backends.interpreter import InterpretedProgram
from glow_nb.base.alignment import aligned_bytes
from glow_nb.base.distance import distance
from glow_nb.base.schema import attributes_of, operand_specs, operands_of
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Constant, Function, Node, Result, State, Value
from glow_nb.hlir.save import Save
from glow_nb.llir.program import Arena, Buffer, Instruction, Program
from glow_nb.system.state_store import StateStore

Key = tuple[str, int]
"""A node's name, and which of the results made for this node."""


@dataclass(frozen=True)
class StateValues:
    """The results of a state.

    Attributes:
        outputs: By name, and the states that are left for the next run.
        values: Every value that is computed, in order.
        origins: The imported nodes that each value stands for, by its name.
        function: The graph, if it was one.
    """

    outputs: dict[str, Array]
    values: dict[Key, Array]
    origins: dict[str, tuple[str, ...]]
    function: Function | None = None


class Evaluator:
    """Evaluates one state after another on the same inputs."""

    def __init__(self, feeds: Mapping[str, Array]) -> None:
        """Feed *feeds*, by input name, to all states."""
        self._feeds = feeds
        self._known: dict[object, tuple[Array, ...]] = {}
        self._used: dict[object, tuple[Array, ...]] = {}

    def __call__(self, state: Function | Program) -> StateValues:
        """Return what *state* computes."""
        self._used = {}
        with np.errstate(all="ignore"):
            outcome = self._run(state) if isinstance(state, Program) else self._evaluate(state)
        self._known = self._used  # the next state differs in little
        return outcome

    def _evaluate(self, function: Function) -> StateValues:
        values: dict[Value, Array] = {p: self._feeds[p.name] for p in function.inputs}
        storage: tuple[Constant | State, ...] = (*function.constants, *function.state)
        values.update({value: value.array for value in storage})
        outputs: dict[str, Array] = {}
        named: dict[Key, Array] = {}
        for node in function.nodes:
            if isinstance(node, Save):
                outputs[node.output.name] = values[node.input]
                continue
            arrays = self._compute(node, _arguments(node, values))
            values.update(zip(node.results, arrays, strict=True))
            named.update({(node.name, index): array for index, array in enumerate(arrays)})
        left = (*function.outputs, *function.state)
        ordered = {p.name: outputs[p.name] for p in left if p.name in outputs}
        origins = {node.name: function.origins_of(node) for node in function}
        return StateValues(ordered, named, origins, function)

    def _run(self, program: Program) -> StateValues:
        placed = program if program.arena else with_own_places(program)
        counts: dict[str, int] = {}
        named: dict[Key, Array] = {}
        origins: dict[str, tuple[str, ...]] = {}

        def watch(instruction: Instruction, array: Array) -> None:
            origins[instruction.name] = instruction.imported_names
            count = counts[instruction.name] = counts.get(instruction.name, -1) + 1
            named[instruction.name, count] = array.copy()

        inputs = [self._feeds[buffer.name] for buffer in program.inputs]
        executable, state = InterpretedProgram(placed), StateStore(program.state)
        arrays = executable.run(inputs, state=state, watch=watch, evaluate=self._compute)
        return StateValues(named_outputs(program, arrays, state), named, origins)

    def _compute(self, node: Node, arguments: Sequence[Any]) -> tuple[Array, ...]:
        """Return the results of *node*, those of the last state if it computed the same."""
        attributes = tuple(map(repr, attributes_of(node).values()))
        operands = tuple(map(_identity, arguments))
        key = (type(node), node.result_types, attributes, operands)
        if key not in self._used:
            self._used[key] = self._known.get(key) or _as_arrays(node.evaluate(*arguments))
        return self._used[key]


def named_outputs(program: Program, arrays: Sequence[Array], state: StateStore) -> dict[str, Array]:
    """Return the outputs of a run, *arrays*, by name, with the *state* that it has left."""
    outputs = {b.name: array for b, array in zip(program.outputs, arrays, strict=True)}
    return {**outputs, **state}


def _arguments(node: Node, values: Mapping[Value, Array]) -> list[Any]:
    """Return the arrays of each operand field of *node*."""
    arguments: list[Any] = []
    for spec in operand_specs(type(node)):
        operand = getattr(node, spec.name)
        if spec.is_variadic:
            arguments.append(tuple(values[value] for value in operand))
        else:
            arguments.append(None if operand is None else values[operand])
    return arguments


def _identity(argument: Any) -> object:
    """Return what is equal for arrays, or tuples of them, with the same bits."""
    if argument is None or isinstance(argument, tuple):
        return argument and tuple(map(_identity, argument))
    content = np.ascontiguousarray(argument).reshape(-1).view(np.uint8)
    return (
        argument.dtype,
        argument.shape,
        hashlib.sha1(content.tobytes(), usedforsecurity=False).digest(),
    )


def _as_arrays(results: Any) -> tuple[Array, ...]:
    return tuple(map(np.asarray, results if isinstance(results, tuple) else (results,)))


def with_own_places(program: Program) -> Program:
    """Return *program* with an arena in which no two activations share memory."""
    offsets: dict[Buffer, int] = {}
    size = 0
    for activation in program.activations:
        offsets[activation] = size
        size += aligned_bytes(activation.type.size_bytes)
    return dataclasses.replace(program, arena=Arena(offsets, size, size))


def culprit_value(before: StateValues, after: StateValues, far: float) -> str:
    """Return the name of the first value of *after* that is not what it was; empty if none is.

    Values are compared by name. A pass may give a name to something else, as long as
    what comes out in the end is the same; so in a graph, only those values count from which a
    difference of more than *far* reaches an output.
    """
    moved = {
        key
        for key, array in after.values.items()
        if key in before.values
        and before.values[key].shape == array.shape
        and before.values[key].dtype == array.dtype
        and distance(before.values[key], array) > far
    }
    if after.function is not None:
        moved &= _reaching(after.function, set(after.values) - set(before.values) | moved)
    return next((name for name, index in after.values if (name, index) in moved), "")


def _reaching(function: Function, doubtful: set[Key]) -> set[Key]:
    """Return those *doubtful* values from which a path through doubtful ones leads to an output."""
    reached: set[Key] = set()
    for node in reversed(function.nodes):
        is_save = isinstance(node, Save)
        keys = {(node.name, index) for index in range(len(node.result_types))}
        if not is_save and not keys & reached:
            continue
        for operand in operands_of(node):
            key = key_of(operand)
            if key in doubtful:
                reached.add(key)
    return reached


def key_of(value: Value) -> Key:
    """Return the key of *value*; that of a constant is of no node."""
    if isinstance(value, Constant):
        return ("", -1)
    return (value.node.name, value.index) if isinstance(value, Result) else (value.name, 0)
