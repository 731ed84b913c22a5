"""A summary of a model, made without importing it: sizes need not be known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import prod

import onnx

from glow_nb.base.summary import Summary, counts_as_parameters
from glow_nb.formats.onnx.importer.model import Model, normal_domain
from glow_nb.formats.onnx.schema.element_kinds import kind_of


def summary_of(model: Model) -> Summary:
    """Return what *model* consists of.

    Raises:
        UnsupportedError: A weight is of a kind that is not supported.
    """
    graph = model.proto.graph
    operators = Counter(_operators(graph.node))
    weights = list(_weights(graph.node, graph.initializer, graph.sparse_initializer))
    for function in model.proto.functions:
        operators.update(_operators(function.node))
        weights += _weights(function.node)
    kinds = [
        (kind, prod(dims))
        for code, dims in weights
        if counts_as_parameters(kind := kind_of(code, f"{model.place}: a weight"), len(dims))
    ]
    return Summary(
        name=graph.name,
        operators=operators,
        parameters=sum(size for _, size in kinds),
        parameter_bytes=sum(-(-size * kind.bits // 8) for kind, size in kinds),
    )


def _operators(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    """Return the operator of each of *nodes*, and of those in their graphs."""
    found: list[str] = []
    for node in nodes:
        domain = normal_domain(node.domain)
        found.append(f"{domain}.{node.op_type}" if domain else node.op_type)
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                found += _operators(graph.node)
    return found


def _weights(
    nodes: Iterable[onnx.NodeProto],
    tensors: Iterable[onnx.TensorProto] = (),
    sparse: Iterable[onnx.SparseTensorProto] = (),
) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield kind and shape of each of *tensors*, and of those in *nodes* and in their graphs."""
    for tensor in tensors:
        yield tensor.data_type, tensor.dims
    for each in sparse:
        yield each.values.data_type, each.dims
    for node in nodes:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                yield attribute.t.data_type, attribute.t.dims
            if node.op_type == "Constant" and attribute.name == "sparse_value":
                yield attribute.sparse_tensor.values.data_type, attribute.sparse_tensor.dims
            for graph in (attribute.g, *attribute.graphs):
                yield from _weights(graph.node, graph.initializer, graph.sparse_initializer)
