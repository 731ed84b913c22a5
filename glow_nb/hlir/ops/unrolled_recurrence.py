"""The loops of recurrent layers as single steps: for backends without a kernel, and for gradients.

Second derivatives are those of the unrolled steps backwards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glow_nb.base.types import TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value
from glow_nb.hlir.inline import inline
from glow_nb.hlir.ops.arithmetic import Add
from glow_nb.hlir.ops.comparison import Greater, Select
from glow_nb.hlir.ops.families import splat
from glow_nb.hlir.ops.formulas.recurrence.cells import Cell
from glow_nb.hlir.ops.formulas.recurrence.cuts import emit_concat, emit_slice
from glow_nb.hlir.ops.formulas.recurrence.panels import emit_plain
from glow_nb.hlir.ops.formulas.recurrence.steps import (
    DOWN,
    NEXT,
    UP,
    backward_step,
    forward_step,
    gates_of,
    step_type,
)
from glow_nb.hlir.ops.matrix import MatMul
from glow_nb.hlir.ops.recurrence import Recurrence, RecurrenceGradient, directions_of, order_of
from glow_nb.hlir.ops.shape import Reshape, Transpose
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers

Values = dict[str, Value]


def emit_matrix(node: Recurrence | RecurrenceGradient, builder: Builder) -> Value:
    """Emit the recurrent weights ``[D, H, gates * H]`` of *node*, packed or not."""
    if not node.panel:
        return node.recurrent
    cell, width = Cell.of(node), node.inputs.type.shape[3]
    is_transposed = isinstance(node, RecurrenceGradient)
    size = width // cell.gates
    return emit_plain(
        builder, node.recurrent, cell.phases, size, node.panel, transposed=is_transposed
    )


class _Direction:
    """Emits the steps of one direction of a recurrence or of its gradient."""

    def __init__(
        self, node: Recurrence | RecurrenceGradient, builder: Builder, matrix: Value, d: int
    ) -> None:
        self.node, self.builder, self.d = node, builder, d
        self.cell = Cell.of(node)
        self.rows, self.size = node.inputs.type.shape[1], matrix.type.shape[1]
        width = self.cell.gates * self.size
        self.matrix = self._shaped(emit_slice(builder, matrix, 0, d, d + 1), (self.size, width))
        self.type = step_type(node.inputs.type.kind, self.rows, self.size)

    def _shaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        return self.builder.emit(Reshape(value, shape))

    def shared(self) -> Values:
        """Emit what all samples share."""
        node, found = self.node, Values()
        if node.bias is not None:
            found["bias"] = emit_slice(self.builder, node.bias, 0, self.d, self.d + 1)
        if node.peepholes is not None:
            holes = emit_slice(self.builder, node.peepholes, 0, self.d, self.d + 1)
            for place in range(3):
                row = emit_slice(self.builder, holes, 1, place, place + 1)
                found[f"peephole{place}"] = self._shaped(row, (1, self.size))
        return found

    def gates(self, prefix: str, value: Value, t: int) -> Values:
        """Emit the gates of step *t* of ``[steps, B, D, gates * H]``."""
        part = emit_slice(self.builder, value, 0, t, t + 1)
        part = emit_slice(self.builder, part, 2, self.d, self.d + 1)
        return self.split(prefix, self._shaped(part, (self.rows, value.type.shape[3])), 0)

    def split(self, prefix: str, value: Value, first: int) -> Values:
        """Emit the gates of ``[B, gates * H]``, of which the first one is number *first*."""
        count = value.type.shape[1] // self.size
        return {
            f"{prefix}{first + i}": emit_slice(
                self.builder, value, 1, i * self.size, (i + 1) * self.size
            )
            for i in range(count)
        }

    def states(self, value: Value, t: int | None = None) -> list[Value]:
        """Emit the states of ``[S, D, B, H]``, or those of step *t*, ``[S, steps, D, B, H]``."""
        if t is not None:
            value = emit_slice(self.builder, value, 1, t, t + 1)
        value = emit_slice(self.builder, value, value.type.rank - 3, self.d, self.d + 1)
        parts = (emit_slice(self.builder, value, 0, n, n + 1) for n in range(value.type.shape[0]))
        return [self._shaped(part, (self.rows, self.size)) for part in parts]

    def zeros(self, width: int) -> Value:
        """Emit ``[B, width]`` zeros."""
        array = np.zeros((self.rows, width), self.type.kind.dtype)
        return self.builder.constant("zeros", array, is_weight=False)

    def while_running(self, t: int, value: Value, other: Value | None = None) -> Value:
        """Emit *value*, and *other* (by default 0) for samples that have ended before step *t*."""
        lengths = self.node.lengths
        if lengths is None:
            return value
        column = self._shaped(lengths, (self.rows, 1))
        step = splat(self.builder, column.type, t, "step")
        is_running = self.builder.emit(Greater(column, step))
        other = other or splat(self.builder, value.type, 0, "zero")
        return self.builder.emit(Select(is_running, value, other))

    def product(self, value: Value, first: int, gates: int, *, transposed: bool = False) -> Value:
        """Emit the product with the weights of some gates, or with these transposed."""
        begin, end = first * self.size, (first + gates) * self.size
        weights = emit_slice(self.builder, self.matrix, 1, begin, end)
        if transposed:
            weights = self.builder.emit(Transpose(weights, (1, 0)))
        return self.builder.emit(MatMul(value, weights))


@lowers(Recurrence)
def lower_recurrence(node: Recurrence, rewriter: Rewriter) -> Value:
    """Express it as its steps, one after the other."""
    if not node.type.size:
        return _zeros(rewriter, node.type)
    matrix, directions = emit_matrix(node, rewriter), node.inputs.type.shape[2]
    columns = [_steps(_Direction(node, rewriter, matrix, d), node) for d in range(directions)]
    return _joined(rewriter, columns, node.type.shape[1:2])


def _zeros(builder: Builder, type: TensorType) -> Value:
    return builder.constant("zeros", np.zeros(type.shape, type.kind.dtype), is_weight=False)


def _joined(builder: Builder, columns: Sequence[Sequence[Value]], steps: tuple[int, ...]) -> Value:
    """Emit ``[S(, steps), D, B, H]`` of a list of ``[S(, steps), 1, B, H]`` for each direction."""
    return emit_concat(builder, [emit_concat(builder, c, 1) for c in columns], 1 + len(steps))


def _stacked(run: _Direction, states: Sequence[Value], ones: tuple[int, ...]) -> Value:
    """Emit states as ``[S, *ones, B, H]``."""
    shape = (1, *ones, run.rows, run.size)
    rows = [run.builder.emit(Reshape(state, shape)) for state in states]
    return emit_concat(run.builder, rows, 0)


def _steps(run: _Direction, node: Recurrence) -> list[Value]:
    """Emit the states of all steps of a direction, in the order of time."""
    count, cell, shared = node.type.shape[1], run.cell, run.shared()
    states = [run.zeros(run.size)] * len(cell.states)
    if node.initial is not None:
        states = run.states(node.initial)
    found: dict[int, Value] = {}
    for t in order_of(count, directions_of(node.direction)[run.d]):
        values = (
            shared | run.gates("x", node.inputs, t) | dict(zip(cell.states, states, strict=True))
        )
        made = Values()
        for phase in cell.phases:
            known = values | made
            product = run.product(known[phase.multiplied], phase.first, phase.gates)
            known |= run.split("p", product, phase.first)
            results = inline(forward_step(cell, phase, run.type), run.builder, known)
            made |= {name.removeprefix(NEXT): value for name, value in results.items()}
        new = (made[name] for name in cell.states)
        states = [run.while_running(t, *pair) for pair in zip(new, states, strict=True)]
        found[t] = _stacked(run, states, (1, 1))
    return [found[t] for t in range(count)]


@lowers(RecurrenceGradient)
def lower_recurrence_gradient(node: RecurrenceGradient, rewriter: Rewriter) -> tuple[Value, Value]:
    """Express it as its steps, one after the other, from the last one to the first."""
    if not node.type.size:
        return _zeros(rewriter, node.type), _zeros(rewriter, node.result_types[1])
    matrix, directions = emit_matrix(node, rewriter), node.inputs.type.shape[2]
    runs = [_Direction(node, rewriter, matrix, d) for d in range(directions)]
    columns, firsts = zip(*(_steps_back(run, node) for run in runs), strict=True)
    slopes = [emit_concat(rewriter, column, 0) for column in columns]
    return emit_concat(rewriter, slopes, 2), emit_concat(rewriter, firsts, 1)


def _steps_back(run: _Direction, node: RecurrenceGradient) -> tuple[list[Value], Value]:
    """Emit the gradients of the inputs of all steps of a direction, and of its first states."""
    count, cell, shared = node.type.shape[0], run.cell, run.shared()
    down = [run.zeros(run.size)] * len(cell.states)
    found: dict[int, Value] = {}
    for t in reversed(order_of(count, directions_of(node.direction)[run.d])):
        values = shared | run.gates("x", node.inputs, t) | run.gates("p", node.products, t)
        values |= dict(zip(cell.states, run.states(node.previous, t), strict=True))
        above = run.states(node.upstream, t)
        totals = [run.builder.emit(Add(a, b)) for a, b in zip(above, down, strict=True)]
        new, slopes = _step_back(run, values, totals)
        down = [run.while_running(t, *pair) for pair in zip(new, totals, strict=True)]
        slopes = run.while_running(t, slopes)
        shape = (1, run.rows, 1, cell.gates * run.size)
        found[t] = run.builder.emit(Reshape(slopes, shape))
    return [found[t] for t in range(count)], _stacked(run, down, (1,))


def _step_back(
    run: _Direction, values: Values, totals: Sequence[Value]
) -> tuple[list[Value], Value]:
    """Emit the gradients of the states before a step, and of what it gets from the inputs."""
    cell, builder = run.cell, run.builder
    down: dict[str, Value] = {}
    slopes: dict[int, Value] = {}

    def hand_on(name: str, value: Value) -> None:
        down[name] = builder.emit(Add(down[name], value)) if name in down else value

    ups = dict(zip(cell.states, totals, strict=True))
    for phase in reversed(cell.phases):
        known = values | {UP + name: up for name, up in ups.items()}
        found = inline(backward_step(cell, phase, run.type), builder, known)
        slopes |= {gate: found[f"{DOWN}x{gate}"] for gate in gates_of(found, f"{DOWN}x")}
        for name in cell.states:
            if DOWN + name in found:
                hand_on(name, found[DOWN + name])
        gates = range(phase.first, phase.first + phase.gates)
        parts = [found.get(f"{DOWN}p{g}") or slopes.get(g) or run.zeros(run.size) for g in gates]
        product = emit_concat(builder, parts, 1)
        handed = run.product(product, phase.first, phase.gates, transposed=True)
        ups = {phase.multiplied: handed}
    for name, handed in ups.items():  # to what the first phase has multiplied
        hand_on(name, handed)
    states = [down.get(name) or run.zeros(run.size) for name in cell.states]
    rows = [slopes.get(g) or run.zeros(run.size) for g in range(cell.gates)]
    return states, emit_concat(builder, rows, 1)
