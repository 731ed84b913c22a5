"""Functions of single elements, and what changes their kind."""

from __future__ import annotations

import numpy as np

from experiments.networks.drawn.drawing import FLOATS, Drawing, kind
from glow_nb.base.types import Array


def _shape(g: Drawing) -> tuple[int, ...]:
    return (g.whole(4, 32), g.whole(32, 512), g.whole(16, 64))


def _positive(g: Drawing, shape: tuple[int, ...], kind: str = "float32") -> Array:
    return g.numbers.uniform(0.1, 4, shape).astype(kind)


def _unary(g: Drawing, kind: str, *operators: str) -> str:
    return str(g.node(g.one_of(*operators), g.input(*_shape(g), kind=kind)))


@kind
def cast_float_to_integer(g: Drawing) -> str:
    kind = g.one_of("int32", "int64", "uint8", "int8", "int16", "uint32")
    x = g.numbers.uniform(0, 100, _shape(g)).astype(g.one_of("float32", "float32", "float16"))
    return g.cast(g.feed(x), kind)


@kind
def cast_integer_to_float(g: Drawing) -> str:
    kind = g.one_of("int32", "int64", "uint8", "int8", "bool")
    return g.cast(g.input(*_shape(g), kind=kind), g.one_of("float32", "float32", "float16"))


@kind
def cast_float_to_float(g: Drawing) -> str:
    kinds = g.numbers.permutation(["float32", "float16", "float64"])[:2].tolist()
    return g.cast(g.input(*_shape(g), kind=kinds[0]), kinds[1])


@kind
def cast_integer_to_integer(g: Drawing) -> str:
    kinds = g.numbers.permutation(["int32", "int64", "uint8", "int8", "bool"])[:2].tolist()
    x = g.array(*_shape(g), kind=kinds[0])
    return g.cast(g.feed(x), kinds[1])


@kind
def power_of_constant(g: Drawing) -> str:
    kind = g.one_of("float32", "float32", "float64")
    exponent = g.one_of(2, 3, 4, 5, 8, 0.5, -0.5, 1.5, -1, -2, 0.3, 2.2)
    x = g.feed(_positive(g, _shape(g), kind))
    return str(g.node("Pow", x, g.constant(np.array(exponent, kind))))


@kind
def power(g: Drawing) -> str:
    shape = _shape(g)
    return str(g.node("Pow", g.feed(_positive(g, shape)), g.input(*shape)))


@kind
def remainder_of_floats(g: Drawing) -> str:
    shape, kind = _shape(g), g.one_of("float32", "float32", "float64")
    x = g.input(*shape, kind=kind)
    y = g.constant(np.array(g.one_of(0.7, 3, 360), kind)) if g.chance() else None
    return str(g.node("Mod", x, y or g.feed(_positive(g, shape, kind)), fmod=1))


@kind
def remainder_by_floors(g: Drawing) -> str:
    x, y = g.input(*_shape(g)), g.constant(np.array(g.one_of(0.7, 3, 360), np.float32))
    return str(g.node("Sub", x, g.node("Mul", g.node("Floor", g.node("Div", x, y)), y)))


@kind
def integer_division(g: Drawing) -> str:
    kind, shape = g.one_of("int32", "int64", "uint8"), _shape(g)
    if g.chance():
        by = g.constant(np.array(g.one_of(2, 3, 7, 10, 64), kind))
    else:
        by = g.feed(g.numbers.integers(1, 50, shape).astype(kind))
    return str(g.node(g.one_of("Div", "Mod"), g.input(*shape, kind=kind), by))


@kind
def integer_arithmetic(g: Drawing) -> str:
    kind, shape = g.one_of("int32", "int64"), _shape(g)
    x, y = g.input(*shape, kind=kind), g.input(*shape, kind=kind)
    return str(g.node("Max", g.node(g.one_of("Add", "Sub", "Mul"), x, y), x))


@kind
def functions_in_float64(g: Drawing) -> str:
    return _unary(g, "float64", "Exp", "Tanh", "Sigmoid", "Erf", "Sin", "Cos", "Softplus")


@kind
def logarithms_and_roots(g: Drawing) -> str:
    x = g.feed(_positive(g, _shape(g), g.one_of(*FLOATS)))
    return str(g.node(g.one_of("Log", "Sqrt", "Reciprocal"), x))


@kind
def inverse_trigonometry(g: Drawing) -> str:
    x = g.numbers.uniform(-1, 1, _shape(g)).astype(np.float32)
    return str(g.node(g.one_of("Asin", "Acos", "Atan", "Asinh", "Atanh"), g.feed(x)))


@kind
def trigonometry(g: Drawing) -> str:
    return _unary(g, "float32", "Sin", "Cos", "Tan", "Sinh", "Cosh")


@kind
def activation(g: Drawing) -> str:
    return _unary(
        g, g.one_of("float32", "float32", "float16"), "Sigmoid", "Tanh", "Gelu", "Erf", "Elu",
        "Softplus", "HardSwish", "Mish", "Selu", "LeakyRelu", "Celu", "Softsign", "HardSigmoid",
    )  # fmt: skip


@kind
def rounding(g: Drawing) -> str:
    return _unary(g, g.one_of("float32", "float32", "float64"), "Round", "Floor", "Ceil", "Sign")


@kind
def comparison_and_choice(g: Drawing) -> str:
    kind, shape = g.one_of("float32", "float32", "int32", "int64"), _shape(g)
    x, y = g.input(*shape, kind=kind), g.input(*shape, kind=kind)
    mask = g.node(g.one_of("Greater", "LessOrEqual", "Equal"), x, y)
    return str(g.node("Where", mask, x, y))


@kind
def truth_values(g: Drawing) -> str:
    shape = _shape(g)
    x, y = g.input(*shape, kind="bool"), g.input(*shape, kind="bool")
    return str(g.node(g.one_of("And", "Or", "Xor"), g.node("Not", x), y))


@kind
def bits(g: Drawing) -> str:
    kind, shape = g.one_of("int32", "uint8", "int64"), _shape(g)
    x, y = g.input(*shape, kind=kind), g.input(*shape, kind=kind)
    return str(g.node(g.one_of("BitwiseAnd", "BitwiseOr", "BitwiseXor"), x, y))


@kind
def broadcast_stack(g: Drawing) -> str:
    shape = [g.whole(2, 16), g.whole(4, 32), g.whole(4, 64), g.whole(8, 256)]
    x = g.input(*shape)
    for operator in g.numbers.permutation(["Add", "Mul", "Sub", "Max"])[: g.whole(1, 4)]:
        other = [g.one_of(1, size) for size in shape]
        x = g.node(str(operator), x, g.input(*other))
    return str(x)


@kind
def outer_stack(g: Drawing) -> str:
    """Operands that are both broadcast, such as a table of distances."""
    rows, columns, last = g.whole(16, 256), g.whole(16, 256), g.one_of(1, 1, 4)
    x, y = g.input(rows, 1, last), g.input(1, columns, last)
    return str(g.node("Abs", g.node(g.one_of("Sub", "Mul", "Add"), x, y)))


@kind
def slopes(g: Drawing) -> str:
    shape = (1, g.whole(8, 128), g.whole(14, 64), g.whole(14, 64))
    return str(g.node("PRelu", g.input(*shape), g.constant(g.array(shape[1], 1, 1))))


@kind
def clip(g: Drawing) -> str:
    kind = g.one_of(*FLOATS, "int32", "int8")
    ends = (g.constant(np.array(n, kind)) for n in (-1, 1))
    return str(g.node("Clip", g.input(*_shape(g), kind=kind), *ends))


@kind
def half_precision_stack(g: Drawing) -> str:
    shape = _shape(g)
    x, y = (g.input(*shape, kind="float16") for _ in range(2))
    return str(g.node("Relu", g.node("Add", g.node("Mul", x, y), x)))
