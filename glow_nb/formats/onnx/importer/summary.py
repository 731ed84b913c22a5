"""What a model consists of, told without importing it: sizes need not be known for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import prod

import onnx

from glow_nb.base.summary import Summary
from glow_nb.formats.onnx.importer.model import Model, normal_domain
from glow_nb.formats.onnx.schema.element_kinds import kind_of


def summary_of(model: Model) -> Summary:
    """Return what *model* consists of.

    Raises:
        UnsupportedError: A weight is of a kind that is not supported.
    """
    graph = model.proto.graph
    weights = [(tensor.data_type, tensor.dims) for tensor in graph.initializer]
    weights += [(sparse.values.data_type, sparse.dims) for sparse in graph.sparse_initializer]
    operators = Counter(_operators(graph.node))
    for function in model.proto.functions:
        operators.update(_operators(function.node))
    kinds = [(kind_of(code, f"{model.place}: a weight"), prod(dims)) for code, dims in weights]
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
