"""The files that a model names for its external data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx


def external_locations(proto: onnx.ModelProto) -> list[str]:
    """Return the locations of external data in *proto*, as the model has them, each once.

    They are text of a stranger: whoever opens such a file asks
    :class:`~glow_nb.system.data_folder.DataFolder` first.
    """
    found: dict[str, None] = {}
    for tensor in tensors_of(proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            found[entries.get("location", "")] = None
    return list(found)


def tensors_of(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield all tensors of a model: initializers and attributes, in all graphs and functions."""
    yield from _tensors_of(proto.graph)
    yield from _tensors_in(node for function in proto.functions for node in function.node)


def _tensors_of(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _tensors_in(graph.node)


def _tensors_in(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            for graph in (attribute.g, *attribute.graphs):
                yield from _tensors_of(graph)
