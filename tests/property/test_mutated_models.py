"""Damaged models: whatever is done to a file, the importer raises one of our errors or works.

What still imports is run, by ``evaluate`` and on the interpreter, and must agree.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import glow_nb
from glow_nb.base.errors import GlowError
from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from tests.unit.formats.onnx.importer.models import model, one, value, weight

FLOATS = np.linspace(-1, 1, 256, dtype=np.float32)
NUMBERS = (0, -1, 1, 2, 3, 7, -2, 100, 1 << 31, 1 << 40, -(1 << 63), (1 << 63) - 1)
MAX_ELEMENTS = 20_000


def floats(*shape: int) -> Array:
    return np.resize(FLOATS, shape)


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def corpus() -> list[onnx.ModelProto]:
    """Return models that between them use every kind of rule."""
    image = [value("x", (1, 4, 6, 6))]
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "b", [], [value("b")])
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "x"], ["t"]),
            helper.make_node("Identity", ["c"], ["d"]),
            helper.make_node("Identity", ["t"], ["u"]),
        ],
        "body",
        [value("i", (), TensorProto.INT64), value("c", (), TensorProto.BOOL), value("s")],
        [value("d", (), TensorProto.BOOL), value("t"), value("u")],
    )
    chain = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "i"], ["n"]),
        helper.make_node("Concat", ["n", "m"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["r"]),
        helper.make_node("Softmax", ["r"], ["y"], axis=-1),
    ]
    net = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], group=2),
        helper.make_node("BatchNormalization", ["c", "b", "b", "b", "v"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        helper.make_node("GlobalAveragePool", ["p"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "h", "k"], ["y"], transB=1),
    ]
    filters = [
        weight("w", floats(4, 2, 3, 3)),
        weight("b", floats(4)),
        weight("v", np.abs(floats(4))),
    ]
    ranges = {
        name: weight(name, ints(*n)) for name, n in {"a": (1,), "e": (5,), "z": (-1,)}.items()
    }
    return [
        model(net, image, weights=[*filters, weight("h", floats(3, 4)), weight("k", floats(3))]),
        model(chain, weights=[weight("i", ints(0)), weight("m", ints(-1))]),
        model(
            [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)],
            [value("x"), value("c", (), TensorProto.BOOL)],
        ),
        model(
            [helper.make_node("Loop", ["n", "", "x"], ["y", "z"], body=body)],
            outputs=("y", "z"),
            weights=[weight("n", np.array(3))],
        ),
        one(
            "MatMul",
            ("x", "w"),
            inputs=[value("x", (2, 4, 3))],
            weights=[weight("w", floats(3, 5))],
        ),
        one("Slice", ("x", "a", "e", "z"), inputs=image, weights=list(ranges.values())),
        one("Pad", ("x", "p"), weights=[weight("p", ints(1, 0, 2, 1))], mode="edge"),
        one("Split", ("x", "p"), weights=[weight("p", ints(1, 2))], outputs=("y", "z"), axis=1),
        one(
            "Where",
            ("c", "x", "w"),
            weights=[weight("c", np.eye(2, 3) > 0), weight("w", floats(1))],
        ),
        one("TopK", ("x", "a"), weights=[ranges["a"]], outputs=("y", "i")),
        one(
            "Resize",
            ("x", "", "f"),
            inputs=image,
            weights=[weight("f", floats(4) + 2)],
            mode="linear",
        ),
        one(
            "ConvTranspose", ("x", "w"), inputs=image, weights=filters[:1], strides=[2, 2], group=2
        ),
        one("Einsum", ("x", "x"), equation="ij,kj->ik"),
        one("LayerNormalization", ("x", "w"), weights=[weight("w", floats(3))]),
        one("AveragePool", inputs=image, kernel_shape=[2, 3], auto_pad="SAME_LOWER"),
        one(
            "LSTM",
            ("x", "w", "r"),
            inputs=[value("x", (2, 1, 3))],
            outputs=("a", "y"),
            hidden_size=2,
            weights=[weight("w", floats(1, 8, 3)), weight("r", floats(1, 8, 2))],
        ),
        one(
            "QuantizeLinear",
            ("x", "s", "z"),
            weights=[weight("s", np.float32(0.1)), weight("z", np.int8(3))],
        ),
        one(
            "GroupNormalization",
            ("x", "b", "b"),
            opset=21,
            inputs=image,
            weights=filters[1:2],
            num_groups=2,
        ),
        one("ReduceLogSumExp", axes=[1], keepdims=0),
        one("Clip", ("x", "", "w"), weights=[weight("w", np.float32(0.5))]),
    ]


CORPUS = corpus()
OPERATORS = sorted({node.op_type for proto in CORPUS for node in proto.graph.node})


def mutate_attribute(proto: onnx.ModelProto, source: random.Random) -> None:
    node = source.choice(proto.graph.node)
    if not node.attribute:
        return
    attribute = source.choice(node.attribute)
    if attribute.ints:
        place = source.randrange(len(attribute.ints))
        attribute.ints[place] = source.choice(NUMBERS)
        if source.random() < 0.3:
            del attribute.ints[place]
    attribute.i = source.choice(NUMBERS)
    attribute.f = source.choice([0.0, float("nan"), float("inf"), -1e30])
    attribute.s = source.choice([b"", b"x\xff", b"SAME_UPPER", b"ii->i", b"nearest"])
    if source.random() < 0.1:
        attribute.name = "strange"


def mutate_operands(proto: onnx.ModelProto, source: random.Random) -> None:
    node = source.choice(proto.graph.node)
    names = ["", "nothing", *node.input, *node.output]
    if node.input and source.random() < 0.7:
        node.input[source.randrange(len(node.input))] = source.choice(names)
    elif node.input and source.random() < 0.5:
        del node.input[source.randrange(len(node.input))]
    else:
        node.output.append(source.choice([*names, "more"]))


def mutate_operator(proto: onnx.ModelProto, source: random.Random) -> None:
    source.choice(proto.graph.node).op_type = source.choice(OPERATORS)


def mutate_inputs(proto: onnx.ModelProto, source: random.Random) -> None:
    tensor = source.choice(proto.graph.input).type.tensor_type
    dims = tensor.shape.dim
    choice = source.randrange(4)
    if choice == 0:
        tensor.elem_type = source.randrange(25)
    elif choice == 1:
        dims.add().dim_value = source.choice(NUMBERS)
    elif dims and choice == 2:
        del dims[source.randrange(len(dims))]
    elif dims:
        dims[source.randrange(len(dims))].dim_value = source.choice(NUMBERS)


def mutate_weights(proto: onnx.ModelProto, source: random.Random) -> None:
    if not proto.graph.initializer:
        return
    tensor = source.choice(proto.graph.initializer)
    choice = source.randrange(3)
    if choice == 0:
        tensor.data_type = source.randrange(25)
    elif choice == 1 and tensor.dims:
        tensor.dims[source.randrange(len(tensor.dims))] = source.choice(NUMBERS)
    elif tensor.data_type in (TensorProto.FLOAT, TensorProto.INT64):
        # Numbers of wild size would part by cancellation what rewriting may reorder.
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        numbers = [source.choice([0, 1, -1, 2, 3, 5, -7]) for _ in range(100)]
        count = len(tensor.raw_data) // dtype.itemsize
        tensor.raw_data = np.resize(numbers, count).astype(dtype).tobytes()


def mutate_header(proto: onnx.ModelProto, source: random.Random) -> None:
    proto.opset_import[0].version = source.randrange(5, 30)


MUTATIONS: list[Callable[[onnx.ModelProto, random.Random], None]] = [
    mutate_attribute,
    mutate_operands,
    mutate_operator,
    mutate_inputs,
    mutate_weights,
    mutate_header,
]


def mutant(index: int, seed: int) -> onnx.ModelProto:
    """Return a model of the corpus with one to three things changed."""
    source = random.Random(seed)
    proto = onnx.ModelProto()
    proto.CopyFrom(CORPUS[index])
    for _ in range(source.randint(1, 3)):
        source.choice(MUTATIONS)(proto, source)
    return proto


def imported(source: onnx.ModelProto | bytes) -> Function | None:
    """Return what *source* is as a function, None if it is refused."""
    try:
        return import_onnx(source)
    except GlowError as error:
        assert str(error)
        return None


@pytest.mark.parametrize("proto", CORPUS, ids=lambda proto: proto.graph.node[0].op_type)
def test_corpus_is_sound(proto: onnx.ModelProto) -> None:
    assert import_onnx(proto).nodes


INDEX = st.integers(0, len(CORPUS) - 1)
SEED = st.integers(0, 1 << 32)


@settings(max_examples=10 * settings().max_examples)
@given(INDEX, SEED)
def test_changed_model_is_refused_or_runs(index: int, seed: int) -> None:
    function = imported(mutant(index, seed))
    if function is None:
        return
    if max(value.type.size for value in (*function.inputs, *function.nodes)) > MAX_ELEMENTS:
        return
    feeds = {p.name: np.ones(p.type.shape).astype(p.type.kind.dtype) for p in function.inputs}
    expected = evaluate(function, feeds)
    try:
        results = glow_nb.compile(function, backend="interpreter").run(feeds)
    except GlowError as error:
        assert str(error)
        return
    for name, result in results.items():
        np.testing.assert_allclose(
            result.astype(np.float64), expected[name].astype(np.float64), rtol=1e-3, atol=1e-3
        )


@settings(max_examples=10 * settings().max_examples)
@given(INDEX, SEED)
def test_damaged_bytes_are_refused_or_import(index: int, seed: int) -> None:
    source = random.Random(seed)
    damaged = bytearray(CORPUS[index].SerializeToString())
    for _ in range(source.randint(1, 4)):
        damaged[source.randrange(len(damaged))] = source.randrange(256)
    imported(bytes(damaged))
