"""IRGen: from nodes to instructions over memory (paper 3.5).

Most nodes become one instruction, that of their operator, filled field by field. What is only
bookkeeping over shapes has a rule here: a reshape is a view, and concat, split, slice, broadcast
and save are copies through views.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

import glow_nb.llir.instructions  # noqa: F401  registers those with a class of their own
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.schema import RuleTable, fields_of, operand_specs
from glow_nb.base.types import TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.direct_saves import (
    aliases_of,
    grown_in_place,
    is_read_at_the_end,
    readers_of,
    saved_alone,
)
from glow_nb.hlir.graph import Function, Node, Placeholder, State, Value, producer_of
from glow_nb.hlir.ops.activation import Clip
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.insertion import InsertSlice
from glow_nb.hlir.ops.shape import Concat, Reshape, Slice, Split
from glow_nb.hlir.rules import LOWERINGS
from glow_nb.hlir.save import Save
from glow_nb.llir.instructions.derived import has_instruction, instruction_for
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.lifetimes import mark_lifetimes
from glow_nb.llir.program import (
    INSTRUCTIONS,
    Activation,
    Bound,
    Buffer,
    Instruction,
    Program,
    StateBuffer,
    View,
    Weight,
)

N = TypeVar("N", bound=Node)

GENERATORS: RuleTable[type[Node], Callable[[Any, Generator], None]] = RuleTable("IRGen rule of")
"""Operators that need more than one instruction with equal field names, to their rules."""


def generates(
    node_class: type[N],
) -> Callable[[Callable[[N, Generator], None]], Callable[[N, Generator], None]]:
    """Register a function as the IRGen rule of *node_class*; it goes before ``node=``."""
    return GENERATORS.register(node_class)


def generate(function: Function) -> Program:
    """Return *function* as a program, not allocated; instructions are in the order of its nodes.

    A buffer has the name of the node that it holds the result of. A result that only a ``save``
    reads is written into the output at once, or over the old value of the state if that was read by
    then, or is read for it element by element.

    Raises:
        UnsupportedError: Operators have no instruction; names them all.
    """
    _check_supported(function)
    instructions = {
        node_class: instruction_for(node_class)
        for node_class in dict.fromkeys(map(type, function.nodes))
        if node_class not in GENERATORS
    }
    generator = Generator(function)
    for node in function.nodes:
        generator.node = node
        rule = GENERATORS.get(type(node))
        if rule:
            rule(node, generator)
        else:
            generator.emit_node(instructions[type(node)])
    return generator.program()


def is_supported(node_class: type[Node]) -> bool:
    """Return whether IRGen has a rule or an instruction for *node_class*."""
    return node_class in GENERATORS or has_instruction(node_class)


def _check_supported(function: Function) -> None:
    missing: dict[type[Node], list[Node]] = {}
    for node in function.nodes:
        if not is_supported(type(node)):
            missing.setdefault(type(node), []).append(node)
    if missing:
        listed = "; ".join(_what_to_do(kind, nodes) for kind, nodes in missing.items())
        raise UnsupportedError(f"function {function.name!r} has no instruction for: {listed}")


def _what_to_do(node_class: type[Node], nodes: list[Node]) -> str:
    shown = ", ".join(map(repr, nodes[:3])) + (", ..." if len(nodes) > 3 else "")
    return f"{shown} ({_advice(node_class)})"


def _advice(node_class: type[Node]) -> str:
    if node_class in LOWERINGS:
        return "lower it first"
    for instruction in INSTRUCTIONS.values():
        if getattr(instruction.node_class, "opcode", None) == node_class.opcode:
            return (
                f"instruction {instruction.opcode!r} is of an earlier definition: "
                "define it again after the operator"
            )
    return (
        "give it a formula, a lowering, or an instruction and a kernel: "
        f"kernel_for(derive_instruction({node_class.__name__}))"
    )


class Generator:
    """The program under construction, as IRGen rules see it.

    Attributes:
        node: The node whose rule runs; what is emitted gets its name and predicate.
    """

    def __init__(self, function: Function) -> None:
        """Declare the weights, states, inputs and outputs of *function*."""
        self.node: Node
        self._name = function.name
        self._function = function
        self._work: list[Instruction] = []
        values = (*function.storage, *function.nodes)
        self._names = Builder(taken=(value.name for value in values))
        self._bound = {p: Bound(p.name, p.type, counted=p.counted) for p in function.placeholders}
        self._inputs = tuple(self._bound[p] for p in function.inputs)
        self._outputs = tuple(self._bound[p] for p in function.outputs)
        self._states = {s: StateBuffer(s.name, s.type, s.payload) for s in function.state}
        self._weights = {c: Weight(c.name, c.type, c.payload) for c in function.constants}
        self._buffers: dict[Value, Buffer] = {}
        self._buffers.update(self._bound.items())
        self._buffers.update(self._states.items())
        self._buffers.update(self._weights.items())
        self._saved_to = _direct_saves(function)
        self._grown = grown_in_place(function)
        self._overwritten: list[CopyInst] = []

    def program(self) -> Program:
        """Return the program, with the lifetimes of its activations marked."""
        self._overwrite()
        weights = tuple(self._weights.values())
        work = mark_lifetimes(self._work)
        state = tuple(self._states.values())
        return Program(self._name, weights, self._inputs, self._outputs, work, state=state)

    def overwrite(self, output: Buffer, value: Buffer) -> None:
        """Let *value* be copied at the end to a state, or to an output that is an input as well.

        Until then the old numbers are there, for whoever reads them.
        """
        self._overwritten.append(CopyInst(output, value, **self.common_fields()))

    def _overwrite(self) -> None:
        """Append the copies to states and inputs; what lies in one of these is put aside before."""
        targets = {copy.dest for copy in self._overwritten}
        for index, copy in enumerate(self._overwritten):
            if copy.src.root in targets:
                name = self._names.unique_name(f"{copy.dest.name}_next")
                aside = Activation(name, copy.src.type)
                self.emit(dataclasses.replace(copy, dest=aside))
                self._overwritten[index] = dataclasses.replace(copy, src=aside)
        self._work += self._overwritten

    def buffer_of(self, value: Value) -> Buffer:
        """Return the contiguous buffer that holds *value*."""
        return self._buffers[value]

    def holds_old_value(self, buffer: Buffer) -> bool:
        """Return whether the program may read what was in *buffer* before it began."""
        return buffer in self._inputs or isinstance(buffer, StateBuffer)

    def is_grown(self, node: InsertSlice) -> bool:
        """Return whether the result of *node* may lie where its input lies."""
        return node in self._grown

    def hold(self, value: Value, buffer: Buffer) -> None:
        """Let *buffer* hold *value*; it must be contiguous."""
        self._buffers[value] = buffer

    def dest_of(self, result: Value, name: str = "") -> Buffer:
        """Return a new buffer for a result of the current node, by default with the node's name.

        It is the output or state itself, or a view of it, if only a ``save`` reads the result.
        """
        name = self._names.unique_name(name) if name else self.node.name
        output = self._saved_to.get(result)
        if output is None:
            buffer: Buffer = Activation(name, result.type)
        elif output.type == result.type:
            buffer = self._buffers[output]
        else:
            buffer = View(name, result.type, self._buffers[output])
        self.hold(result, buffer)
        return buffer

    def view(
        self, name: str, base: Buffer, type: TensorType, start: int, steps: tuple[int, ...]
    ) -> View:
        """Return a window on *base*, under a name that begins with *name*."""
        return View(self._names.unique_name(name), type, base, start, steps)

    def emit(self, instruction: Instruction) -> None:
        """Append *instruction*."""
        self._work.append(instruction)

    def copy(self, dest: Buffer, src: Buffer) -> None:
        """Append a copy."""
        self.emit(CopyInst(dest, src, **self.common_fields()))

    def common_fields(self) -> dict[str, Any]:
        """Return the fields that every instruction takes over from the current node."""
        predicate = self.node.predicate
        held = None if predicate is None else self.buffer_of(predicate)
        name = self.node.name
        return {"name": name, "origins": self._origins(), "predicate": held}

    def _origins(self) -> tuple[str, ...]:
        """Return the imported nodes of the current node, none if it has no other origin.

        A ``save`` is none of the model: it stands for what it saves.
        """
        node = self.node
        saved = producer_of(node.input) if isinstance(node, Save) else None
        origins = self._function.origins_of(saved or node)
        return () if origins == (node.name,) else origins

    def emit_node(self, instruction_class: type[Instruction], **changed: Any) -> None:
        """Append the current node as one instruction with equal fields, but for those *changed*."""
        node = self.node
        fields = {**self.common_fields(), "plan": node.plan}
        results = iter(node.results)
        for spec in fields_of(instruction_class):
            if spec.qualifier and spec.qualifier.name == "out":
                name = f"{node.name}_{spec.name}" if len(node.results) > 1 else ""
                fields[spec.name] = self.dest_of(next(results), name)
            elif spec.is_operand:
                fields[spec.name] = self._operand(getattr(node, spec.name))
            else:
                fields[spec.name] = getattr(node, spec.name)
        self.emit(instruction_class(**{**fields, **changed}))

    def _operand(self, value: Value | tuple[Value, ...] | None) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self.buffer_of, value))
        return None if value is None else self.buffer_of(value)


def _direct_saves(function: Function) -> dict[Value, Placeholder]:
    """Return the results that may be written into an output or a state at once."""
    users = function.users()
    number = {node: index for index, node in enumerate(function.nodes)}

    def may_be_written(value: Value, state: State) -> bool:
        maker = producer_of(value)
        assert maker is not None
        readers = set(readers_of(state, users))
        if is_read_at_the_end(state, users) or any(number[r] > number[maker] for r in readers):
            return False
        return maker not in readers or _overwrites(maker, aliases_of(state, users))

    return {
        value: save.output
        for value, save in saved_alone(function, users).items()
        if not isinstance(save.output, State) or may_be_written(value, save.output)
    }


def _overwrites(node: Node, old: AbstractSet[Value]) -> bool:
    """Return whether the instruction of *node* may write its result over what it reads of *old*."""
    if len(node.result_types) > 1 or node.predicate in old or not has_instruction(type(node)):
        return False
    in_place = {operand for _, operand in instruction_for(type(node)).inplace}
    for spec in operand_specs(type(node)):
        operand = getattr(node, spec.name)
        for value in operand if spec.is_variadic else (operand,):
            if value in old and (spec.name not in in_place or value.type.shape != node.type.shape):
                return False
    return True


@generates(Save)
def generate_save(node: Save, out: Generator) -> None:
    """Copy the value into the output or state, unless it was computed there."""
    value, output = out.buffer_of(node.input), out.buffer_of(node.output)
    if value.root is output:
        return
    if out.holds_old_value(output):
        out.overwrite(output, value)
    else:
        out.copy(output, value)


@generates(Reshape)
def generate_reshape(node: Reshape, out: Generator) -> None:
    """Look at the same elements with another shape."""
    out.hold(node, View(node.name, node.type, out.buffer_of(node.input)))


@generates(Broadcast)
def generate_broadcast(node: Broadcast, out: Generator) -> None:
    """Copy, which broadcasts like every data-parallel instruction."""
    out.copy(out.dest_of(node), out.buffer_of(node.input))


@generates(Concat)
def generate_concat(node: Concat, out: Generator) -> None:
    """Copy each input into its window of the result."""
    dest = out.dest_of(node)
    begin = 0
    for index, value in enumerate(node.inputs):
        window = _window(out, f"{node.name}_{index}", dest, value.type, node.axis, begin)
        out.copy(window, out.buffer_of(value))
        begin += value.type.shape[node.axis]


@generates(InsertSlice)
def generate_insert_slice(node: InsertSlice, out: Generator) -> None:
    """Copy the part into its window of the result, which is the input itself where it may be."""
    source = out.buffer_of(node.input)
    if out.is_grown(node):
        out.hold(node, source)
    else:
        out.copy(out.dest_of(node), source)
    window = _window(
        out, f"{node.name}_part", out.buffer_of(node), node.part.type, node.axis, node.start
    )
    out.copy(window, out.buffer_of(node.part))


@generates(Split)
def generate_split(node: Split, out: Generator) -> None:
    """Copy each result from its window of the input."""
    source = out.buffer_of(node.input)
    begin = 0
    for index, result in enumerate(node.results):
        dest = out.dest_of(result, f"{node.name}_{index}" if len(node.results) > 1 else "")
        name = f"{node.name}_part_{index}"
        window = _window(out, name, source, result.type, node.axis, begin)
        out.copy(dest, window)
        begin += result.type.shape[node.axis]


@generates(Slice)
def generate_slice(node: Slice, out: Generator) -> None:
    """Copy from a window whose steps are those of the slice."""
    source = out.buffer_of(node.input)
    steps = tuple(s * step for s, step in zip(source.strides, node.steps, strict=True))
    start = sum(s * begin for s, begin in zip(source.strides, node.starts, strict=True))
    name = f"{node.name}_window"
    window = out.view(name, source, node.type, start, steps)
    out.copy(out.dest_of(node), window)


def _window(
    out: Generator, name: str, base: Buffer, type: TensorType, axis: int, begin: int
) -> View:
    """Return the view of *base* that begins at *begin* along *axis*."""
    return out.view(name, base, type, begin * base.strides[axis], base.strides)


@generates(Clip)
def generate_clip(node: Clip, out: Generator) -> None:
    """Narrow the bounds of integers to whole numbers, which attributes then represent exactly."""
    low, high = node.minimum, node.maximum
    if not node.type.kind.is_float:
        low = low if math.isinf(low) else float(math.ceil(low))
        high = high if math.isinf(high) else float(math.floor(high))
    out.emit_node(instruction_for(Clip), minimum=low, maximum=high)
