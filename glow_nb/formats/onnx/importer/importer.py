"""The driver: a model to a function (paper 3.6, step 1): inputs, weights, nodes and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import onnx

from glow_nb.base.counted import Counted
from glow_nb.base.errors import OptionError
from glow_nb.base.types import Array, Dimensions, TensorType
from glow_nb.formats.onnx.importer.dimensions import (
    Shapes,
    bind_shapes,
    check_bindings,
    check_constant,
    check_tensor_input,
    declared_shape,
    inputs_of,
    names_of_outputs,
    names_of_weights,
    opened_by,
)
from glow_nb.formats.onnx.importer.graph import GraphImporter
from glow_nb.formats.onnx.importer.model import Model
from glow_nb.formats.onnx.importer.scope import Scope, output_value
from glow_nb.formats.onnx.schema.element_kinds import kind_of
from glow_nb.hlir.graph import Function, Placeholder, Value
from glow_nb.hlir.save import Save


class Importer(GraphImporter):
    """Imports one model."""

    def __init__(
        self,
        model: Model,
        shapes: Shapes,
        constants: Mapping[str, Array],
        watched: Sequence[str] = (),
    ) -> None:
        """Import *model* with dimensions bound by *shapes* and inputs fixed by *constants*.

        The values called *watched* become outputs, too.
        """
        super().__init__(model)
        self._shapes, self._constants = shapes, constants
        declared = {info.name for info in model.proto.graph.output}
        self._watched = [name for name in dict.fromkeys(watched) if name not in declared]
        self._count_names: dict[Value, str] = {}

    def function(self) -> Function:
        """Return the model as a function.

        Raises:
            ModelError: The model is broken.
            UnsupportedError: It uses something we do not have; names everything at once.
        """
        for name, value in self.import_graph():
            self._save(name, value, self._counted(name, value))
        for number, name in self._count_names.items():
            self._save(name, number)
        return self.builder.function()

    def import_graph(self) -> list[tuple[str, Value]]:
        """Import inputs, weights and nodes; return name and value of each output that is known."""
        graph, place = self.model.proto.graph, self.model.place
        scope = Scope(self.model.opsets, place)
        inputs = inputs_of(graph, place)
        check_bindings(graph, place, self._shapes, self._constants)
        defaults = names_of_weights(graph).difference(self._constants)
        defaults = {name for name in defaults if not opened_by(self._shapes, name)}
        given = [info for info in inputs if info.name not in defaults]
        fed = [info.name for info in given if info.name not in self._constants]
        self._reserve_names(fed, (*names_of_outputs(graph, place), *self._watched))
        self._import_inputs(given, scope)
        replaced = {info.name for info in given}
        self.import_weights(graph, scope, replaced)
        self.import_nodes(graph, scope)
        values = [output_value(info, scope, place) for info in graph.output]
        self.complaints.raise_if_any(place)
        known = [
            (info.name, value)
            for info, value in zip(graph.output, values, strict=True)
            if value is not None
        ]
        return [*known, *((name, self._tensor(name, scope)) for name in self._watched)]

    def _tensor(self, name: str, scope: Scope) -> Value:
        """Return the value called *name*, which must be a tensor."""
        value = scope[name]
        if not isinstance(value, Value):
            raise OptionError(f"watch: {name!r} is no tensor in this model; leave it out")
        return value

    def _counted(self, name: str, value: Value) -> Counted | None:
        """Return what of an output called *name* counts; the number will be an output, too."""
        if value not in self.counts:
            return None
        number, axis = self.counts[value].number, self.counts[value].axis
        if number not in self._count_names:
            self._count_names[number] = self.builder.unique_name(f"{name}_count")
        return Counted(self._count_names[number], axis)

    def _save(self, name: str, value: Value, counted: Counted | None = None) -> None:
        """Make *value* the output called *name*; an input that is an output is one placeholder."""
        value = self.as_computed(value)
        is_input = isinstance(value, Placeholder) and value.name == name
        output = value if is_input else Placeholder(name, value.type, counted=counted)
        assert isinstance(output, Placeholder)
        self.builder.outputs.append(output)
        self.builder.emit(Save(value, output), f"{name}_save")

    def _reserve_names(self, inputs: Iterable[str], outputs: Iterable[str]) -> None:
        """Keep the names of inputs and outputs, which a caller uses, from any other value."""
        for name in {*inputs, *outputs}:
            self.builder.unique_name(name)

    def _import_inputs(self, given: Sequence[onnx.ValueInfoProto], scope: Scope) -> None:
        """Define the inputs that are *given*: fed, or fixed, and not left at a default."""
        place = self.model.place
        signature: dict[str, Dimensions | None] = {}
        for info in given:
            check_tensor_input(info, place)
            if info.name in self._constants:
                self._fix_input(info, scope)
            else:
                signature[info.name] = declared_shape(info)
        shapes = self._input_shapes(signature)
        for info in given:
            if info.name not in signature:
                continue
            if info.name not in shapes:
                scope.unknown.add(info.name)
                continue
            where = f"{place}: input {info.name!r}"
            kind = kind_of(info.type.tensor_type.elem_type, where)
            type = self.checked(where, partial(TensorType, kind, shapes[info.name]))
            placeholder = Placeholder(info.name, type)
            self.builder.inputs.append(placeholder)
            scope.values[info.name] = placeholder

    def _input_shapes(
        self, signature: Mapping[str, Dimensions | None]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes of the inputs; what depends on one without is only looked at."""
        return bind_shapes(self.model.place, signature, self._shapes)

    def _fix_input(self, info: onnx.ValueInfoProto, scope: Scope) -> None:
        array = self._constants[info.name]
        where = f"{self.model.place}: input {info.name!r}"
        kind = kind_of(info.type.tensor_type.elem_type, where)
        check_constant(info, kind, array, where)
        scope.values[info.name] = self.constant(array, info.name)
