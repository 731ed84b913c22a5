"""Writing the nodes of a function as ONNX nodes, each by the rule of its operator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from glow_nb.base.conversion import is_small_float
from glow_nb.base.open_size_error import open_error
from glow_nb.base.schema import operands_of
from glow_nb.base.size import Symbol, symbols_in, symbols_of
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.formats.onnx.exporter.counted import OpenSizes
from glow_nb.formats.onnx.exporter.kinds import (
    is_optional_output,
    opset_that_takes,
    stand_in,
    takes,
    variables_of,
)
from glow_nb.formats.onnx.exporter.run_time_sizes import vector_of
from glow_nb.formats.onnx.schema.element_kinds import code_of
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate_node
from glow_nb.hlir.graph import Constant, Function, Node, Placeholder, State, Value
from glow_nb.hlir.save import Save

INT64 = ElementKind.INT64

PREFERRED_OPSET = 24
"""An operator set up to this one is preferred to conversions of element kinds; few readers know
newer ones."""

RuleOf = Callable[[Node], Callable[["Writer", Any], Value | tuple[Value, ...]]]
"""Finds what writes a node, and returns the values of its results."""


@dataclass(frozen=True, eq=False, repr=False)
class Tensor(Value):
    """A result of an ONNX node; it is named when all nodes are written."""

    type: TensorType
    name: str = ""


@dataclass(frozen=True)
class Operator:
    """An operator that ONNX does not define.

    Attributes:
        name: Its name.
        domain: The domain that it belongs to.
        version: The version of the operator set of that domain.
        versions: The versions from which on the name means this operator or another one, those
            that are registered later among them.
    """

    name: str
    domain: str
    version: int
    versions: Collection[int] = field(compare=False)


@dataclass
class Record:
    """One ONNX node.

    Attributes:
        op: The operator.
        operands: Its operands; None for one that is left out.
        results: Its results.
        attributes: Its attributes by name.
        stem: Name of the node of the graph that it belongs to.
        name: Its own name, if it computes the results of that node.
        own: The operator, if ONNX does not define it.
    """

    op: str
    operands: Sequence[Value | None]
    results: Sequence[Tensor]
    attributes: Mapping[str, Any]
    stem: str
    name: str = ""
    own: Operator | None = None


class Writer:
    """Writes the nodes of one function, in order.

    Attributes:
        opset: The operator set that is written.
        wanted_opset: The first one that takes all element kinds without conversions.
        records: The nodes that were written.
        names: The names of their results.
        problems: The nodes that ONNX cannot express, each with the reason.
        decided: The number of each data-dependent size.
        next_values: The output that holds what the next run begins with, for each state.
    """

    def __init__(self, function: Function, opset: int, sizes: OpenSizes, rule_of: RuleOf) -> None:
        """Write *function*, of which *rule_of* has a rule for each node that holds in *opset*."""
        self._rule_of = rule_of
        self.opset = self.wanted_opset = opset
        self.records: list[Record] = []
        self.names: dict[Value, str] = {}
        self.problems: list[str] = []
        self.decided: dict[Symbol, Value] = {}
        self.next_values: dict[State, Placeholder] = {}
        self._function, self._sizes = function, sizes
        self._values: dict[Value, Value] = {}
        self._open_axes: dict[Value, int] = {}
        self._saved: set[Value] = set()
        named = (*function.storage, *function.nodes)
        self._builder = Builder(function.name, (value.name for value in named))
        self._stem = ""

    def write(self) -> None:
        """Write all nodes."""
        for node in self._function.nodes:
            self._stem = node.name
            if isinstance(node, Save):
                self._save(node)
            else:
                self._write_node(node)
        self._drop_unread()
        self._name_all()

    def _write_node(self, node: Node) -> None:
        """Write a node of the function; its results get their names."""
        first = len(self.records)
        values = self._write(node.map_operands(lambda value: self._values.get(value, value)))
        for index, (result, value) in enumerate(zip(node.results, values, strict=True)):
            self._values[result] = value
            if result in self._sizes.counts:
                self._open_axes[value] = self._sizes.counts[result].axis
            if isinstance(value, Tensor) and value not in self.names:
                # The importer calls a node after its first output.
                self.names[value] = self.fresh(f"{node.name}_{index}") if index else node.name
        for record in self.records[first:]:
            if any(value in record.results for value in values):
                record.name = node.name
                break

    def _write(self, node: Node) -> tuple[Value, ...]:
        arrays = _known_by_size(node)
        if arrays is not None:
            return tuple(map(self.constant, arrays))
        results = self._rule_of(node)(self, node)
        return results if isinstance(results, tuple) else (results,)

    def _save(self, node: Save) -> None:
        output = node.output
        if isinstance(output, State):
            after = Placeholder(self.fresh(f"{output.name}_next"), output.type)
            self.next_values[output] = after
            output = after
        counted = output.counted
        if output.name in self._sizes.numbers:
            return  # the size of another output says it
        value = self._values.get(node.input, node.input)
        if value is output:
            return  # an input that is an output
        if counted is not None and value not in self._open_axes:
            value = self._cut(value, self._sizes.numbers[counted.count], counted.axis)
        if not isinstance(value, Tensor) or value in self._saved:
            value = self.step("Identity", value.type, value)
            self.records[-1].name = node.name
        self._saved.add(value)
        self.names[value] = output.name

    def _cut(self, value: Value, number: Value, axis: int) -> Value:
        """Write the slice of *value* without its padding."""
        known = self._values.get(number, number)
        end = self.step("Reshape", TensorType(INT64, (1,)), known, self.integers([1]))
        return self.step("Slice", value.type, value, self.integers([0]), end, self.integers([axis]))

    def open_axis(self, value: Value) -> int | None:
        """Return the axis along which the size of *value* is open, if there is one."""
        return self._open_axes.get(value)

    def finds_sizes(self, node: Node) -> bool:
        """Return whether the results of *node* are wanted without padding."""
        return node.name in self._sizes.producers

    def emit(self, node: Node) -> Value:
        """Write a *node* that a rule makes and that has one result; return this."""
        (value,) = self._write(node.copied(name=f"{self._stem}_{node.opcode}"))
        return value

    def node(self, node: Node, op: str, *operands: Value | None, **attributes: Any) -> Value:
        """Write *node*, which has one result, as the ONNX operator *op*; return the result."""
        return self.step(op, node.type, *operands, **attributes)

    def step(self, op: str, type: TensorType, *operands: Value | None, **attributes: Any) -> Value:
        """Write the ONNX operator *op* as a step to a result; return the value of *type*."""
        return self.steps(op, (type,), *operands, **attributes)[0]

    def steps(
        self, op: str, types: Sequence[TensorType], *operands: Value | None, **attributes: Any
    ) -> tuple[Value, ...]:
        """Write the ONNX operator *op*; return its results, which are of *types*.

        Operands of kinds that it does not take are converted, and so are the results.
        """
        for symbol in symbols_in(attributes.values()):
            raise open_error(symbol.size, f"{self._stem!r}, ONNX's {op}, has it in an attribute")
        given = variables_of(op, self.opset, len(operands))
        made = variables_of(op, self.opset, len(types), of_outputs=True)
        types_read = [value.type if value is not None else None for value in operands]
        kinds = {
            variable: self._kind_for(op, variable, type.kind)
            for variable, type in zip((*given, *made), (*types_read, *types), strict=True)
            if type is not None
        }
        read = [
            value and self._converted(value, kinds[variable])
            for variable, value in zip(given, operands, strict=True)
        ]
        results = [
            Tensor(TensorType(kinds[variable] or type.kind, type.shape))
            for variable, type in zip(made, types, strict=True)
        ]
        self.records.append(Record(op, read, results, attributes, self._stem))
        return tuple(
            self._converted(result, type.kind if kinds[variable] else None)
            for variable, type, result in zip(made, types, results, strict=True)
        )

    def own_steps(
        self,
        operator: Operator,
        types: Sequence[TensorType],
        operands: Sequence[Value | None],
        attributes: Sequence[onnx.AttributeProto],
    ) -> tuple[Value, ...]:
        """Write an *operator* that ONNX does not define; return its results, of *types*."""
        results = [Tensor(type) for type in types]
        named = {attribute.name: attribute for attribute in attributes}
        self.records.append(
            Record(operator.name, operands, results, named, self._stem, own=operator)
        )
        return tuple(results)

    def constant(self, array: Array, role: str = "constant") -> Constant:
        """Return a constant that holds *array*."""
        return Constant.of(self.fresh(f"{self._stem}_{role}"), array)

    @property
    def inputs(self) -> Sequence[Placeholder]:
        """The inputs of the function."""
        return self._function.inputs

    def integers(self, numbers: Sequence[int], role: str = "constant") -> Value:
        """Return a vector of int64 *numbers*; open sizes are computed from shapes of inputs."""
        if symbols_of(*numbers):
            return vector_of(self, numbers)
        return self.constant(np.array(numbers, np.int64), role)

    def number(self, number: Any, kind: ElementKind, role: str = "constant") -> Constant:
        """Return a constant of rank 0."""
        with np.errstate(all="ignore"):
            return self.constant(np.array(number).astype(kind.dtype), role)

    def fresh(self, name: str) -> str:
        """Return *name*, or another one like it if it is taken."""
        return self._builder.unique_name(name)

    def _kind_for(self, op: str, variable: str, kind: ElementKind) -> ElementKind | None:
        """Return the replacement of *kind* where an operator does not take it, else None."""
        if takes(op, self.opset, variable, kind):
            return None
        newer = opset_that_takes(op, self.opset, variable, kind)
        if newer is not None and newer <= PREFERRED_OPSET:
            self.wanted_opset = max(self.wanted_opset, newer)
        wide = stand_in(op, self.opset, variable, kind)
        if wide is None:
            known = "" if newer is None else f" before opset {newer}"
            self.problems.append(f"{self._stem!r} (ONNX's {op} takes no {kind.value}{known})")
        return wide

    def _converted(self, value: Value, kind: ElementKind | None) -> Value:
        """Return *value* in another *kind*, which holds its numbers."""
        if kind is None or kind is value.type.kind:
            return value
        result = Tensor(value.type.with_kind(kind))
        # What is infinite stays so, if the kind has infinities.
        exact = {"saturate": 0} if is_small_float(kind) else {}
        self.records.append(
            Record("Cast", (value,), (result,), {"to": code_of(kind), **exact}, self._stem)
        )
        return result

    def _drop_unread(self) -> None:
        """Drop the nodes whose results nothing reads."""
        read: set[Value | None] = set(self._saved)
        kept = []
        for record in reversed(self.records):
            if read.isdisjoint(record.results):
                continue
            read.update(record.operands)
            kept.append(record)
        self.records = kept[::-1]
        for record in self.records:
            for index, result in enumerate(() if record.own else record.results):
                if result not in read and is_optional_output(record.op, self.opset, index):
                    self.names[result] = ""

    def _name_all(self) -> None:
        """Name what has no name yet: nodes after their results, as these are unique.

        The last node of those that stand for one imported node makes its result, and has its name.
        """
        taken = {record.name for record in self.records if record.name}
        for record in reversed(self.records):
            for result in record.results:
                if result not in self.names:
                    self.names[result] = self.fresh(f"{record.stem}_{record.op}")
            origins = self._function.origins.get(record.name, ())
            names = [self.names[result] for result in record.results if self.names[result]]
            wanted = origins[0] if len(origins) == 1 else record.name or names[0]
            if wanted != record.name:
                record.name = wanted if wanted not in taken else record.name or self.fresh(wanted)
                taken.add(record.name)


def _known_by_size(node: Node) -> list[Array] | None:
    """Return the results of a *node* if no number plays a part, as there are none; else None."""
    operands = tuple(operands_of(node))
    if all(type.size == 0 and not type.is_open for type in node.result_types):
        return [np.zeros(type.shape, type.kind.dtype) for type in node.result_types]
    if operands and all(value.type.size == 0 for value in operands):
        empty = {value: np.zeros(value.type.shape, value.type.kind.dtype) for value in operands}
        return list(evaluate_node(node, empty))
    return None
