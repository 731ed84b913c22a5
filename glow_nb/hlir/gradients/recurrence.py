"""Gradients of recurrent layers: a loop backwards, and ordinary products for the sums over steps.

Nothing is kept for them but the states. What the steps have multiplied is computed again, by one
product for all steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.hlir.backpropagate import through_lowering
from glow_nb.hlir.backward import Backward
from glow_nb.hlir.graph import Value
from glow_nb.hlir.inline import inline
from glow_nb.hlir.ops.arithmetic import Mul
from glow_nb.hlir.ops.formulas.recurrence.cells import HIDDEN, Cell
from glow_nb.hlir.ops.formulas.recurrence.cuts import emit_concat, emit_slice
from glow_nb.hlir.ops.formulas.recurrence.panels import emit_panels
from glow_nb.hlir.ops.formulas.recurrence.steps import NEXT, forward_step, step_type
from glow_nb.hlir.ops.matrix import MatMul
from glow_nb.hlir.ops.recurrence import (
    Recurrence,
    RecurrenceGradient,
    directions_of,
)
from glow_nb.hlir.ops.recurrent_layer import RecurrentLayer
from glow_nb.hlir.ops.reduction import ReduceSum
from glow_nb.hlir.ops.shape import Reshape, Transpose
from glow_nb.hlir.ops.unrolled_recurrence import emit_matrix
from glow_nb.hlir.rules import OperandGradients, gradient

gradient(RecurrentLayer, RecurrenceGradient)(through_lowering)


@gradient(Recurrence)
def recurrence_gradient(node: Recurrence, upstream: Value, builder: Backward) -> OperandGradients:
    """The loop backwards gives those of the inputs and the first states; the others are sums."""
    past = _Past.of(node, builder)
    back = builder.emit(
        RecurrenceGradient(
            upstream,
            node.inputs,
            past.by_steps(past.products),
            past.previous,
            past.matrix,
            node.bias,
            node.peepholes,
            node.lengths,
            **node.cell_attributes,
        )
    )
    slopes, first = back.results
    found: dict[str, Value | None] = {"inputs": slopes}
    if node.initial is not None:
        found["initial"] = first
    of_products = past.of_products(past.by_directions(slopes))
    if builder.wants(node.recurrent):
        weights = past.of_weights(of_products)
        if node.panel:
            phases = past.cell.phases
            weights = emit_panels(builder, weights, phases, node.panel, transposed=False)
        found["recurrent"] = weights
    if builder.wants(node.bias):
        found["bias"] = past.sum_over_steps(past.gate(of_products, 2))
    if builder.wants(node.peepholes):
        found["peepholes"] = past.of_peepholes(of_products)
    return found


@dataclass(frozen=True)
class _Past:
    """The intermediate values of a recurrence, by directions: the rows ``[D, steps * B, ...]``.

    Attributes:
        node: The recurrence.
        builder: Takes the nodes.
        cell: Its cell.
        matrix: The recurrent weights, ``[D, H, gates * H]``.
        previous: The states before each step, ``[S, steps, D, B, H]``.
        multiplied: The values that each phase has multiplied, by name.
        inputs: The contribution of the inputs to the gates.
        products: The products of the steps.
    """

    node: Recurrence
    builder: Backward
    cell: Cell
    matrix: Value
    previous: Value
    multiplied: dict[str, Value]
    inputs: Value
    products: Value

    @classmethod
    def of(cls, node: Recurrence, builder: Backward) -> _Past:
        """Emit the past of *node*."""
        cell, matrix = Cell.of(node), emit_matrix(node, builder)
        previous = _emit_previous(node, builder)
        past = cls(node, builder, cell, matrix, previous, {}, node.inputs, node.inputs)
        hidden = past.state(previous, 0)
        multiplied, inputs = {HIDDEN: hidden}, past.by_directions(node.inputs)
        products: list[Value] = []
        for phase in cell.phases:
            begin, end = (n * past.size for n in (phase.first, phase.first + phase.gates))
            weights = emit_slice(builder, matrix, 2, begin, end)
            product = builder.emit(MatMul(multiplied[phase.multiplied], weights))
            products.append(product)
            if phase is not cell.phases[-1]:
                values = {HIDDEN: past.flat(hidden)}
                for gate in range(phase.gates):
                    values[f"x{gate}"] = past.flat(past.gate(inputs, phase.first + gate))
                    values[f"p{gate}"] = past.flat(past.gate(product, gate))
                type = step_type(node.type.kind, *values[HIDDEN].type.shape)
                made = inline(forward_step(cell, phase, type), builder, values)
                for name, value in made.items():
                    multiplied[name.removeprefix(NEXT)] = builder.emit(
                        Reshape(value, hidden.type.shape)
                    )
        whole = emit_concat(builder, products, 2)
        return cls(node, builder, cell, matrix, previous, multiplied, inputs, whole)

    @property
    def size(self) -> int:
        """Elements of a state."""
        return self.node.type.shape[4]

    def state(self, states: Value, number: int) -> Value:
        """Emit state *number* of ``[S, steps, D, B, H]`` by directions."""
        _, steps, directions, rows, size = states.type.shape
        part = emit_slice(self.builder, states, 0, number, number + 1)
        part = self.builder.emit(Reshape(part, (steps, directions, rows, size)))
        transposed = self.builder.emit(Transpose(part, (1, 0, 2, 3)))
        return self.builder.emit(Reshape(transposed, (directions, steps * rows, size)))

    def by_directions(self, value: Value) -> Value:
        """Emit ``[steps, B, D, width]`` as ``[D, steps * B, width]``."""
        steps, rows, directions, width = value.type.shape
        transposed = self.builder.emit(Transpose(value, (2, 0, 1, 3)))
        return self.builder.emit(Reshape(transposed, (directions, steps * rows, width)))

    def by_steps(self, value: Value) -> Value:
        """Emit ``[D, steps * B, width]`` as ``[steps, B, D, width]``."""
        steps, rows, directions, _ = self.node.inputs.type.shape
        width = value.type.shape[2]
        apart = self.builder.emit(Reshape(value, (directions, steps, rows, width)))
        return self.builder.emit(Transpose(apart, (1, 2, 0, 3)))

    def flat(self, value: Value) -> Value:
        """Emit the rows of all directions."""
        directions, rows, width = value.type.shape
        return self.builder.emit(Reshape(value, (directions * rows, width)))

    def gate(self, value: Value, index: int) -> Value:
        """Emit one gate of ``[D, rows, gates * H]``."""
        return emit_slice(self.builder, value, 2, index * self.size, (index + 1) * self.size)

    def of_products(self, slopes: Value) -> Value:
        """Emit the gradients of the products, of those of what the gates got."""
        if not self.cell.apart:
            return slopes
        x, p = (self.builder.term(self.gate(v, 1)) for v in (self.inputs, self.products))
        reset = self.cell.activate(0, x + p).value
        product = self.builder.emit(Mul(self.gate(slopes, 2), reset))
        return emit_concat(
            self.builder, [emit_slice(self.builder, slopes, 2, 0, 2 * self.size), product], 2
        )

    def of_weights(self, of_products: Value) -> Value:
        """Emit the gradient of the recurrent weights: a product over all rows of a direction."""
        parts: list[Value] = []
        for phase in self.cell.phases:
            begin, end = (n * self.size for n in (phase.first, phase.first + phase.gates))
            part = emit_slice(self.builder, of_products, 2, begin, end)
            transposed = self.builder.emit(Transpose(self.multiplied[phase.multiplied], (0, 2, 1)))
            parts.append(self.builder.emit(MatMul(transposed, part)))
        return emit_concat(self.builder, parts, 2)

    def sum_over_steps(self, value: Value) -> Value:
        """Emit ``[D, H]``: the sum of ``[D, rows, H]`` over the rows."""
        return self.builder.emit(ReduceSum(value, axes=(1,), keep_dims=False))

    def of_peepholes(self, of_products: Value) -> Value:
        """Emit ``[D, 3, H]``: gates i and f have seen the memory before a step, o that behind."""
        before, behind = self.state(self.previous, 1), self.state(self.node, 1)
        directions = before.type.shape[0]
        rows: list[Value] = []
        for gate, seen in enumerate((before, behind, before)):
            product = self.builder.emit(Mul(self.gate(of_products, gate), seen))
            total = self.sum_over_steps(product)
            rows.append(self.builder.emit(Reshape(total, (directions, 1, self.size))))
        return emit_concat(self.builder, rows, 1)


def _emit_previous(node: Recurrence, builder: Backward) -> Value:
    """Emit the states before each step, ``[S, steps, D, B, H]``."""
    count, steps, directions, rows, size = node.type.shape
    type = node.type.with_shape((count, directions, rows, size))
    initial = node.initial or builder.filled(type.with_shape((count, directions, rows, size)), 0)
    first = builder.emit(Reshape(initial, (count, 1, directions, rows, size)))
    columns: list[Value] = []
    for d, is_backward in enumerate(directions_of(node.direction)):
        states = emit_slice(builder, node, 2, d, d + 1)
        begin = emit_slice(builder, first, 2, d, d + 1)
        if not steps:
            columns.append(states)
        elif is_backward:
            columns.append(
                emit_concat(builder, [emit_slice(builder, states, 1, 1, steps), begin], 1)
            )
        else:
            columns.append(
                emit_concat(builder, [begin, emit_slice(builder, states, 1, 0, steps - 1)], 1)
            )
    return emit_concat(builder, columns, 2)
