"""Networks whose sizes are open, written as exporters write them: shapes are computed in the graph.

An encoder like BERT (arXiv 1810.04805) over any number of sequences of any length, and a decoder
like GPT-2 whose keys and values grow by a token a step. Weights are random and seeded. They are
written to a folder::

    python -m experiments.networks.open_sizes FOLDER --only small_encoder
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from experiments.networks.layers import main as write_networks

Dimensions = Sequence[int | str]
VOCABULARY = 1000
LONGEST = 1024
NEVER = -10000.0
"""What is added to the score of a token that is not to be seen."""


@dataclass
class Model:
    """An ONNX model under construction; values are names.

    Attributes:
        heads: Heads of the attention.
        depth: Channels of a head.
    """

    heads: int
    depth: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    outputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    @property
    def width(self) -> int:
        """Channels of a token."""
        return self.heads * self.depth

    def input(self, name: str, kind: int, shape: Dimensions) -> str:
        """Declare an input; return its name."""
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, value: str, name: str, shape: Dimensions) -> None:
        """Let *value* be an output."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def emit(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one result; return its name."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, array: Any) -> str:
        """Return the name of a constant."""
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def whole(self, *numbers: int) -> str:
        """Return an ``int64`` vector."""
        return self.constant(np.array(numbers, np.int64))

    def number(self, number: float) -> str:
        """Return a ``float32`` constant."""
        return self.constant(np.float32(number))

    def random_weights(self, *shape: int) -> str:
        """Return random weights for sums over the first dimension."""
        numbers = self.random.standard_normal(shape, np.float32)
        return self.constant(numbers * np.float32(1 / sqrt(shape[0])))

    def size(self, value: str, axis: int) -> str:
        """Return one size of *value* as a vector of one number, computed in the graph."""
        size = self.emit("Gather", self.emit("Shape", value), self.constant(np.int64(axis)), axis=0)
        return self.emit("Unsqueeze", size, self.whole(0))

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        """Return ``x @ w + b``."""
        product = self.emit("MatMul", x, self.random_weights(inputs, outputs))
        return self.emit("Add", product, self.random_weights(outputs))

    def normalized(self, x: str) -> str:
        """Return the layer normalization of *x*, in primitives."""
        mean = self.emit("ReduceMean", x, axes=[-1])
        centred = self.emit("Sub", x, mean)
        squares = self.emit("Pow", centred, self.number(2))
        variance = self.emit("Add", self.emit("ReduceMean", squares, axes=[-1]), self.number(1e-5))
        scaled = self.emit("Div", centred, self.emit("Sqrt", variance))
        scale = self.constant(1 + 0.1 * self.random.standard_normal(self.width).astype(np.float32))
        return self.emit("Add", self.emit("Mul", scaled, scale), self.random_weights(self.width))

    def gelu(self, x: str) -> str:
        """Return the GELU of *x* by the error function, in primitives."""
        error = self.emit("Erf", self.emit("Div", x, self.number(sqrt(2))))
        product = self.emit("Mul", x, self.emit("Add", error, self.number(1)))
        return self.emit("Mul", product, self.number(0.5))

    def split_heads(self, x: str, order: Sequence[int]) -> str:
        """Return *x* in heads, transposed; batch and length are computed in the graph."""
        sizes = [self.size(x, 0), self.size(x, 1), self.whole(self.heads), self.whole(self.depth)]
        split = self.emit("Reshape", x, self.emit("Concat", *sizes, axis=0))
        return self.emit("Transpose", split, perm=order)

    def joined_heads(self, x: str) -> str:
        """Return *x* with its heads side by side again."""
        moved = self.emit("Transpose", x, perm=[0, 2, 1, 3])
        sizes = [self.size(moved, 0), self.size(moved, 1), self.whole(self.width)]
        return self.emit("Reshape", moved, self.emit("Concat", *sizes, axis=0))

    def attention(self, queries: str, keys: str, values: str, mask: str) -> str:
        """Return the attention of heads, its *keys* transposed."""
        scores = self.emit("MatMul", queries, keys)
        scores = self.emit("Div", scores, self.number(sqrt(self.depth)))
        weights = self.emit("Softmax", self.emit("Add", scores, mask), axis=-1)
        return self.joined_heads(self.emit("MatMul", weights, values))

    def feed_forward(self, x: str) -> str:
        """Return the two dense layers behind an attention."""
        inner = self.gelu(self.dense(x, self.width, 4 * self.width))
        return self.dense(inner, 4 * self.width, self.width)

    def model(self, name: str) -> onnx.ModelProto:
        """Return the model."""
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def encoder(name: str, layers: int, heads: int, depth: int) -> onnx.ModelProto:
    """Return an encoder like BERT over ``batch`` sequences of ``length`` tokens."""
    model = Model(heads, depth)
    ids = model.input("input_ids", TensorProto.INT64, ["batch", "length"])
    seen = model.input("attention_mask", TensorProto.INT64, ["batch", "length"])
    float_mask = model.emit("Cast", model.emit("Unsqueeze", seen, model.whole(1, 2)), to=1)
    hidden = model.emit("Sub", model.number(1), float_mask)
    mask = model.emit("Mul", hidden, model.number(NEVER))
    places = model.constant(np.arange(LONGEST, dtype=np.int64)[None])
    length = model.size(ids, 1)
    place = model.emit("Slice", places, model.whole(0), length, model.whole(1))
    words = model.emit("Gather", model.random_weights(VOCABULARY, model.width), ids)
    positions = model.emit("Gather", model.random_weights(LONGEST, model.width), place)
    x = model.normalized(model.emit("Add", words, positions))
    for _ in range(layers):
        queries, keys, values = (model.dense(x, model.width, model.width) for _ in range(3))
        attended = model.attention(
            model.split_heads(queries, [0, 2, 1, 3]),
            model.split_heads(keys, [0, 2, 3, 1]),
            model.split_heads(values, [0, 2, 1, 3]),
            mask,
        )
        projected = model.dense(attended, model.width, model.width)
        x = model.normalized(model.emit("Add", projected, x))
        x = model.normalized(model.emit("Add", model.feed_forward(x), x))
    model.output(x, "hidden", ["batch", "length", model.width])
    return model.model(name)


def decoder_step(name: str, layers: int, heads: int, depth: int) -> onnx.ModelProto:
    """Return the step of a decoder for one token, whose ``past`` keys and values are fed."""
    model = Model(heads, depth)
    ids = model.input("input_ids", TensorProto.INT64, ["batch", 1])
    cache: Dimensions = ["batch", heads, "past", depth]
    pasts = [model.input(f"past_{n}", TensorProto.FLOAT, cache) for n in range(2 * layers)]
    place = model.size(pasts[0], 2)
    words = model.emit("Gather", model.random_weights(VOCABULARY, model.width), ids)
    positions = model.emit("Gather", model.random_weights(LONGEST, model.width), place)
    x = model.emit("Add", words, positions)
    nothing = model.constant(np.zeros((1, 1, 1, 1), np.float32))
    for layer in range(layers):
        normal = model.normalized(x)
        queries, keys, values = (model.dense(normal, model.width, model.width) for _ in range(3))
        known = []
        for which, new in enumerate((keys, values)):
            heads_of_new = model.split_heads(new, [0, 2, 1, 3])
            known.append(model.emit("Concat", pasts[2 * layer + which], heads_of_new, axis=2))
            grown: Dimensions = ["batch", heads, "past + 1", depth]
            model.output(known[-1], f"present_{2 * layer + which}", grown)
        turned = model.emit("Transpose", known[0], perm=[0, 1, 3, 2])
        heads_of_queries = model.split_heads(queries, [0, 2, 1, 3])
        attended = model.attention(heads_of_queries, turned, known[1], nothing)
        x = model.emit("Add", model.dense(attended, model.width, model.width), x)
        x = model.emit("Add", model.feed_forward(model.normalized(x)), x)
    logits = model.emit(
        "MatMul", model.normalized(x), model.random_weights(model.width, VOCABULARY)
    )
    model.output(logits, "logits", ["batch", 1, VOCABULARY])
    return model.model(name)


def grouped_decoder(
    name: str, layers: int, heads: int, groups: int, depth: int, *, tokens_first: bool = False
) -> onnx.ModelProto:
    """Return a decoder for any number of tokens behind ``past`` ones.

    Several heads of queries read one of the *groups* of keys, as in Llama 2 (arXiv 2307.09288).
    Positions and the causal mask are computed of sizes. Caches are ``batch x groups x past x
    depth``, or ``batch x past x groups x depth`` with *tokens_first*.
    """
    model = Model(heads, depth)
    ids = model.input("input_ids", TensorProto.INT64, ["batch", "length"])
    axis = 1 if tokens_first else 2

    def cache(rows: str) -> Dimensions:
        return ["batch", rows, groups, depth] if tokens_first else ["batch", groups, rows, depth]

    pasts = [
        model.input(f"past_key_values.{layer}.{which}", TensorProto.FLOAT, cache("past"))
        for layer in range(layers)
        for which in ("key", "value")
    ]
    zero = model.whole(0)
    past, length = model.size(pasts[0], axis), model.size(ids, 1)
    total = model.emit("Add", past, length)
    places = _range(model, past, total)
    words = model.emit("Gather", model.random_weights(VOCABULARY, model.width), ids)
    positions = model.emit("Gather", model.random_weights(LONGEST, model.width), places)
    x = model.emit("Add", words, positions)
    rows = model.emit("Unsqueeze", places, model.whole(1))
    is_seen = model.emit("LessOrEqual", _range(model, zero, total), rows)
    mask = model.emit("Where", is_seen, model.number(0), model.number(NEVER))
    mask = model.emit("Unsqueeze", mask, model.whole(0, 1))
    for layer in range(layers):
        normal = model.normalized(x)
        queries = model.dense(normal, model.width, model.width)
        known = []
        for which, kind in enumerate(("key", "value")):
            new = model.dense(normal, model.width, groups * depth)
            sizes = [model.size(new, 0), model.size(new, 1), model.whole(groups, depth)]
            new = model.emit("Reshape", new, model.emit("Concat", *sizes, axis=0))
            if not tokens_first:
                new = model.emit("Transpose", new, perm=[0, 2, 1, 3])
            both = model.emit("Concat", pasts[2 * layer + which], new, axis=axis)
            model.output(both, f"present.{layer}.{kind}", cache("past + length"))
            if tokens_first:
                both = model.emit("Transpose", both, perm=[0, 2, 1, 3])
            known.append(_repeated(model, both, heads // groups))
        keys = model.emit("Transpose", known[0], perm=[0, 1, 3, 2])
        attended = model.attention(model.split_heads(queries, [0, 2, 1, 3]), keys, known[1], mask)
        x = model.emit("Add", model.dense(attended, model.width, model.width), x)
        x = model.emit("Add", model.feed_forward(model.normalized(x)), x)
    logits = model.emit(
        "MatMul", model.normalized(x), model.random_weights(model.width, VOCABULARY)
    )
    model.output(logits, "logits", ["batch", "length", VOCABULARY])
    return model.model(name)


def _range(model: Model, start: str, end: str) -> str:
    """Return the whole numbers from *start* to *end*, vectors of one number."""
    scalars = [model.emit("Squeeze", size, model.whole(0)) for size in (start, end)]
    return model.emit("Range", *scalars, model.constant(np.int64(1)))


def _repeated(model: Model, x: str, times: int) -> str:
    """Return heads *x*, each *times* in a row."""
    if times == 1:
        return x
    batch, groups, length, depth = (model.size(x, axis) for axis in range(4))
    wide = model.emit("Concat", batch, groups, model.whole(times), length, depth, axis=0)
    spread = model.emit("Expand", model.emit("Unsqueeze", x, model.whole(2)), wide)
    heads = model.emit("Mul", groups, model.whole(times))
    return model.emit("Reshape", spread, model.emit("Concat", batch, heads, length, depth, axis=0))


def bert_base() -> onnx.ModelProto:
    """An encoder of the sizes of BERT-base."""
    return encoder("bert_base", 12, 12, 64)


def distilbert() -> onnx.ModelProto:
    """An encoder of the sizes of DistilBERT (arXiv 1910.01108)."""
    return encoder("distilbert", 6, 12, 64)


def small_encoder() -> onnx.ModelProto:
    """A small encoder, quickly compiled."""
    return encoder("small_encoder", 2, 4, 32)


def small_decoder() -> onnx.ModelProto:
    """The step of a small decoder."""
    return decoder_step("small_decoder", 4, 8, 64)


def small_grouped_decoder() -> onnx.ModelProto:
    """A small decoder of grouped queries."""
    return grouped_decoder("small_grouped_decoder", 4, 8, 2, 64)


NETWORKS: tuple[Callable[[], onnx.ModelProto], ...] = (
    bert_base,
    distilbert,
    small_encoder,
    small_decoder,
    small_grouped_decoder,
)

if __name__ == "__main__":
    write_networks(__doc__, NETWORKS)
