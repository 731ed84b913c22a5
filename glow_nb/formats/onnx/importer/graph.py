"""The nodes of a graph, one by one in order, those in bodies of functions and loops among them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import TypeVar

import onnx
from typing_extensions import override

from glow_nb.base.errors import (
    GlowError,
    KindError,
    MemoryLimitError,
    ModelError,
    OptionError,
    PassError,
    UnboundInput,
    UnsupportedError,
    VerifyError,
)
from glow_nb.base.open_size_error import OpenSizeError
from glow_nb.base.progress import report
from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer.constants import MAX_CONSTANT_BYTES
from glow_nb.formats.onnx.importer.context import AlreadyReportedError, Context
from glow_nb.formats.onnx.importer.dependence import inputs_behind
from glow_nb.formats.onnx.importer.expansion import Expansion, TooManyNodesError
from glow_nb.formats.onnx.importer.functions import (
    call_attributes,
    key_of,
    local_functions,
    resolved_attributes,
    schema_function,
)
from glow_nb.formats.onnx.importer.model import Model, check_opsets, normal_domain, opsets_of
from glow_nb.formats.onnx.importer.node import OnnxNode, allows_kinds, check_against_schema
from glow_nb.formats.onnx.importer.order import describe, sorted_nodes
from glow_nb.formats.onnx.importer.registry import Rule, find_import
from glow_nb.formats.onnx.importer.scope import Scope
from glow_nb.formats.onnx.importer.tensors import Numbers, sparse_to_array, to_payload
from glow_nb.formats.onnx.importer.trace import Trace
from glow_nb.formats.onnx.importer.unsupported import Complaints, untaken_branch
from glow_nb.formats.onnx.importer.widening import may_widen, widened
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value

T = TypeVar("T")

MAX_CALL_DEPTH = 32
"""Functions that may call each other in a chain."""

_ABOUT_A_PLACE = (
    *(MemoryLimitError, ModelError, OpenSizeError, OptionError, PassError, UnsupportedError),
)
"""Errors that say themselves which node they are about, or are about none."""

Outputs = tuple[Value | None, ...]


class GraphImporter(Context):
    """Imports weights and nodes of graphs, and the bodies of functions, into one function."""

    def __init__(self, model: Model) -> None:
        """Import graphs of *model*."""
        name = model.proto.producer_name
        super().__init__(Builder("main"), name, for_training=model.for_training)
        self.model = model
        self.complaints = Complaints()
        self._functions = local_functions(model)
        self._scope = Scope({}, model.place)
        self._expansion = Expansion(self._functions)

    def import_weights(
        self, graph: onnx.GraphProto, scope: Scope, replaced: AbstractSet[str] = frozenset()
    ) -> None:
        """Make the initializers of *graph* constants of *scope*, but for those *replaced*."""
        storage = self.model.storage
        for tensor in graph.initializer:
            if tensor.name in replaced:
                continue
            where = f"{scope.path}: weight {tensor.name!r}"
            numbers = self.model.numbers_of(tensor, partial(to_payload, tensor, where, storage))
            self._define_weight(tensor.name, numbers, where, scope)
        for sparse in graph.sparse_initializer:
            if sparse.values.name in replaced:
                continue
            where = f"{scope.path}: weight {sparse.values.name!r}"
            read = partial(sparse_to_array, sparse, where, storage, MAX_CONSTANT_BYTES)
            numbers = self.model.numbers_of(sparse, read)
            self._define_weight(sparse.values.name, numbers, where, scope)

    def _define_weight(self, name: str, numbers: Numbers, where: str, scope: Scope) -> None:
        if name in scope.values:
            raise ModelError(f"{where}: it is defined twice; every tensor needs a name of its own")
        constant = self.of_numbers(numbers, name)
        is_weight = constant.type.rank > 0 and constant.type.kind.is_float
        scope.values[name] = dataclasses.replace(constant, is_weight=is_weight)

    def import_nodes(self, graph: onnx.GraphProto | onnx.FunctionProto, scope: Scope) -> None:
        """Import the nodes of *graph*, which define more names of *scope*."""
        nodes = graph.node
        for done, proto in enumerate(sorted_nodes(nodes, scope, scope.path)):
            report("importing the nodes", done, len(nodes))
            self._import_node(proto, scope)

    def _import_node(self, proto: onnx.NodeProto, scope: Scope) -> None:
        outer_place, outer_stem = self.place, self.stem
        self.place = f"{scope.path}: {describe(proto)}"
        self.stem = next(filter(None, proto.output), proto.op_type)
        mark = len(self.builder.nodes)
        domain = normal_domain(proto.domain)
        opset = scope.opsets.get(domain, 0)
        try:
            values = self._values_of(proto, domain, opset, scope)
        except UnboundInput as error:
            self.complaints.add_unbound(error)
            values = None
        except AlreadyReportedError:
            values = None
        except OpenSizeError as error:
            if not self.decided.has(error.size):
                raise
            reason = f"it needs a number for {error.size!s}, which is data-dependent"
            self.complaints.add(domain, proto.op_type, opset, reason, self.place)
            values = None
        except UnsupportedError as error:
            place = self.place.removeprefix(f"{self.model.place}: ")
            self.complaints.add(domain, proto.op_type, opset, str(error), place)
            values = None
        self._bind_outputs(proto, values, scope)
        self._note_origin(proto.name or self.stem, mark)
        self.place, self.stem = outer_place, outer_stem

    def _note_origin(self, name: str, mark: int) -> None:
        """Record the ONNX node called *name* as the origin of the nodes emitted since *mark*.

        That is the node of the model: those in the body of a function or a loop do not count.
        """
        for node in self.builder.nodes[mark:]:
            self.builder.origins.pop(node.name, None)
            if node.name != name:
                self.builder.origins[node.name] = (name,)

    def _values_of(
        self, proto: onnx.NodeProto, domain: str, opset: int, scope: Scope
    ) -> Outputs | None:
        """Return the outputs of a node; None if an operand could not be imported."""
        function = self._functions.get(key_of(proto))
        rule, schema = find_import(domain, proto.op_type, opset, has_function=function is not None)
        node = OnnxNode(
            proto=proto,
            schema=schema,
            opset=opset,
            inputs=tuple(scope[name] if name else None for name in proto.input),
            attributes=resolved_attributes(proto, scope.attributes),
            place=self.place,
        )
        if rule is None and function is not None:
            return self._expand(node, function, scope)
        check_against_schema(node)
        if any(scope.is_unknown(name) for name in proto.input):
            return None
        return self._apply(rule or self._definition, node, scope)

    def _apply(self, rule: Rule, node: OnnxNode, scope: Scope) -> Outputs:
        """Return what *rule* makes of *node*, 16-bit floats rounded once."""
        if not may_widen(rule, node):
            return self._run(rule, node, scope)
        mark, bytes_left, outer = self.builder.mark(), self._bytes_left, self.trace
        self.trace = trace = Trace()
        try:
            values = self._run(rule, node, scope)
            if trace.rounds_between:
                self.builder.reset(mark)
                self._bytes_left = bytes_left
                trace.clear()
                types = [value.type if value else None for value in values]
                values = self._run(widened(rule, types), node, scope)
        finally:
            self.trace = outer
        if outer is not None:
            outer.include(trace)
        return values

    def _run(self, rule: Rule, node: OnnxNode, scope: Scope) -> Outputs:
        mark = len(self.builder.nodes)
        self._scope = scope
        result = self.checked(self.place, lambda: self._finish(self._ruled(rule, node), mark))
        self._check_counts(node, result)
        for index in range(len(result), len(node.outputs)):
            if node.wants(index):
                raise UnsupportedError(f"its output {index} is not supported")
        return result

    def _ruled(self, rule: Rule, node: OnnxNode) -> Value | Outputs:
        """Return what *rule* makes of *node*; kinds that only ONNX allows are unsupported."""
        try:
            return rule(self, node)
        except KindError as error:
            if node.schema is None or not allows_kinds(node, node.schema):
                raise
            raise self.unsupported(error.message) from error

    def _check_counts(self, node: OnnxNode, results: Outputs) -> None:
        """Refuse results made of the shape of an operand whose size is data-dependent."""
        for value in node.inputs:
            if value in self.counts and not all(result in self.counts for result in results):
                self.decided.are_wanted = True
                raise self.unsupported(f"it reads the shape of {value}, which only a run shows")

    def _finish(self, result: Value | Outputs, mark: int) -> Outputs:
        """Emit what a rule left to emit; let what computes the result have the tensor's name."""
        values = self.emitted(result, self.stem)
        if values[:1] != (result,) and not isinstance(result, tuple):
            return values  # just emitted, under that name
        last = self.builder.nodes[-1] if len(self.builder.nodes) > mark else None
        if last is None or last.name == self.stem or last not in values[:1]:
            return values
        renamed = dataclasses.replace(last, name=self.builder.unique_name(self.stem))
        self.builder.nodes[-1] = renamed
        if last in self.counts:
            self.counts[renamed] = self.counts[last]
        self._note(last, (renamed,))
        return tuple(renamed if value is last else value for value in values)

    def _definition(self, ctx: Context, node: OnnxNode) -> Outputs:  # noqa: ARG002
        """Import the body that ONNX defines for an operator without a rule."""
        body = schema_function(node)
        if body is None:
            raise UnsupportedError("there is no import rule for it")
        return self._expand(node, body, self._scope)

    def checked(self, place: str, build: Callable[[], T]) -> T:
        """Return what *build* returns; a rule of the IR that it breaks is the model's fault."""
        try:
            return build()
        except _ABOUT_A_PLACE:
            raise
        except GlowError as error:
            message = error.message if isinstance(error, VerifyError) else str(error)
            raise ModelError(f"{place}: {message}") from error

    def _expand(self, node: OnnxNode, function: onnx.FunctionProto, scope: Scope) -> Outputs:
        """Import the body of a function instead of a node that calls it."""
        key = key_of(node.proto)
        if key in scope.callers:
            raise ModelError(f"{self.place}: the function calls itself, which ONNX does not allow")
        if len(scope.callers) >= MAX_CALL_DEPTH:
            raise ModelError(f"{self.place}: functions call each other {MAX_CALL_DEPTH} deep")
        if len(node.inputs) > len(function.input):
            raise ModelError(
                f"{self.place}: it has {len(node.inputs)} operands, its function "
                f"{len(function.input)} inputs; export the model again"
            )
        self._expansion.enter(function, self.place)
        # A body that ONNX builds on demand may not say which operators it uses: the model's.
        opsets = {**scope.opsets, **opsets_of(function.opset_import)}
        check_opsets(opsets, self.place)
        missing = len(function.input) - len(node.inputs)
        given = zip(function.input, node.proto.input, strict=False)
        body = Scope(
            opsets,
            self.place,
            values=dict(zip(function.input, (*node.inputs, *(None,) * missing), strict=True)),
            unknown={name for name, outer in given if scope.is_unknown(outer)},
            attributes=call_attributes(node, function),
            callers=(*scope.callers, key),
        )
        self.import_nodes(function, body)
        # A body may leave out what its caller does not read.
        names = [n if node.wants(i) else "" for i, n in enumerate(function.output)]
        return self._results(names, body)

    @override
    def subgraph(self, graph: onnx.GraphProto, operands: Sequence[Value] = ()) -> tuple[Value, ...]:
        outer, inner = self._scope, self._scope.nested()
        if len(operands) != len(graph.input):
            raise self.wrong(f"its graph has {len(graph.input)} inputs instead of {len(operands)}")
        self._expansion.enter(graph, self.place)
        inner.values.update({i.name: v for i, v in zip(graph.input, operands, strict=True)})
        self.import_weights(graph, inner)
        self.import_nodes(graph, inner)
        self._scope = outer
        results = self._results([info.name for info in graph.output], inner)
        return tuple(value for value in results if value is not None)

    @override
    def check_steps(self, graph: onnx.GraphProto, steps: int) -> None:
        self._expansion.check([graph], self.place, steps)

    @override
    def check_branches(self, *graphs: onnx.GraphProto) -> None:
        self._expansion.check_both(graphs, self.place)

    @override
    def branch(self, graph: onnx.GraphProto, condition: Value, taken_if: bool) -> tuple[Value, ...]:
        outer, place, scope = self.complaints, self.place, self._scope
        self.complaints = Complaints()
        try:
            results = self._branch_results(graph)
        except (AlreadyReportedError, TooManyNodesError):
            raise
        except (ModelError, UnsupportedError) as error:
            names = inputs_behind(condition)
            if not names:
                raise
            raise untaken_branch(place, taken_if, names, error) from error
        finally:
            self.complaints, self.place, self._scope = outer, place, scope
        return results

    def _branch_results(self, graph: onnx.GraphProto) -> tuple[Value, ...]:
        """Return the outputs of a graph; raise what is not supported in it at once."""
        try:
            results = self.subgraph(graph)
        except AlreadyReportedError:
            self.complaints.raise_if_any(self.model.place)
            raise
        self.complaints.raise_if_any(self.model.place)
        return results

    def _results(self, names: Iterable[str], scope: Scope) -> Outputs:
        """Return the outputs of a function or subgraph; None for a name that is empty."""
        what = "output of its graph"
        return tuple(self._value(name, scope, what) if name else None for name in names)

    def _value(self, name: str, scope: Scope, what: str) -> Value:
        value = scope[name]
        if value is None and scope.is_unknown(name):
            raise AlreadyReportedError(name)
        if value is None:
            raise self.wrong(f"{what} {name!r} is not computed")
        return value

    def _bind_outputs(self, proto: onnx.NodeProto, values: Outputs | None, scope: Scope) -> None:
        if values is None:
            scope.unknown.update(filter(None, proto.output))
            return
        for name, value in zip(proto.output, values, strict=False):
            if name and value is not None:
                scope.values[name] = value

    @override
    def named(self, name: str) -> Value:
        return self._value(name, self._scope, "tensor")

    @override
    def numbers(self, tensor: onnx.TensorProto) -> Numbers:
        self.kind(tensor.data_type)
        read = partial(to_payload, tensor, self.place, self.model.storage)
        return self.model.numbers_of(tensor, read)

    @override
    def dense(self, tensor: onnx.SparseTensorProto) -> Array:
        return sparse_to_array(tensor, self.place, self.model.storage, MAX_CONSTANT_BYTES)
