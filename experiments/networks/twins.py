"""Which networks are all measurements and comparisons made on?

The nine light models inside the ``onnx`` package keep the structure of the real networks, but every
weight is a constant, which hides mistakes of layout and indexing. A twin has the same nodes with
seeded random weights: He-scaled filters, batch-norm statistics measured on the twin itself, so that
activations keep unit scale through all layers, and a last layer scaled so that a softmax is not
saturated. The input of the softmax is a second output, so that a comparison sees more than a
one-hot vector. Layers are called as their weights are: ``res2_0_branch2b``. The same seed gives the
same file::

    python -m experiments.networks.twins FOLDER --batch 8 --only resnet50 vgg19
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnx.backend.test
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

NAMES = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)

Floats = npt.NDArray[np.floating]
MARGIN = 1e-3
"""Added to a measured variance, so that a channel that is always zero does not divide by it."""

_PASS_THROUGH = ("Unsqueeze", "Reshape", "Identity")


def load_light(name: str) -> onnx.ModelProto:
    """Return the light model *name* (one of :data:`NAMES`) as the ``onnx`` package ships it."""
    folder = Path(onnx.backend.test.__file__).parent / "data" / "light"
    return onnx.load(folder / f"light_{name}.onnx")


def make_twin(name: str, batch: int = 1, seed: int = 0) -> onnx.ModelProto:
    """Return the twin of the light model *name* for inputs of *batch* images."""
    model = load_light(name)
    _name_layers(model.graph)
    _randomize(model, batch, np.random.default_rng(seed))
    _calibrate(model, np.random.default_rng(seed + 1))
    return model


def _name_layers(graph: onnx.GraphProto) -> None:
    """Call each node with weights after them: ``gpu_0/conv1_w_0`` makes ``conv1``."""
    for node in graph.node:
        weights = [name for name in node.input if name.endswith(("_w_0", "_bn_s_0"))]
        if weights:
            name = weights[0].removeprefix("gpu_0/")
            node.name = name.removesuffix("_w_0").removesuffix("_s_0")


def _randomize(model: onnx.ModelProto, batch: int, rng: np.random.Generator) -> None:
    """Replace each weight made by ConstantOfShape by a random initializer; set the batch size."""
    graph = model.graph
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    nodes, weights = [], []
    for node in graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in shapes:
            nodes.append(node)
            continue
        shape = tuple(int(size) for size in shapes[node.input[0]])
        value = _random_weight(*_role(graph, node.output[0]), shape, rng)
        weights.append(
            numpy_helper.from_array(value.astype(np.float32, copy=False), node.output[0])
        )
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    for tensor in kept:
        _set_reshape_batch(tensor, batch)
    stored = {tensor.name for tensor in [*kept, *weights]}
    inputs = [value for value in graph.input if value.name in used - stored]
    for value in [*inputs, *graph.output]:
        value.type.tensor_type.shape.dim[0].dim_value = batch
    model.CopyFrom(
        helper.make_model(
            helper.make_graph(nodes, graph.name, inputs, graph.output, [*kept, *weights]),
            opset_imports=model.opset_import,
            ir_version=max(model.ir_version, 4),  # from 4 on an initializer need not be an input
        )
    )


def _role(graph: onnx.GraphProto, name: str) -> tuple[str, int]:
    """Return the operator that reads *name*, looking through reshapes, and at which place."""
    for node in graph.node:
        for place, operand in enumerate(node.input):
            if operand == name:
                if node.op_type in _PASS_THROUGH:
                    return _role(graph, node.output[0])
                return node.op_type, place
    return "", 0


def _random_weight(
    operator: str, place: int, shape: tuple[int, ...], rng: np.random.Generator
) -> Floats:
    match operator, place:
        case "BatchNormalization", 2:
            return _normal(rng, 0.2, shape)
        case "BatchNormalization", 3:
            return np.zeros(shape, np.float32)
        case "BatchNormalization", 4:
            return np.ones(shape, np.float32)
        case (("BatchNormalization" | "Mul"), _):
            return rng.uniform(0.6, 1.4, shape)
        case "Conv", 1:
            return _normal(rng, np.sqrt(2 / np.prod(shape[1:])), shape)
        case "Gemm", 1:
            return _normal(rng, np.sqrt(2 / max(shape)), shape)
        case _:
            return _normal(rng, 0.05, shape)


def _normal(rng: np.random.Generator, deviation: float, shape: tuple[int, ...]) -> Floats:
    """Return normal numbers in single precision, which takes half the time and memory."""
    numbers = rng.standard_normal(shape, np.float32)
    numbers *= np.float32(deviation)
    return numbers


def _set_reshape_batch(tensor: onnx.TensorProto, batch: int) -> None:
    """Put *batch* in front if *tensor* is the target shape of a Reshape made for one image."""
    value = numpy_helper.to_array(tensor)
    is_shape = tensor.data_type == TensorProto.INT64 and value.ndim == 1 and value.size > 1
    if is_shape and value[0] == 1:
        target = np.array([batch, *value[1:]], np.int64)
        tensor.CopyFrom(numpy_helper.from_array(target, tensor.name))


def _calibrate(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Set the statistics of every batch normalization, then give the logits unit variance."""
    shapes = {
        value.name: [size.dim_value for size in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }
    feeds = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    softmax = next((n for n in reversed(model.graph.node) if n.op_type == "Softmax"), None)
    logits = softmax.input[0] if softmax else model.graph.output[0].name
    measured = _run(_measuring_probe(model, logits), feeds)
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for name, value in measured.items():
        if name != logits:
            _put(tensors[name], value.reshape(-1))
    producers = {output: node for node in model.graph.node for output in node.output}
    last = producers[logits]
    while last.op_type not in ("Gemm", "Conv"):
        last = producers[last.input[0]]
    deviation = float(measured[logits].std()) or 1.0
    for operand in last.input[1:]:
        name = operand
        while name not in tensors:  # a weight may pass through a Reshape first
            name = producers[name].input[0]
        _put(tensors[name], numpy_helper.to_array(tensors[name]) / deviation)
    if softmax:
        model.graph.output.append(helper.make_tensor_value_info(logits, TensorProto.FLOAT, None))


def _put(tensor: onnx.TensorProto, value: npt.NDArray[np.generic]) -> None:
    tensor.CopyFrom(numpy_helper.from_array(value.astype(np.float32, copy=False), tensor.name))


def _measuring_probe(model: onnx.ModelProto, logits: str) -> onnx.ModelProto:
    """Return *model* with batch normalizations that compute their statistics from the batch.

    They and *logits* are its outputs, the statistics under the names of the tensors that hold them.
    """
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    replaced: set[str] = set()
    added: list[onnx.TensorProto] = []
    outputs = [logits]
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if node.op_type != "BatchNormalization":
            nodes.append(node)
            continue
        scale, bias, mean, variance = node.input[1:5]
        for name in (scale, bias):
            column = numpy_helper.to_array(tensors[name]).reshape(1, -1, 1, 1)
            added.append(numpy_helper.from_array(column, f"{name}:column"))
        nodes += _normalize_by_batch(node, f"{scale}:column", f"{bias}:column")
        outputs += [mean, variance]
        replaced |= {mean, variance}
    added.append(numpy_helper.from_array(np.array(MARGIN, np.float32), ":margin"))
    kept = [tensor for name, tensor in tensors.items() if name not in replaced]
    graph = helper.make_graph(
        nodes,
        "probe",
        model.graph.input,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [*kept, *added],
    )
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def _normalize_by_batch(node: onnx.NodeProto, scale: str, bias: str) -> list[onnx.NodeProto]:
    """Return ``(x - mean) / sqrt(variance) * scale + bias`` with the statistics of the batch."""
    x, mean, variance, y = node.input[0], node.input[3], node.input[4], node.output[0]
    axes = [0, 2, 3]
    return [
        helper.make_node("ReduceMean", [x], [mean], axes=axes),
        helper.make_node("Sub", [x, mean], [f"{y}:centred"]),
        helper.make_node("Mul", [f"{y}:centred", f"{y}:centred"], [f"{y}:squares"]),
        helper.make_node("ReduceMean", [f"{y}:squares"], [f"{y}:spread"], axes=axes),
        helper.make_node("Add", [f"{y}:spread", ":margin"], [variance]),
        helper.make_node("Sqrt", [variance], [f"{y}:deviation"]),
        helper.make_node("Div", [f"{y}:centred", f"{y}:deviation"], [f"{y}:normal"]),
        helper.make_node("Mul", [f"{y}:normal", scale], [f"{y}:scaled"]),
        helper.make_node("Add", [f"{y}:scaled", bias], [y]),
    ]


def _run(model: onnx.ModelProto, feeds: dict[str, Floats]) -> dict[str, Floats]:
    """Return all outputs of *model*, computed by ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def main() -> None:
    """Write the twins as ONNX files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.only:
        path = arguments.folder / f"{name}_b{arguments.batch}.onnx"
        onnx.save(make_twin(name, arguments.batch, arguments.seed), path)
        print(path, flush=True)


if __name__ == "__main__":
    main()
