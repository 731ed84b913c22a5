"""Graphs of one shape and any size: a chain, thousands of branches side by side, and others.

Each shape is written once over a :class:`Drawing`, which makes of it a graph of ours or an ONNX
model, so that importers and builders are given the same. A graph of size ``n`` has a small multiple
of ``n`` operators on small tensors: what takes time is the number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from typing_extensions import override

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Add, Concat, MatMul, Mul, Slice, Tanh, Transpose

ROWS, COLUMNS = 2, 8
"""The shape of most tensors."""


class Drawing(Protocol):
    """A graph under construction; values are whatever its methods return."""

    def input(self, rows: int, columns: int) -> Any:
        """Return a new input of ``float32[rows, columns]``."""

    def output(self, value: Any) -> None:
        """Make *value* an output."""

    def weight(self, array: Array) -> Any:
        """Return a constant that holds *array*."""

    def add(self, left: Any, right: Any) -> Any:
        """Return the sum of two matrices."""

    def mul(self, left: Any, right: Any) -> Any:
        """Return the product of two matrices, element by element."""

    def product(self, left: Any, right: Any) -> Any:
        """Return the matrix product."""

    def tanh(self, value: Any) -> Any:
        """Return the hyperbolic tangent of each element."""

    def transpose(self, value: Any) -> Any:
        """Return the transposed matrix."""

    def concat(self, values: Sequence[Any]) -> Any:
        """Return matrices side by side, along the columns."""

    def columns(self, value: Any, begin: int) -> Any:
        """Return :data:`COLUMNS` columns of a matrix."""


class FunctionDrawing(Drawing):
    """Draws a function with a :class:`Builder`."""

    def __init__(self) -> None:
        """Begin an empty function."""
        self.builder = Builder()

    @override
    def input(self, rows: int, columns: int) -> Any:
        return self.builder.input("x", TensorType(ElementKind.FLOAT32, (rows, columns)))

    @override
    def output(self, value: Any) -> None:
        self.builder.save(value, "y")

    @override
    def weight(self, array: Array) -> Any:
        return self.builder.constant("w", array)

    @override
    def add(self, left: Any, right: Any) -> Any:
        return self.builder.emit(Add(left, right))

    @override
    def mul(self, left: Any, right: Any) -> Any:
        return self.builder.emit(Mul(left, right))

    @override
    def product(self, left: Any, right: Any) -> Any:
        return self.builder.emit(MatMul(left, right))

    @override
    def tanh(self, value: Any) -> Any:
        return self.builder.emit(Tanh(value))

    @override
    def transpose(self, value: Any) -> Any:
        return self.builder.emit(Transpose(value, (1, 0)))

    @override
    def concat(self, values: Sequence[Any]) -> Any:
        return self.builder.emit(Concat(tuple(values), 1))

    @override
    def columns(self, value: Any, begin: int) -> Any:
        rows = value.type.shape[0]
        return self.builder.emit(Slice(value, (0, begin), (rows, begin + COLUMNS), (1, 1)))

    def graph(self) -> Function:
        """Return what was drawn."""
        return self.builder.function()


class ModelDrawing(Drawing):
    """Draws an ONNX model; a value is the name of a tensor."""

    def __init__(self) -> None:
        """Begin an empty model."""
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    @override
    def input(self, rows: int, columns: int) -> Any:
        name = f"x{len(self._inputs)}"
        shape = [rows, columns]
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    @override
    def output(self, value: Any) -> None:
        self._outputs.append(helper.make_tensor_value_info(value, TensorProto.FLOAT, None))

    @override
    def weight(self, array: Array) -> Any:
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(array, name))
        return name

    def _node(self, op: str, *operands: Any, **attributes: Any) -> Any:
        name = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, list(operands), [name], **attributes))
        return name

    @override
    def add(self, left: Any, right: Any) -> Any:
        return self._node("Add", left, right)

    @override
    def mul(self, left: Any, right: Any) -> Any:
        return self._node("Mul", left, right)

    @override
    def product(self, left: Any, right: Any) -> Any:
        return self._node("MatMul", left, right)

    @override
    def tanh(self, value: Any) -> Any:
        return self._node("Tanh", value)

    @override
    def transpose(self, value: Any) -> Any:
        return self._node("Transpose", value, perm=[1, 0])

    @override
    def concat(self, values: Sequence[Any]) -> Any:
        return self._node("Concat", *values, axis=1)

    @override
    def columns(self, value: Any, begin: int) -> Any:
        bounds = [self.weight(np.array([n], np.int64)) for n in (begin, begin + COLUMNS, 1)]
        return self._node("Slice", value, *bounds)

    def graph(self) -> onnx.ModelProto:
        """Return what was drawn."""
        graph = helper.make_graph(
            self._nodes, "scaling", self._inputs, self._outputs, self._weights
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


Shape = Callable[[Drawing, int], None]

_RANDOM = np.random.default_rng(0)


def _matrix(rows: int = ROWS) -> Array:
    return _RANDOM.uniform(0.5, 1.5, (rows, COLUMNS)).astype(np.float32)


def _branches(drawing: Drawing, size: int) -> list[Any]:
    """Return values that are computed from one, each with a constant of its own."""
    x = drawing.input(ROWS, COLUMNS)
    return [drawing.tanh(drawing.mul(x, drawing.weight(_matrix()))) for _ in range(size)]


def chain(drawing: Drawing, size: int) -> None:
    """Draw elementwise operators, one after the other."""
    value = drawing.input(ROWS, COLUMNS)
    for _ in range(size):
        value = drawing.tanh(value)
    drawing.output(value)


def layers(drawing: Drawing, size: int) -> None:
    """Draw matrix products with constants, an elementwise operator after each."""
    value = drawing.input(ROWS, COLUMNS)
    for _ in range(size // 2):
        value = drawing.tanh(drawing.product(value, drawing.weight(_matrix(COLUMNS))))
    drawing.output(value)


def residual(drawing: Drawing, size: int) -> None:
    """Draw blocks ``x + tanh(x * w)``."""
    value = drawing.input(ROWS, COLUMNS)
    for _ in range(size):
        branch = drawing.tanh(drawing.product(value, drawing.weight(_matrix(COLUMNS))))
        value = drawing.add(value, branch)
    drawing.output(value)


def side_by_side(drawing: Drawing, size: int) -> None:
    """Draw branches from one value that are added up one by one."""
    total, *others = _branches(drawing, size)
    for other in others:
        total = drawing.add(total, other)
    drawing.output(total)


def tree(drawing: Drawing, size: int) -> None:
    """Draw branches from one value that are added up in pairs, and these in pairs again."""
    values = _branches(drawing, size)
    while len(values) > 1:
        pairs = list(zip(values[::2], values[1::2], strict=False))
        values = [drawing.add(*pair) for pair in pairs] + values[2 * len(pairs) :]
    drawing.output(values[0])


def concat(drawing: Drawing, size: int) -> None:
    """Draw branches from one value into one concatenation."""
    drawing.output(drawing.concat(_branches(drawing, size)))


def nested_concats(drawing: Drawing, size: int) -> None:
    """Draw a concatenation of a concatenation and so on, one new value in each."""
    total, *others = _branches(drawing, size)
    for other in others:
        total = drawing.concat([total, other])
    drawing.output(total)


def outputs(drawing: Drawing, size: int) -> None:
    """Draw branches from one value, each an output."""
    for value in _branches(drawing, size):
        drawing.output(value)


def inputs(drawing: Drawing, size: int) -> None:
    """Draw as many inputs, an operator after each, into one concatenation."""
    values = [drawing.input(ROWS, COLUMNS) for _ in range(size)]
    drawing.output(drawing.concat([drawing.tanh(value) for value in values]))


def slices(drawing: Drawing, size: int) -> None:
    """Draw slices of one input, each with an operator, put together in another order."""
    x = drawing.input(ROWS, COLUMNS * size)
    parts = [drawing.columns(x, COLUMNS * index) for index in range(size)]
    drawing.output(drawing.concat([drawing.tanh(part) for part in reversed(parts)]))


def slices_inside(drawing: Drawing, size: int) -> None:
    """Draw slices of a computed value, each multiplied by a matrix, side by side."""
    x = drawing.tanh(drawing.input(ROWS, COLUMNS * size))
    parts = [drawing.columns(x, COLUMNS * index) for index in range(size)]
    weight = drawing.weight(_matrix(COLUMNS))
    drawing.output(drawing.concat([drawing.product(part, weight) for part in parts]))


def slices_of_concat(drawing: Drawing, size: int) -> None:
    """Draw a concatenation that is cut into its operands again, an operator after each."""
    whole = drawing.concat(_branches(drawing, size))
    parts = [drawing.columns(whole, COLUMNS * index) for index in range(size)]
    drawing.output(drawing.concat([drawing.tanh(part) for part in parts]))


def transposes(drawing: Drawing, size: int) -> None:
    """Draw a transpose that sinks along a chain to its inverse."""
    value = drawing.transpose(drawing.input(ROWS, COLUMNS))
    for _ in range(size):
        value = drawing.tanh(value)
    drawing.output(drawing.transpose(value))


def layouts(drawing: Drawing, size: int) -> None:
    """Draw a chain in which every operator stands between two transposes."""
    value = drawing.input(ROWS, COLUMNS)
    for _ in range(size // 3):
        value = drawing.transpose(drawing.tanh(drawing.transpose(value)))
    drawing.output(value)


SHAPES: tuple[Shape, ...] = (
    chain,
    layers,
    residual,
    side_by_side,
    tree,
    concat,
    nested_concats,
    outputs,
    inputs,
    slices,
    slices_inside,
    slices_of_concat,
    transposes,
    layouts,
)


def draw_function(shape: Shape, size: int) -> Function:
    """Return a graph of ours."""
    drawing = FunctionDrawing()
    shape(drawing, size)
    return drawing.graph()


def draw_model(shape: Shape, size: int) -> onnx.ModelProto:
    """Return an ONNX model."""
    drawing = ModelDrawing()
    shape(drawing, size)
    return drawing.graph()
