"""Random nodes that multiply matrices, transform signals, or step through sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.property.onnx_draws.drawing import BYTES, FLOATS, Drawing, Shape, recipe
from tests.property.onnx_draws.reference import RefusedError
from tests.unit.formats.onnx.importer.models import value


def _right(g: Drawing, x: str, columns: int) -> Shape:
    """Return the shape of a right operand for matrix product with *x*, batches broadcasting."""
    *batch, _, inner = (1, *g.shape_of(x)) if g.rank_of(x) == 1 else g.shape_of(x)
    if g.chance(0.15):
        return (inner,)
    kept = [n if g.chance(0.7) else 1 for n in batch]
    return (*kept[g.whole(0, len(kept)) :], inner, columns)


def _require_inner(g: Drawing, x: str) -> None:
    """What ONNX Runtime gives for products of integers without any terms was never written."""
    if not g.shape_of(x)[-1] and g.kind_of(x) not in FLOATS:
        raise RefusedError


@recipe("MatMul")
def product(g: Drawing, op: str) -> None:
    x = g.tensor((*FLOATS, "int32"), (1, 2, 2, 3, 4))
    _require_inner(g, x)
    g.add(op, [x, g.like(x, _right(g, x, g.whole(1, 5)))])


@recipe("Gemm")
def gemm(g: Drawing, op: str) -> None:
    a = g.tensor(ranks=(2,))
    if 0 in g.shape_of(a):  # without terms, ONNX Runtime forgets beta
        raise RefusedError
    flags = g.some(transA=g.whole(0, 1), transB=g.whole(0, 1))
    rows, inner = g.shape_of(a)[:: -1 if flags.get("transA") else 1]
    columns = g.whole(1, 5)
    b = g.like(a, (columns, inner) if flags.get("transB") else (inner, columns))
    shape = g.one_of((rows, columns), (columns,), (1, columns), (rows, 1), ())
    addend = [g.like(a, shape)] if g.chance(0.7) else []
    g.add(op, [a, b, *addend], **flags, **g.some(alpha=g.number(-2, 2), beta=g.number(-2, 2)))


@recipe("MatMulInteger")
def integer_product(g: Drawing, op: str) -> None:
    x = g.tensor(BYTES, (2, 3))
    _require_inner(g, x)
    inner = g.shape_of(x)[-1]
    y = g.tensor(BYTES, shape=(*g.shape_of(x)[:-2], inner, g.whole(1, 4)))
    zeros = [g.fresh(g.array(g.kind_of(each), ())) for each in (x, y)]
    g.add(op, [x, y, *zeros[: g.whole(0, 2)]])


@recipe("QLinearMatMul")
def quantized_product(g: Drawing, op: str) -> None:
    x = g.tensor(("uint8",), (2, 3))
    _require_inner(g, x)
    shape = (*g.shape_of(x)[:-2], g.shape_of(x)[-1], g.whole(1, 4))
    y = g.fresh(g.array("uint8", shape), is_fed=False)
    parameters = []
    for _ in range(3):
        scale = g.fresh(g.array("float32", (), 0.02, 0.2), is_fed=False)
        parameters.append([scale, g.fresh(g.array("uint8", (), 0, 4), is_fed=False)])
    g.add(op, [x, *parameters[0], y, *parameters[1], *parameters[2]])


@recipe("Einsum")
def einsum(g: Drawing, op: str) -> None:
    n = {letter: g.source.choice(g.sizes) for letter in "ijklb"}
    equation = g.one_of(
        "ij,jk->ik",
        "bij,bjk->bik",
        "ij->ji",
        "ij->",
        "ij,ij->i",
        "ijk,kl->ijl",
        "i,j->ij",
        "ii->i",
        "bij,bkj->bik",
        "...ij,jk->...ik",
        "ij,kj",
    )
    texts = equation.split("->")[0].split(",")
    operands = [
        g.tensor(("float32", "float64"), shape=tuple(n[c] for c in t.replace("...", "b")))
        for t in texts
    ]
    kind = g.kind_of(operands[0])
    if any(g.kind_of(each) != kind for each in operands):
        operands = [g.fresh(g.array(kind, g.shape_of(each))) for each in operands]
    g.add(op, operands, equation=equation)


@recipe("Det")
def determinant(g: Drawing, op: str) -> None:
    n = g.whole(1, 4)
    g.add(op, [g.tensor(("float32",), shape=(*g.shape((0, 1, 2)), n, n))])


@recipe("DFT")
def fourier(g: Drawing, op: str) -> None:
    parts = g.whole(1, 2)
    shape = (g.whole(1, 2), g.whole(1, 6), g.whole(1, 6), parts)
    x = g.tensor(("float32",), shape=shape)  # float64 is as inexact in ONNX Runtime
    options = g.some(inverse=g.whole(0, 1))
    if parts == 1 and not options.get("inverse"):
        options |= g.some(onesided=g.whole(0, 1))
    axis = g.whole(1, 2)
    length = g.known_scalar(g.whole(1, 8), "int64") if g.chance(0.4) else ""
    if g.opset >= 20:
        g.add(op, [x, length, g.known_scalar(axis, "int64")], **options)
    else:
        g.add(op, [x, *([length] if length else [])], axis=axis, **options)


@recipe("STFT")
def short_fourier(g: Drawing, op: str) -> None:
    x = g.tensor(("float32",), shape=(g.whole(1, 2), g.whole(8, 16), 1))
    frame = g.whole(2, 6)
    step = g.known_scalar(g.whole(1, 4), "int64")
    window = g.fresh(g.array("float32", (frame,)), is_fed=False)
    length = [g.known_scalar(frame, "int64")] if g.chance() else []
    g.add(op, [x, step, window, *length], **g.some(onesided=g.whole(0, 1)))


@recipe("MelWeightMatrix")
def mel_weights(g: Drawing, op: str) -> None:
    whole = [g.known_scalar(n, "int64") for n in (g.whole(2, 6), g.whole(8, 32), 8192)]
    g.add(op, [*whole, *(g.known_scalar(n, "float32") for n in (0.0, 4000.0))])


_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
_ALPHAS = ("Affine", "Elu", "HardSigmoid", "LeakyRelu", "ScaledTanh")
_BETAS = ("Affine", "HardSigmoid", "ScaledTanh")
_ACTIVATIONS = (*_ALPHAS, "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")
"""Those without a jump."""


def _activations(g: Drawing, count: int) -> dict[str, Any]:
    """Return *count* functions, with a number for each that takes one."""
    names = [g.one_of(*_ACTIVATIONS) for _ in range(count)]
    found: dict[str, Any] = {"activations": names}
    for attribute, takers in (("activation_alpha", _ALPHAS), ("activation_beta", _BETAS)):
        given = [g.number(0.2, 0.9) for name in names if name in takers]
        found |= {attribute: given} if given else {}
    return found


@recipe("RNN", "GRU", "LSTM")
def recurrent(g: Drawing, op: str) -> None:
    steps, batch, inner, hidden = (g.whole(1, 4) for _ in range(4))
    direction = g.one_of("forward", "reverse", "bidirectional")
    directions, gates = 1 + (direction == "bidirectional"), _GATES[op]
    operands = [
        g.tensor(("float32",), shape=(steps, batch, inner)),
        g.fresh(g.array("float32", (directions, gates * hidden, inner), -1, 1)),
        g.fresh(g.array("float32", (directions, gates * hidden, hidden), -1, 1)),
    ]
    lengths = g.numbers.integers(1, steps + 1, batch).astype(np.int32)
    state = (directions, batch, hidden)
    rest = [
        g.fresh(g.array("float32", (directions, 2 * gates * hidden), -1, 1)),
        g.fresh(lengths),
        g.fresh(g.array("float32", state, -1, 1)),
    ]
    if op == "LSTM":
        rest += [
            g.fresh(g.array("float32", state, -1, 1)),
            g.fresh(g.array("float32", (directions, 3 * hidden), -1, 1)),
        ]
    operands += [name if g.chance() else "" for name in rest]
    options: dict[str, Any] = {}
    if op != "LSTM":  # ONNX Runtime does not clip the cell's state
        options |= g.some(clip=g.number(0.5, 2))
    if op == "GRU":
        options |= g.some(linear_before_reset=g.whole(0, 1))
    if op == "LSTM":
        options |= g.some(input_forget=g.whole(0, 1))
    if g.chance():
        options |= _activations(g, directions * _FUNCTIONS[op])
    g.add(
        op, operands, 3 if op == "LSTM" else 2, hidden_size=hidden, direction=direction, **options
    )


def _graph(nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[Any]) -> onnx.GraphProto:
    return helper.make_graph(nodes, "body", inputs, outputs)


@recipe("If")
def branches(g: Drawing, op: str) -> None:
    names = [f"{g.source.getrandbits(60):x}" for _ in range(2)]
    bodies = []
    for name, number in zip(names, (1.5, -2.0), strict=True):
        tensor = helper.make_tensor("c", TensorProto.FLOAT, (2,), [number, number + 1])
        node = helper.make_node("Constant", [], [name], value=tensor)
        bodies.append(_graph([node], [], [value(name, (2,))]))
    condition = g.fresh(np.array(g.chance()), is_fed=False)
    g.add(op, [condition], then_branch=bodies[0], else_branch=bodies[1])


@recipe("Loop")
def loop(g: Drawing, op: str) -> None:
    x = g.tensor(("float32",))
    p = f"{g.source.getrandbits(60):x}"
    shape = g.shape_of(x)
    nodes = [
        helper.make_node("Identity", [p + "c"], [p + "d"]),
        helper.make_node(g.one_of("Relu", "Neg", "Tanh"), [p + "x"], [p + "y"]),
        helper.make_node("Abs", [p + "x"], [p + "z"]),
    ]
    inputs = [value(p + "i", (), TensorProto.INT64), value(p + "c", (), TensorProto.BOOL)]
    outputs = [value(p + "d", (), TensorProto.BOOL), value(p + "y", shape), value(p + "z", shape)]
    body = _graph(nodes, [*inputs, value(p + "x", shape)], outputs)
    count, going = g.known_scalar(g.whole(1, 4), "int64"), g.fresh(np.array(True), is_fed=False)
    g.add(op, [count, going, x], 2, body=body)


@recipe("Scan")
def scan(g: Drawing, op: str) -> None:
    x = g.tensor(("float32",), (2, 3))
    rest = g.shape_of(x)[1:]
    state = g.tensor(("float32",), shape=tuple(rest))
    p = f"{g.source.getrandbits(60):x}"
    nodes = [
        helper.make_node("Add", [p + "s", p + "x"], [p + "t"]),
        helper.make_node("Tanh", [p + "t"], [p + "y"]),
    ]
    ends = [[value(p + n, rest) for n in names] for names in ("sx", "ty")]
    options = g.some(scan_input_directions=[g.whole(0, 1)], scan_output_directions=[g.whole(0, 1)])
    g.add(op, [state, x], 2, num_scan_inputs=1, body=_graph(nodes, *ends), **options)
