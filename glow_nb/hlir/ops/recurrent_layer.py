"""Recurrent layers with their weights, as ONNX has them."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Value, define_node
from glow_nb.hlir.ops.arithmetic import Add
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.comparison import Greater, Select
from glow_nb.hlir.ops.counting import counting
from glow_nb.hlir.ops.elementwise import ConvertTo
from glow_nb.hlir.ops.families import FLOATS, fits, fitted, require_kind, splat, wide
from glow_nb.hlir.ops.formulas.recurrence.cells import GATES, GRU, LSTM, Cell
from glow_nb.hlir.ops.formulas.recurrence.cuts import emit_concat, emit_slice
from glow_nb.hlir.ops.matrix import MatMul
from glow_nb.hlir.ops.recurrence import (
    LENGTHS,
    Cellular,
    Recurrence,
    check_cell,
    directions_of,
    order_of,
    run_cell,
)
from glow_nb.hlir.ops.shape import Pad, Reshape, Transpose
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers


@define_node("recurrent_layer")
class RecurrentLayer(Cellular):
    """A recurrent layer: a product of all inputs with the weights, then a :class:`Recurrence`.

    ``input`` is ``[steps, B, features]``, ``weights`` ``[D, gates * H, features]`` (without them,
    ``input`` is that product already, with ``D * gates * H`` features), ``recurrent``
    ``[D, gates * H, H]``, ``bias`` ``[D, 2 * gates * H]`` (of the inputs, then of the states),
    ``peepholes`` ``[D, 3 * H]``, ``lengths`` ``[B]``, and the first states ``hidden`` and, of an
    LSTM, ``memory`` ``[D, B, H]``. The results are the hidden states of all steps,
    ``[steps, D, B, H]``, which are 0 where a sample has ended, the last ones, ``[D, B, H]``, and
    the last memory of an LSTM.
    """

    input: Value
    weights: Value | None
    recurrent: Value
    bias: Value | None
    lengths: Value | None
    hidden: Value | None
    memory: Value | None
    peepholes: Value | None

    @override
    def infer_types(self) -> tuple[TensorType, ...]:
        check_cell(self)
        input, recurrent = self.input.type, self.recurrent.type
        require_kind(self, "input", input, FLOATS)
        self.require(input.rank == 3, f"'input' is {input}, but must be [steps, batch, features]")
        steps, rows, features = input.shape
        directions, gates = len(directions_of(self.direction)), GATES[self.cell]
        self.require(
            recurrent.rank == 3,
            f"'recurrent' is {recurrent}, but must be [{directions}, {gates} H, H]",
        )
        size = recurrent.shape[2]
        states = (directions, rows, size)
        self._check("recurrent", input.with_shape((directions, gates * size, size)))
        width = directions * gates * size
        self.require(
            self.weights is not None or features == width,
            f"'input' is {input}, but without 'weights' must have {width} features",
        )
        self._check("weights", input.with_shape((directions, gates * size, features)))
        self._check("bias", input.with_shape((directions, 2 * gates * size)))
        self._check("hidden", input.with_shape(states))
        self.require(self.cell == LSTM or self.memory is None, f"{self.cell!r} has no 'memory'")
        self._check("memory", input.with_shape(states))
        self._check("peepholes", input.with_shape((directions, 3 * size)))
        if self.lengths is not None:
            require_kind(self, "lengths", self.lengths.type, LENGTHS)
            self._check("lengths", TensorType(self.lengths.type.kind, (rows,)))
        lasts = (input.with_shape(states),) * (2 if self.cell == LSTM else 1)
        return input.with_shape((steps, *states)), *lasts

    def _check(self, name: str, wanted: TensorType) -> None:
        operand = getattr(self, name)
        if operand is not None:
            found = operand.type
            needing = f"'input' {self.input.type} and 'recurrent' {self.recurrent.type} need"
            self.require(fits(found, wanted), f"'{name}' is {found}, but {needing} {wanted}")

    @property
    def resets_product(self) -> bool:
        """Return whether the product for the last gate, with its bias, is reset after it."""
        return self.cell == GRU and self.flag

    @override
    def evaluate(
        self,
        input: Array,
        weights: Array | None,
        recurrent: Array,
        bias: Array | None,
        lengths: Array | None,
        hidden: Array | None,
        memory: Array | None,
        peepholes: Array | None,
    ) -> tuple[Array, ...]:
        steps, directions, rows, size = self.result_types[0].shape
        width = GATES[self.cell] * size
        x = wide(input)
        if weights is not None:
            x = x @ wide(weights).reshape(directions * width, x.shape[2]).T
        x = x.reshape(steps, rows, directions, width)
        reset_bias = None
        if bias is not None:
            of_inputs, of_states = wide(bias[:, :width]), wide(bias[:, width:])
            if self.resets_product:
                reset_bias = of_states[:, 2 * size :].copy()
                of_states[:, 2 * size :] = 0
            x = x + of_inputs + of_states
        zeros = np.zeros((directions, rows, size))
        firsts = (hidden, memory)[: len(self.result_types) - 1]
        initial = np.stack([zeros if first is None else wide(first) for first in firsts])
        holes = None if peepholes is None else wide(peepholes).reshape(directions, 3, size)
        matrix = wide(recurrent).swapaxes(1, 2)
        cell = Cell.of(self, has_bias=reset_bias is not None)
        states = run_cell(cell, self.direction, x, matrix, reset_bias, initial, holes, lengths)
        lasts = initial.copy()
        for d, is_backward in enumerate(directions_of(self.direction)):
            for t in order_of(steps, is_backward)[-1:]:
                lasts[:, d] = states[:, t, d]
        shown = states[0]
        if lengths is not None:
            is_running = np.arange(steps)[:, None] < lengths
            shown = np.where(is_running[:, None, :, None], shown, 0)
        return tuple(map(fitted, (shown, *lasts), self.result_types))

    @override
    def cost(self) -> Cost:
        steps, directions, rows, size = self.result_types[0].shape
        elements = steps * rows * directions * GATES[self.cell] * size
        features = self.input.type.shape[2] if self.weights is not None else 0
        return Cost(elements * (features + size), 7 * elements)


@lowers(RecurrentLayer)
def lower_recurrent_layer(node: RecurrentLayer, rewriter: Rewriter) -> tuple[Value, ...]:
    """Express it as one product for all steps, and the loop over them."""
    emit = rewriter.emit
    steps, directions, rows, size = node.result_types[0].shape
    inputs, reset_bias = _emit_inputs(node, rewriter)
    holes = node.peepholes
    if holes is not None:
        holes = emit(Reshape(holes, (directions, 3, size)))
    initial = _emit_initial(node, rewriter)
    loop = Recurrence(
        inputs,
        emit(Transpose(node.recurrent, (0, 2, 1))),
        reset_bias,
        initial,
        holes,
        node.lengths,
        **node.cell_attributes,
    )
    states = emit(loop)
    shown: Value = emit(
        Reshape(emit_slice(rewriter, states, 0, 0, 1), (steps, directions, rows, size))
    )
    if node.lengths is not None:
        shown = _zero_where_ended(rewriter, shown, node.lengths)
    return shown, *_emit_lasts(node, rewriter, states, initial)


def emit_input_product(node: RecurrentLayer, builder: Rewriter) -> Value:
    """Emit the product of the inputs and their weights, ``[steps * B, D * gates * H]``."""
    steps, rows, features = node.input.type.shape
    flat = builder.emit(Reshape(node.input, (steps * rows, features)))
    if node.weights is None:
        return flat
    directions, width, _ = node.weights.type.shape
    matrix = builder.emit(Reshape(node.weights, (directions * width, features)))
    return builder.emit(MatMul(flat, builder.emit(Transpose(matrix, (1, 0)))))


def _emit_inputs(node: RecurrentLayer, builder: Rewriter) -> tuple[Value, Value | None]:
    """Emit what the gates get from the inputs, and the bias of a product that is reset."""
    emit = builder.emit
    steps, rows, _ = node.input.type.shape
    directions, width, size = node.recurrent.type.shape
    product, reset_bias = emit_input_product(node, builder), None
    if node.bias is not None:
        of_states = emit_slice(builder, node.bias, 1, width, 2 * width)
        if node.resets_product:
            reset_bias = emit_slice(builder, of_states, 1, 2 * size, width)
            of_states = emit(Pad(emit_slice(builder, of_states, 1, 0, 2 * size), (0, 0, 0, size)))
        bias = emit(Add(emit_slice(builder, node.bias, 1, 0, width), of_states))
        product = emit(Add(product, emit(Reshape(bias, (1, directions * width)))))
    return emit(Reshape(product, (steps, rows, directions, width))), reset_bias


def _emit_initial(node: RecurrentLayer, builder: Rewriter) -> Value | None:
    """Emit the first states, ``[S, D, B, H]``; None if all are 0."""
    firsts = (node.hidden, node.memory)[: len(node.result_types) - 1]
    if not any(firsts):
        return None
    type = node.result_types[1]
    zeros = _zeros(builder, type)
    rows = [builder.emit(Reshape(first or zeros, (1, *type.shape))) for first in firsts]
    return emit_concat(builder, rows, 0)


def _zeros(builder: Rewriter, type: TensorType) -> Value:
    return builder.emit(Broadcast(splat(builder, type, 0, "zero"), type.shape))


def _zero_where_ended(builder: Rewriter, shown: Value, lengths: Value) -> Value:
    """Emit the hidden states, with zeros where a sample has ended."""
    steps, rows = shown.type.shape[0], lengths.type.size
    numbers = builder.emit(ConvertTo(counting(builder, steps), lengths.type.kind))
    step = builder.emit(Reshape(numbers, (steps, 1, 1, 1)))
    column = builder.emit(Reshape(lengths, (1, 1, rows, 1)))
    zero = splat(builder, shown.type, 0, "zero")
    return builder.emit(Select(builder.emit(Greater(column, step)), shown, zero))


def _emit_lasts(
    node: RecurrentLayer, builder: Rewriter, states: Value, initial: Value | None
) -> list[Value]:
    """Emit the last state of each kind, ``[D, B, H]``."""
    steps, type = node.input.type.shape[0], node.result_types[1]
    found: list[Value] = []
    for number in range(states.type.shape[0]):
        if not steps:
            whole = emit_slice(builder, initial, 0, number, number + 1) if initial else None
            found.append(
                builder.emit(Reshape(whole, type.shape)) if whole else _zeros(builder, type)
            )
            continue
        state = emit_slice(builder, states, 0, number, number + 1)
        parts = []
        for d, is_backward in enumerate(directions_of(node.direction)):
            last = 0 if is_backward else steps - 1
            row = emit_slice(builder, emit_slice(builder, state, 1, last, last + 1), 2, d, d + 1)
            parts.append(builder.emit(Reshape(row, (1, *type.shape[1:]))))
        found.append(emit_concat(builder, parts, 0))
    return found
