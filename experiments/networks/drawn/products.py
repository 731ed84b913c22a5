"""Matrix products, attention, recurrent layers."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from experiments.networks.drawn.drawing import Drawing, kind


@kind
def linear_layer(g: Drawing) -> str:
    rows, inner, columns = g.whole(8, 256), g.whole(32, 768), g.whole(32, 768)
    x, bias = g.input(rows, inner), g.constant(g.array(columns))
    return str(g.node("Gemm", x, g.weights(columns, inner, sums=inner), bias, transB=1))


@kind
def linear_layer_of_few_rows(g: Drawing) -> str:
    rows, inner, columns = g.whole(1, 4), g.whole(128, 1024), g.whole(128, 1024)
    weights = g.weights(inner, columns, sums=inner)
    return str(g.node("Add", g.node("MatMul", g.input(rows, inner), weights), g.input(columns)))


@kind
def product_of_two_inputs(g: Drawing) -> str:
    rows, inner, columns = (g.whole(16, 320) for _ in range(3))
    return str(g.node("MatMul", g.input(rows, inner), g.input(inner, columns)))


@kind
def batched_product(g: Drawing) -> str:
    batch, rows, inner, columns = g.whole(2, 32), *(g.whole(8, 128) for _ in range(3))
    return str(g.node("MatMul", g.input(batch, rows, inner), g.input(batch, inner, columns)))


@kind
def product_in_float64(g: Drawing) -> str:
    rows, inner, columns = (g.whole(16, 256) for _ in range(3))
    x, y = g.input(rows, inner, kind="float64"), g.input(inner, columns, kind="float64")
    return str(g.node("MatMul", x, y))


@kind
def product_in_float16(g: Drawing) -> str:
    rows, inner, columns = (g.whole(16, 256) for _ in range(3))
    weights = g.weights(inner, columns, sums=inner, kind="float16")
    return str(g.node("MatMul", g.input(rows, inner, kind="float16"), weights))


@kind
def einsum(g: Drawing) -> str:
    a, b, c, d = (g.whole(4, 48) for _ in range(4))
    equation, first, second = g.one_of(
        ("bhqd,bhkd->bhqk", (2, a, b, c), (2, a, d, c)),
        ("abc,cd->abd", (a, b, c), (c, d)),
        ("abc,abd->acd", (a, b, c), (a, b, d)),
        ("ab,ac->abc", (8 * a, b), (8 * a, c)),
    )
    return str(g.node("Einsum", g.input(*first), g.input(*second), equation=equation))


@kind
def weights_of_four_bits(g: Drawing) -> str:
    rows, inner, columns = g.whole(1, 64), 32 * g.whole(4, 32), g.whole(64, 768)
    codes = g.numbers.integers(-8, 8, (inner, columns))
    weights = helper.make_tensor("", TensorProto.INT4, codes.shape, codes.ravel().tolist())
    scale = g.constant(g.numbers.uniform(0.01, 0.1, (inner // 32, columns)).astype(np.float32))
    stored = g.tensor(weights, f"int4[{inner} x {columns}]")
    numbers = g.node("DequantizeLinear", stored, scale, axis=0, block_size=32)
    return str(g.node("MatMul", g.input(rows, inner), numbers))


@kind
def weights_of_eight_bits(g: Drawing) -> str:
    rows, inner, columns = g.whole(1, 64), g.whole(128, 1024), g.whole(64, 768)
    codes = g.constant(g.array(inner, columns, kind="int8"))
    scale = g.constant(g.numbers.uniform(0.001, 0.01, columns).astype(np.float32))
    numbers = g.node("DequantizeLinear", codes, scale, axis=1)
    return str(g.node("MatMul", g.input(rows, inner), numbers))


@kind
def attention(g: Drawing) -> str:
    heads, tokens, depth = g.whole(2, 12), g.whole(16, 197), g.one_of(32, 48, 64, 80)
    query, key, value = (g.input(1, heads, tokens, depth) for _ in range(3))
    key = g.node("Transpose", key, perm=[0, 1, 3, 2])
    scale = g.constant(np.array(depth**-0.5, np.float32))
    scores = g.node("Mul", g.node("MatMul", query, key), scale)
    if g.chance():
        scores = g.node("Add", scores, g.input(1, 1, tokens, tokens))
    return str(g.node("MatMul", g.node("Softmax", scores, axis=-1), value))


@kind
def attention_of_one_query(g: Drawing) -> str:
    heads, keys, depth = g.whole(4, 16), g.whole(64, 1024), g.one_of(32, 64, 128)
    query = g.input(1, heads, 1, depth)
    key, value = (g.input(1, heads, keys, depth) for _ in range(2))
    scores = g.node("MatMul", query, g.node("Transpose", key, perm=[0, 1, 3, 2]))
    return str(g.node("MatMul", g.node("Softmax", scores, axis=-1), value))


@kind
def feed_forward(g: Drawing) -> str:
    """The second half of a layer of an encoder."""
    tokens, width = g.whole(16, 128), g.whole(64, 256)
    x = g.input(tokens, width)
    ones = g.constant(np.ones(width, np.float32)), g.constant(np.zeros(width, np.float32))
    y = g.node("LayerNormalization", x, *ones, axis=-1)
    y = g.node("MatMul", y, g.weights(width, 4 * width, sums=width))
    y = g.node("Gelu", y)
    return str(g.node("Add", x, g.node("MatMul", y, g.weights(4 * width, width, sums=4 * width))))


def _recurrent(g: Drawing, operator: str, gates: int) -> list[str]:
    steps, batch, inputs = g.whole(4, 48), g.whole(1, 8), g.whole(16, 128)
    hidden, directions = g.whole(16, 192), g.one_of(1, 1, 2)
    weights = [g.weights(directions, gates * hidden, size, sums=size) for size in (inputs, hidden)]
    bias = g.constant(g.array(directions, 2 * gates * hidden) * np.float32(0.1))
    direction = "bidirectional" if directions == 2 else g.one_of("forward", "reverse")
    x = g.input(steps, batch, inputs)
    return list(
        g.node(operator, x, *weights, bias, results=2, hidden_size=hidden, direction=direction)
    )


@kind
def lstm(g: Drawing) -> list[str]:
    return _recurrent(g, "LSTM", 4)


@kind
def gru(g: Drawing) -> list[str]:
    return _recurrent(g, "GRU", 3)


@kind
def recurrent_layer(g: Drawing) -> list[str]:
    return _recurrent(g, "RNN", 1)


@kind
def fourier_transform(g: Drawing) -> str:
    length, batch = g.one_of(g.whole(16, 2048), 2 ** g.whole(4, 11)), g.whole(1, 16)
    real = g.chance()
    x = g.input(batch, length, 1 if real else 2)
    return str(g.node("DFT", x, "", g.constant(np.array(1)), onesided=int(real)))


@kind
def short_time_fourier_transform(g: Drawing) -> str:
    length = g.one_of(128, 256, 400, 512)
    x = g.input(1, length * g.whole(4, 16), 1)
    window = g.constant(np.hanning(length).astype(np.float32))
    step, frame = (g.constant(np.array(n)) for n in (length // g.one_of(2, 4), length))
    return str(g.node("STFT", x, step, window, frame))
