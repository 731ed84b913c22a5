"""A model file after training: other numbers in its weights, and its mode that of use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx
from onnx import helper, numpy_helper

from glow_nb.base.errors import ModelError
from glow_nb.base.types import Array


def with_weights(model: onnx.ModelProto, weights: Mapping[str, Array]) -> onnx.ModelProto:
    """Return a copy of *model* whose initializers called as *weights* hold these.

    Raises:
        ModelError: It has no initializer of a name, or one of another shape or kind.
    """
    updated = onnx.ModelProto()
    updated.CopyFrom(model)
    initializers = {tensor.name: tensor for tensor in updated.graph.initializer}
    for name, array in weights.items():
        if name not in initializers:
            raise ModelError(f"the model has no initializer {name!r} that could hold new numbers")
        new, old = numpy_helper.from_array(array, name), initializers[name]
        if (new.data_type, list(new.dims)) != (old.data_type, list(old.dims)):
            raise ModelError(
                f"initializer {name!r} is {onnx.TensorProto.DataType.Name(old.data_type)} "
                f"{list(old.dims)}, the new numbers are {array.dtype} {list(array.shape)}"
            )
        old.CopyFrom(new)
    return updated


def in_inference_mode(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of *model* whose nodes do not train.

    Batch normalizations use their running statistics, which are what they tell as new ones, and no
    dropout drops anything. A normalization whose batch statistics are read stays as it is: only
    training has them.
    """
    updated = onnx.ModelProto()
    updated.CopyFrom(model)
    for body in (updated.graph, *updated.functions):
        _leave_training(body)
    return updated


def _leave_training(body: onnx.GraphProto | onnx.FunctionProto) -> None:
    read = set(_names_read(body)) - {""}  # which stands for an operand that is left out
    nodes: list[onnx.NodeProto] = []
    for node in body.node:
        nodes.append(node)
        for inner in _bodies(node):
            _leave_training(inner)
        if node.op_type == "Dropout" and len(node.input) > 2:
            del node.input[2:]
        if node.op_type == "BatchNormalization" and not read & set(node.output[3:]):
            kept = [a for a in node.attribute if a.name != "training_mode"]
            del node.attribute[:]
            node.attribute.extend(kept)
            running = zip(node.input[3:5], node.output[1:3], strict=False)
            nodes += [helper.make_node("Identity", [old], [new]) for old, new in running if new]
            del node.output[1:]
    del body.node[:]
    body.node.extend(nodes)


def _names_read(body: onnx.GraphProto | onnx.FunctionProto) -> Iterator[str]:
    """Yield the names of values that something reads, in bodies of nodes, too."""
    outputs: Iterable[str | onnx.ValueInfoProto] = body.output
    for output in outputs:
        yield output if isinstance(output, str) else output.name
    for node in body.node:
        yield from node.input
        for inner in _bodies(node):
            yield from _names_read(inner)


def _bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that *node* holds."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
