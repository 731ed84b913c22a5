"""From a function to an ``onnx.ModelProto``: what the nodes become, and in which operator set."""

from __future__ import annotations

from collections.abc import Callable
from itertools import starmap

import onnx
from onnx import helper

from glow_nb.base.arguments import as_integer
from glow_nb.base.errors import OptionError, UnsupportedError
from glow_nb.base.size import Size
from glow_nb.base.version import __version__
from glow_nb.formats.onnx.exporter.counted import open_sizes
from glow_nb.formats.onnx.exporter.kinds import opset_that_takes
from glow_nb.formats.onnx.exporter.layout import lay_out
from glow_nb.formats.onnx.exporter.own_domains import own_domains
from glow_nb.formats.onnx.exporter.registry import (
    OLDEST_OPSET,
    can_write,
    expansions,
    exports_of,
    rule_of,
)
from glow_nb.formats.onnx.exporter.writer import Record, Writer
from glow_nb.formats.onnx.schema.element_kinds import code_of
from glow_nb.formats.onnx.schema.schemas import NEWEST_OPSET
from glow_nb.hlir.graph import Constant, Function, Node, Placeholder, State, Value
from glow_nb.hlir.lower import lower
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.hlir.save import Save
from glow_nb.hlir.strip_quantized_types import computes_on_quantized

TensorOf = Callable[[Constant | State], onnx.TensorProto]
"""Makes the message of what has numbers."""


def as_model(function: Function, opset: int | None, tensor_of: TensorOf) -> onnx.ModelProto:
    """Return *function* as a model of *opset*, or of the oldest one that says all of it.

    Raises:
        UnsupportedError: ONNX, or that operator set, has no operators for some nodes; lists them
        all. OptionError: There is no such operator set.
    """
    writer = _written(function, opset)
    graph = onnx.GraphProto(name=function.name)
    graph.node.extend(_node_of(record, writer.names) for record in writer.records)
    read = [value for record in writer.records for value in record.operands]
    for value in dict.fromkeys((*read, *writer.next_values)):
        if isinstance(value, Constant | State):
            graph.initializer.append(tensor_of(value))
    graph.input.extend(map(_info_of, (*function.inputs, *writer.next_values)))
    hidden = {output.counted.count for output in function.outputs if output.counted}
    shown = (output for output in function.outputs if output.name not in hidden)
    graph.output.extend(map(_info_of, (*shown, *writer.next_values.values())))
    opset = helper.make_opsetid("", writer.opset)
    return helper.make_model(
        graph,
        opset_imports=[opset, *starmap(helper.make_opsetid, own_domains(writer.records).items())],
        ir_version=helper.find_min_ir_version_for([opset]),
        producer_name="glow_nb",
        producer_version=__version__,
    )


def _written(function: Function, wanted: int | None) -> Writer:
    opset = max(OLDEST_OPSET, _opset_of_kinds(function))
    if wanted is not None:
        opset = _as_opset(wanted, opset)
    plain = _without_predicates(function)
    while True:
        expanded = _expanded(plain, opset)
        needed = _opset_needed(expanded, opset)
        if needed == opset:
            laid_out = lay_out(expanded)
            writer = Writer(laid_out, opset, open_sizes(laid_out), rule_of)
            writer.write()
            if wanted is not None or writer.wanted_opset == opset:
                if writer.problems:
                    raise _unsupported(function, writer.problems)
                return writer
            needed = writer.wanted_opset
        elif wanted is not None:
            late = [n for n in expanded.nodes if not (isinstance(n, Save) or can_write(n, opset))]
            problems = [f"{node!r} (opset {_opset_of(node)})" for node in late]
            raise _unsupported(function, problems, opset)
        opset = needed


def _as_opset(wanted: object, least: int) -> int:
    """Return the operator set that is *wanted*; raise unless there is one, from *least* on."""
    opset = as_integer(wanted)
    if opset is None or not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise OptionError(
            f"opset={wanted!r:.80}: models of the operator sets {OLDEST_OPSET} to {NEWEST_OPSET} "
            "can be written; leave it out for the oldest one that says all of the graph"
        )
    if opset < least:
        raise UnsupportedError(
            f"opset={opset}: the function has element kinds that ONNX has since opset {least}; "
            f"give opset={least} or leave it out"
        )
    return opset


def _opset_of_kinds(function: Function) -> int:
    """Return the first operator set that has all element kinds of *function*."""
    types = [value.type for value in function.storage]
    types += [type for node in function.nodes for type in node.result_types]
    kinds = {type.kind for type in types}
    since = (opset_that_takes("Cast", OLDEST_OPSET, "T1", kind) for kind in kinds)
    return max((number or NEWEST_OPSET for number in since), default=OLDEST_OPSET)


def _without_predicates(function: Function) -> Function:
    """Return *function* with results for all samples, where those of some may be arbitrary."""

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        if node.predicate is None:
            return None
        return rewriter.emit(node.copied(predicate=None), node.name).results

    return rewrite(function, rule)


def _expanded(function: Function, opset: int) -> Function:
    """Return *function* with what ONNX has no operator for expressed by what it has.

    Quantized types come first, since ONNX has none.
    """
    needed = GRAPH_PASSES.run(function, ("eliminate_dead_nodes",))
    plain = lower(needed, computes_on_quantized, expansions())
    made = lower(plain, lambda node: not can_write(node, opset), expansions())
    return GRAPH_PASSES.run(made, ("eliminate_dead_nodes",))


def _opset_needed(function: Function, opset: int) -> int:
    """Return *opset*, or the first one after it in which there is a rule for every node.

    Raises:
        UnsupportedError: For some there is none; lists them all.
    """
    missing = [n for n in function.nodes if not (isinstance(n, Save) or can_write(n, opset))]
    hopeless = [repr(node) for node in missing if _opset_of(node) is None]
    if hopeless:
        raise _unsupported(function, hopeless)
    return max((_opset_of(node) or opset for node in missing), default=opset)


def _opset_of(node: Node) -> int | None:
    """Return the operator set in which a rule writes *node*, None if there is no such rule."""
    return min((e.since for e in exports_of(node) if e.says(node)), default=None)


def _unsupported(
    function: Function, problems: list[str], opset: int | None = None
) -> UnsupportedError:
    where = "" if opset is None else f" in opset {opset}"
    remedy = (
        "export the graph as it is before the passes of a backend, register a lowering, or make "
        "an operator of your own one of ONNX with glow_nb.extend.onnx_operator"
    )
    if opset is not None:
        remedy = "leave opset out for the oldest one that says all of the graph"
    return UnsupportedError(
        f"function {function.name!r}: ONNX{where} has no operator, and glow_nb no composition of "
        f"operators, for {', '.join(dict.fromkeys(problems))}; {remedy}"
    )


def _node_of(record: Record, names: dict[Value, str]) -> onnx.NodeProto:
    operands = [(value and names.get(value, value.name)) or "" for value in record.operands]
    while operands and not operands[-1]:
        operands.pop()
    results = [names[value] for value in record.results]
    while not results[-1]:
        results.pop()
    if record.own is None:
        return helper.make_node(
            record.op, operands, results, name=record.name, **dict(record.attributes)
        )
    node = helper.make_node(
        record.op, operands, results, name=record.name, domain=record.own.domain
    )
    node.attribute.extend(record.attributes.values())
    return node


def _info_of(placeholder: Placeholder) -> onnx.ValueInfoProto:
    shape = [str(n) if isinstance(n, Size) else n for n in placeholder.type.shape]
    if placeholder.counted is not None:
        shape[placeholder.counted.axis] = placeholder.counted.count
    return helper.make_tensor_value_info(placeholder.name, code_of(placeholder.type.kind), shape)
