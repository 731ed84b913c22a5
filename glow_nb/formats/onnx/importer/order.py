"""The order of a graph's nodes: each after those it reads."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

import onnx

from glow_nb.base.errors import ModelError
from glow_nb.base.schema import closest


def sorted_nodes(
    nodes: Sequence[onnx.NodeProto], known: Container[str], place: str
) -> Sequence[onnx.NodeProto]:
    """Return *nodes* so that each comes after those it reads; their own order if it is right.

    Args:
        nodes: The nodes of one graph.
        known: Names that are defined outside: inputs, weights and the values of outer graphs.
        place: The name of the graph in errors.

    Raises:
        ModelError: A name is defined twice or nowhere, or nodes read each other in a circle.
    """
    producers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in producers or name in known:
                raise ModelError(
                    f"{place}: two things are called {name!r}, one of them the output of "
                    f"{describe(node)}; every tensor needs a name of its own"
                )
            producers[name] = index
    reads = [_producers_read(node, producers, known, place) for node in nodes]
    if all(max(read, default=-1) < index for index, read in enumerate(reads)):
        return nodes
    sorter = TopologicalSorter(dict(enumerate(reads)))
    try:
        return [nodes[index] for index in sorter.static_order()]
    except CycleError as error:
        circle = " -> ".join(describe(nodes[index]) for index in error.args[1])
        raise ModelError(
            f"{place}: nodes read each other in a circle: {circle}; a graph must have no cycle"
        ) from None


def _producers_read(
    node: onnx.NodeProto, producers: dict[str, int], known: Container[str], place: str
) -> set[int]:
    found = set()
    for name in names_read(node):
        if name in producers:
            found.add(producers[name])
        elif name not in known:
            raise ModelError(
                f"{place}: {describe(node)} reads {name!r}, which no input, weight or node "
                f"defines{closest(name, producers)}; the model is not complete"
            )
    return found


def names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the tensors a node reads, those that its subgraphs take from outside included.

    An attribute of a node that asks for gradients names the tensor that is differentiated.
    """
    yield from filter(None, node.input)
    is_gradient = (node.domain, node.op_type) == ("ai.onnx.preview.training", "Gradient")
    for attribute in node.attribute:
        if is_gradient and attribute.name == "y":
            yield attribute.s.decode("utf-8", "backslashreplace")
        graphs = [attribute.g] if attribute.HasField("g") else attribute.graphs
        for graph in graphs:
            yield from _free_names(graph)


def _free_names(graph: onnx.GraphProto) -> Iterator[str]:
    inside = {value.name for value in (*graph.input, *graph.initializer)}
    inside.update(tensor.values.name for tensor in graph.sparse_initializer)
    inside.update(name for node in graph.node for name in node.output)
    outputs = (value.name for value in graph.output)
    for name in (*(n for node in graph.node for n in names_read(node)), *outputs):
        if name not in inside:
            yield name


def describe(node: onnx.NodeProto) -> str:
    """Return what errors call a node: its name, or else its first output, and its operator."""
    name = node.name or next(filter(None, node.output), "")
    domain = f"{node.domain}." if node.domain not in ("", "ai.onnx") else ""
    return f"node {name!r} ({domain}{node.op_type})"
