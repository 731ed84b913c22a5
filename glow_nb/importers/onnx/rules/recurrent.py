"""RNN, GRU and LSTM: one step after another, the products with the inputs made for all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from glow_nb.hlir import ops
from glow_nb.hlir.graph import Node, Value
from glow_nb.importers.onnx.context import Context
from glow_nb.importers.onnx.node import OnnxNode
from glow_nb.importers.onnx.registry import onnx_op
from glow_nb.importers.onnx.rules.indexing import reversed_sequences

Function = Callable[[Value], Node]

_ACTIVATIONS: dict[str, Function] = {
    "relu": ops.Relu,
    "tanh": ops.Tanh,
    "sigmoid": ops.Sigmoid,
    "softplus": ops.Softplus,
    "hardsigmoid": ops.HardSigmoid,
    "leakyrelu": ops.LeakyRelu,
    "elu": ops.Elu,
}
_DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@dataclass(frozen=True)
class Cell:
    """One direction of a recurrent layer.

    Attributes:
        ctx: What to build with.
        gates: Gates of the cell: the weights hold them one after another.
        size: Elements of the hidden state.
        recurrent: Weights of the state, ``[H, gates H]``.
        bias: Bias of the state's product, ``[1, gates H]``.
        functions: Activations, in the operator's order.
        clip: Bound of what goes into an activation, None for none.
        peepholes: LSTM: weights ``[1, 3 H]`` from the cell state to i, o and f.
        flag: GRU: linear before reset; LSTM: input and forget gates are coupled.
    """

    ctx: Context
    gates: int
    size: int
    recurrent: Value
    bias: Value
    functions: tuple[Function, ...]
    clip: float | None
    peepholes: Value | None
    flag: bool

    def activate(self, index: int, x: Value) -> Value:
        """Return activation *index* of *x*."""
        if self.clip is not None:
            x = self.ctx.emit(ops.Clip(x, minimum=-self.clip, maximum=self.clip))
        return self.ctx.emit(self.functions[index](x))

    def part(self, x: Value, index: int, count: int = 1) -> Value:
        """Return gates *index* and following of ``[batch, gates H]``."""
        rows = x.type.shape[0]
        columns = (index * self.size, (index + count) * self.size)
        return self.ctx.emit(
            ops.Slice(x, starts=(0, columns[0]), stops=(rows, columns[1]), steps=(1, 1))
        )

    def add(self, lhs: Value, rhs: Value) -> Value:
        """Return a sum."""
        return self.ctx.emit(ops.Add(lhs, rhs))

    def mul(self, lhs: Value, rhs: Value) -> Value:
        """Return a product."""
        return self.ctx.emit(ops.Mul(lhs, rhs))

    def product(self, state: Value) -> Value:
        """Return ``state @ recurrent + bias``."""
        return self.add(self.ctx.emit(ops.MatMul(state, self.recurrent)), self.bias)

    def blend(self, gate: Value, on: Value, off: Value) -> Value:
        """Return ``gate * on + (1 - gate) * off``."""
        rest = self.ctx.emit(ops.Sub(self.ctx.scalar(gate.type, 1), gate))
        return self.add(self.mul(gate, on), self.mul(rest, off))


State = tuple[Value, ...]


def _rnn_step(cell: Cell, inputs: Value, state: State) -> State:
    """``h = f(x W + h R + b)``."""
    return (cell.activate(0, cell.add(inputs, cell.product(state[0]))),)


def _gru_step(cell: Cell, inputs: Value, state: State) -> State:
    """``h = (1 - z) g(...) + z h`` with update gate z and reset gate r."""
    (hidden,) = state
    product = cell.product(hidden)
    gates = cell.add(cell.part(inputs, 0, 2), cell.part(product, 0, 2))
    activated = cell.activate(0, gates)
    update, reset = cell.part(activated, 0), cell.part(activated, 1)
    if cell.flag:
        inner = cell.mul(reset, cell.part(product, 2))
    else:
        # The bias is not reset: take it out of the product.
        kept = cell.mul(reset, hidden)
        weights = cell.part(cell.recurrent, 2)
        plain = cell.ctx.emit(ops.MatMul(kept, weights))
        inner = cell.add(plain, cell.part(cell.bias, 2))
    candidate = cell.activate(1, cell.add(cell.part(inputs, 2), inner))
    return (cell.blend(update, hidden, candidate),)


def _lstm_step(cell: Cell, inputs: Value, state: State) -> State:
    """``c = f c + i g(...)``, ``h = o h(c)`` with gates in the order i, o, f, c."""
    hidden, memory = state
    sums = cell.add(inputs, cell.product(hidden))
    parts = [cell.part(sums, index) for index in range(4)]
    if cell.peepholes is not None:
        for gate, place in ((0, 0), (2, 2)):
            weights = cell.part(cell.peepholes, place)
            parts[gate] = cell.add(parts[gate], cell.mul(weights, memory))
    entering = cell.activate(0, parts[0])
    candidate = cell.activate(1, parts[3])
    if cell.flag:
        memory = cell.blend(entering, candidate, memory)
    else:
        kept = cell.mul(cell.activate(0, parts[2]), memory)
        memory = cell.add(kept, cell.mul(entering, candidate))
    if cell.peepholes is not None:
        parts[1] = cell.add(parts[1], cell.mul(cell.part(cell.peepholes, 1), memory))
    leaving = cell.activate(0, parts[1])
    return cell.mul(leaving, cell.activate(2, memory)), memory


_STEPS = {"RNN": _rnn_step, "GRU": _gru_step, "LSTM": _lstm_step}


@onnx_op("RNN", "GRU", "LSTM")
def recurrent(ctx: Context, node: OnnxNode) -> tuple[Value, ...]:
    """A recurrent layer: ``Y [seq, directions, batch, H]`` and the last states."""
    x, direction = node.operand(0), node.text("direction")
    if direction not in ("forward", "reverse", "bidirectional"):
        raise ctx.wrong(f"direction is {direction!r}; forward, reverse and bidirectional exist")
    if x.type.rank != 3:
        raise ctx.wrong(f"input {x} must be [seq, batch, features]")
    is_batch_first = node.flag("layout", False)
    x = ctx.transpose(x, (1, 0, 2)) if is_batch_first else x
    if not x.type.shape[0]:
        raise ctx.unsupported("a sequence without steps")
    backward = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    rows, lasts = [], []
    for index, is_backward in enumerate(backward):
        row, last = _one_direction(ctx, node, x, index, len(backward), is_backward)
        rows.append(row)
        lasts.append(last)
    outputs = _joined(ctx, rows, 1)
    states = [_joined(ctx, [last[i] for last in lasts], 0) for i in range(len(lasts[0]))]
    if is_batch_first:
        outputs = ctx.transpose(outputs, (2, 0, 1, 3))
        states = [ctx.transpose(state, (1, 0, 2)) for state in states]
    return (outputs, *states)


def _joined(ctx: Context, values: Sequence[Value], axis: int) -> Value:
    return values[0] if len(values) == 1 else ctx.emit(ops.Concat(tuple(values), axis=axis))


def _one_direction(
    ctx: Context, node: OnnxNode, x: Value, index: int, count: int, is_backward: bool
) -> tuple[Value, State]:
    """Return the outputs ``[seq, 1, batch, H]`` and last states ``[1, batch, H]``."""
    steps, batch, _ = x.type.shape
    lengths = node.optional(4)
    x = _reversed(ctx, x, lengths) if is_backward else x
    cell, inputs = _cell(ctx, node, x, index, count)
    state = _initial(ctx, node, cell, index, batch)
    step = _STEPS[node.op]
    hidden: list[Value] = []
    with ctx.unrolling.loop(steps) as count_step:
        for t in range(steps):
            count_step()
            new = step(cell, _rows(ctx, inputs, t * batch, batch), state)
            shown, state = _while_running(ctx, new, state, lengths, t)
            hidden.append(ctx.reshape(shown, (1, 1, batch, cell.size)))
    outputs = _joined(ctx, hidden, 0)
    if is_backward:
        flat = ctx.reshape(outputs, (steps, batch, cell.size))
        outputs = ctx.reshape(_reversed(ctx, flat, lengths), outputs.type.shape)
    return outputs, tuple(ctx.reshape(value, (1, batch, cell.size)) for value in state)


def _rows(ctx: Context, matrix: Value, first: int, count: int) -> Value:
    """Return *count* rows of *matrix*."""
    stops = (first + count, matrix.type.shape[1])
    return ctx.emit(ops.Slice(matrix, starts=(first, 0), stops=stops, steps=(1, 1)))


def _while_running(
    ctx: Context, new: State, old: State, lengths: Value | None, step: int
) -> tuple[Value, State]:
    """Return output and state of a step: zeros and the *old* state where a sample has ended."""
    if lengths is None:
        return new[0], new
    column = ctx.reshape(lengths, (lengths.type.size, 1))
    is_running = ctx.emit(ops.Greater(column, ctx.scalar(column.type, step)))
    shown = ctx.emit(ops.Select(is_running, new[0], ctx.scalar(new[0].type, 0)))
    kept = (
        ctx.emit(ops.Select(is_running, after, before))
        for after, before in zip(new, old, strict=True)
    )
    return shown, tuple(kept)


def _reversed(ctx: Context, x: Value, lengths: Value | None) -> Value:
    """Return ``[seq, batch, ...]`` with time reversed, for each sample within its length."""
    if lengths is not None:
        return ctx.emit(reversed_sequences(ctx, x, lengths, time=0, batch=1))
    shape = x.type.shape
    return ctx.emit(
        ops.Slice(
            x,
            starts=(shape[0] - 1, *(0,) * (len(shape) - 1)),
            stops=(-1, *shape[1:]),
            steps=(-1, *(1,) * (len(shape) - 1)),
        )
    )


def _cell(ctx: Context, node: OnnxNode, x: Value, index: int, count: int) -> tuple[Cell, Value]:
    """Return one direction's cell, and its products ``[seq * batch, gates H]`` with the inputs."""
    gates = _GATES[node.op]
    weights = _of_direction(ctx, node.operand(1), index, count)
    recurrent = _of_direction(ctx, node.operand(2), index, count)
    if recurrent.type.rank != 2 or recurrent.type.shape[0] != gates * recurrent.type.shape[1]:
        raise ctx.wrong(f"weights {node.operand(2)} must be [directions, {gates} H, H]")
    size = recurrent.type.shape[1]
    bias = node.optional(3)
    both = (
        ctx.filled(x.type, 0, (1, 2 * gates * size))
        if bias is None
        else ctx.reshape(_of_direction(ctx, bias, index, count), (1, 2 * gates * size))
    )
    peepholes = node.optional(7)
    if peepholes is not None:
        peepholes = ctx.reshape(_of_direction(ctx, peepholes, index, count), (1, 3 * size))
    flag = {"GRU": "linear_before_reset", "LSTM": "input_forget"}.get(node.op, "")
    cell = Cell(
        ctx,
        gates,
        size,
        ctx.transpose(recurrent, (1, 0)),
        bias=both,
        functions=_functions(ctx, node, index, count),
        clip=node.number("clip") if node.has("clip") else None,
        peepholes=peepholes,
        flag=bool(flag) and node.flag(flag, False),
    )
    input_bias = cell.part(both, 0, gates)
    state_bias = cell.part(both, gates, gates)
    cell = replace(cell, bias=state_bias)
    rows = ctx.reshape(x, (x.type.shape[0] * x.type.shape[1], x.type.shape[2]))
    product = ctx.emit(ops.MatMul(rows, ctx.transpose(weights, (1, 0))))
    return cell, cell.add(product, input_bias)


def _of_direction(ctx: Context, value: Value, index: int, count: int) -> Value:
    """Return ``value[index]`` of a weight whose first axis is the direction."""
    shape = value.type.shape
    if not shape or shape[0] != count:
        raise ctx.wrong(f"{value} must have {count} directions first")
    rest = shape[1:]
    cut = ops.Slice(
        value,
        starts=(index, *(0,) * len(rest)),
        stops=(index + 1, *rest),
        steps=(1,) * len(shape),
    )
    return ctx.reshape(value if count == 1 else ctx.emit(cut), rest)


def _functions(ctx: Context, node: OnnxNode, index: int, count: int) -> tuple[Function, ...]:
    defaults = _DEFAULTS[node.op]
    names = defaults * count
    if node.has("activations"):
        given = node.message("activations").strings
        names = tuple(name.decode("utf-8", "backslashreplace") for name in given)
    if len(names) != len(defaults) * count:
        raise ctx.wrong(f"activations {list(names)} must be {len(defaults)} for each direction")
    if node.has("activation_alpha") or node.has("activation_beta"):
        raise ctx.unsupported("activation_alpha and activation_beta")
    chosen = names[index * len(defaults) : (index + 1) * len(defaults)]
    for name in chosen:
        if name.lower() not in _ACTIVATIONS:
            raise ctx.unsupported(f"activation {name!r}")
    return tuple(_ACTIVATIONS[name.lower()] for name in chosen)


def _initial(ctx: Context, node: OnnxNode, cell: Cell, index: int, batch: int) -> State:
    """Return the first states ``[batch, H]``: operands 5 and, of an LSTM, 6; zeros if absent."""
    states: list[Value] = []
    for place in (5, 6) if node.op == "LSTM" else (5,):
        given = node.optional(place)
        if given is None:
            states.append(ctx.filled(cell.recurrent.type, 0, (batch, cell.size)))
            continue
        if node.flag("layout", False):
            given = ctx.transpose(given, (1, 0, 2))
        count = given.type.shape[0] if given.type.rank else 0
        states.append(_of_direction(ctx, given, index, count))
    return tuple(states)
