"""A model some of whose sizes are open: read once, checked once, imported for each set of sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Self

import onnx
from google.protobuf.message import EncodeError
from typing_extensions import override

from glow_nb.base.errors import GlowError, UnsupportedError
from glow_nb.base.model_node import ModelNode
from glow_nb.base.size_ranges import SizeRanges
from glow_nb.base.specialized import Specialized
from glow_nb.base.summary import Summary
from glow_nb.base.types import Array, Dimensions, SymbolicType
from glow_nb.formats.onnx.importer.decided import with_decided_sizes
from glow_nb.formats.onnx.importer.dimensions import (
    Shapes,
    bind_shapes,
    check_bindings,
    declared_shape,
    inputs_of,
    known_shapes,
    names_of_weights,
    opened_by,
    partly_bound,
    symbol_sizes,
    with_sizes,
)
from glow_nb.formats.onnx.importer.importer import Importer
from glow_nb.formats.onnx.importer.model import Model, load_model
from glow_nb.formats.onnx.importer.nodes import model_nodes
from glow_nb.formats.onnx.importer.open_sizes import import_open
from glow_nb.formats.onnx.importer.summary import summary_of
from glow_nb.formats.onnx.importer.unsupported import UntakenBranch
from glow_nb.formats.onnx.importer.watched import value_names, watched_values
from glow_nb.formats.onnx.schema.element_kinds import kind_of
from glow_nb.hlir.graph import Function

PROBES = (32, 224)
"""Sizes with which a model is tried if none are given: those that most networks can take."""


class SymbolicModel:
    """A model with open sizes.

    Attributes:
        inputs: Name and type of each input that must be fed, with the sizes that are bound.
        defaults: The same of each input that need not be fed, as the model has numbers for it.
        outputs: The same of each output, as far as the model declares it.
    """

    def __init__(self, model: Model, shapes: Shapes, constants: Mapping[str, Array]) -> None:
        """Take *model*, some of whose sizes *shapes* gives, and read all of its weights.

        Raises:
            ModelError: Something is wrong with it that does not depend on sizes.
            UnsupportedError: It needs something that is not supported at any size; names all.
        """
        self._model, self._shapes = snapshot(model), shapes
        self._constants = {name: array.copy() for name, array in constants.items()}
        checker = with_decided_sizes(
            lambda: _Checker(self._model, shapes, self._constants), _Checker.checked_graph
        )
        self.inputs, self.outputs = checker.inputs, checker.outputs
        self.defaults = defaults_of(self._model, self._shapes, self._constants)
        self._try_sizes()

    def bind(self, shapes: Shapes) -> dict[str, tuple[int, ...]]:
        """Return the shape of each input that must be fed, and of those that *shapes* names.

        Raises:
            UnboundDimension: *shapes* leaves a size open.
            OptionError: *shapes* names something that is not in the model, or contradicts it.
        """
        check_bindings(self._model.proto.graph, self._model.place, shapes, self._constants)
        fed = {name: t for name, t in self.defaults.items() if opened_by(shapes, name)}
        signature = {name: type.shape for name, type in (self.inputs | fed).items()}
        return bind_shapes(self._model.place, signature, shapes)

    @property
    def has_open_sizes(self) -> bool:
        """Return whether a size of an input that must be fed is open."""
        shapes = [type.shape for type in self.inputs.values()]
        return any(shape is None or not all(isinstance(n, int) for n in shape) for shape in shapes)

    def summary(self) -> Summary:
        """Return what the model consists of, whatever its sizes are."""
        return summary_of(self._model)

    def function(
        self,
        shapes: Shapes,
        constants: Mapping[str, Array] | None = None,
        watched: Sequence[str] = (),
    ) -> Function:
        """Return the model with the rest of its sizes bound by *shapes*; raise as for any model.

        Inputs with a default become such that are fed if *shapes* has their whole shapes; those
        that *constants* has are fixed to these numbers. The values called *watched* become outputs,
        too.
        """
        fixed = {**self._constants, **(constants or {})}
        return with_decided_sizes(
            lambda: Importer(self._model, {**self._shapes, **shapes}, fixed, watched),
            Importer.function,
        )

    def open_function(
        self, ranges: SizeRanges, watched: Sequence[str] = ()
    ) -> tuple[Function, list[Specialized]]:
        """Return the model with its sizes open, and those that had to be numbers."""
        return import_open(self._model, self._shapes, self._constants, ranges, watched)

    def watched_values(self, names: Sequence[str]) -> dict[str, str]:
        """Return the value that each of *names* means, which may be a node's; or OptionError."""
        return watched_values(self._model.proto.graph, names)

    def value_names(self) -> list[str]:
        """Return names for all values that nodes of the model make."""
        return value_names(self._model.proto.graph)

    def nodes(self) -> list[ModelNode]:
        """Return the nodes of the model as its file has them."""
        return model_nodes(self._model.proto.graph)

    def _try_sizes(self) -> None:
        """Raise UnsupportedError if the model is refused for all sizes that are tried.

        An error with some sizes may not occur with others, and is reported when sizes are given.
        """
        symbols = {n for type in self.inputs.values() for n in type.shape or () if type.shape}
        if not symbols:
            return
        refused: UnsupportedError | None = None
        for size in PROBES:
            try:
                function = self.function({n: size for n in symbols if isinstance(n, str)})
            except UntakenBranch:  # whose sizes may be others
                return
            except UnsupportedError as error:
                refused = error
            except GlowError:
                return
            else:
                self._learn_kinds(function)
                return
        if refused is not None:
            raise refused

    def _learn_kinds(self, function: Function) -> None:
        for output in function.outputs:
            declared = self.outputs.get(output.name)
            if declared is not None and declared.kind is None:
                self.outputs[output.name] = SymbolicType(output.type.kind, declared.shape)


class _Checker(Importer):
    """Imports what does not depend on open sizes, and looks at all other nodes.

    Of those it checks that there is a rule, and that operands, outputs and attributes are those
    that the operator has; in the bodies of functions too.
    """

    inputs: dict[str, SymbolicType]
    outputs: dict[str, SymbolicType]

    def checked_graph(self) -> Self:
        """Look at all nodes; raise as the import does, and return this."""
        self.import_graph()
        return self

    @override
    def _input_shapes(
        self, signature: Mapping[str, Dimensions | None]
    ) -> Mapping[str, tuple[int, ...]]:
        place, graph = self.model.place, self.model.proto.graph
        bound = partly_bound(place, signature, self._shapes)
        infos = {info.name: info for info in graph.input}
        self.inputs = {
            name: symbolic_type(infos[name], place, shape) for name, shape in bound.items()
        }
        sizes = symbol_sizes(place, signature, self._shapes)
        self.outputs = {}
        for info in graph.output:
            shape = declared_shape(info)
            known = None if shape is None else with_sizes(shape, sizes)
            self.outputs[info.name] = symbolic_type(info, place, known)
        return known_shapes(bound)


def symbolic_type(info: onnx.ValueInfoProto, place: str, shape: Dimensions | None) -> SymbolicType:
    """Return the type of an input or output of the model at *place*, with the given *shape*."""
    code = info.type.tensor_type.elem_type
    kind = kind_of(code, f"{place}: {info.name!r}") if code else None
    return SymbolicType(kind, shape)


def declared_inputs(model: Model) -> dict[str, SymbolicType]:
    """Return name and type of each input that *model* lists, those with a default among them."""
    graph, place = model.proto.graph, model.place
    return {
        info.name: symbolic_type(info, place, declared_shape(info))
        for info in inputs_of(graph, place)
    }


def defaults_of(
    model: Model, shapes: Shapes, constants: Mapping[str, Array]
) -> dict[str, SymbolicType]:
    """Return name and type of each input that need not be fed: the model has numbers for it."""
    weights = names_of_weights(model.proto.graph).difference(constants)
    return {
        name: type
        for name, type in declared_inputs(model).items()
        if name in weights and not opened_by(shapes, name)
    }


def fed_inputs(
    model: Model, shapes: Shapes, constants: Mapping[str, Array]
) -> tuple[dict[str, SymbolicType], dict[str, SymbolicType]]:
    """Return the inputs of *model* that must be fed, and those with a default; nothing is imported.

    Each has the sizes that *shapes* gives. Those that *constants* fix are no inputs.

    Raises:
        ModelError: *constants* names something that is no input.
        OptionError: *shapes* names something that is not in the model, or contradicts it.
    """
    check_bindings(model.proto.graph, model.place, shapes, constants)
    types = {n: type for n, type in declared_inputs(model).items() if n not in constants}
    bound = partly_bound(model.place, {n: type.shape for n, type in types.items()}, shapes)
    given = {name: SymbolicType(type.kind, bound[name]) for name, type in types.items()}
    defaults = defaults_of(model, shapes, constants).keys()
    needed = {name: type for name, type in given.items() if name not in defaults}
    return needed, {name: type for name, type in given.items() if name in defaults}


def snapshot(model: Model) -> Model:
    """Return *model* as it is now, whatever its owner does with the message later."""
    if not model.is_borrowed:
        return model
    try:
        copy = load_model(model.proto.SerializeToString())
        return dataclasses.replace(copy, for_training=model.for_training)
    except (EncodeError, ValueError):  # larger than any message: all sizes read the owner's
        return model
