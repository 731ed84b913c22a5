"""RNN, GRU and LSTM: one node each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.formats.onnx.importer.sequences import check_lengths
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Value
from glow_nb.hlir.ops.formulas.recurrence.activations import ACTIVATIONS
from glow_nb.hlir.ops.formulas.recurrence.cells import DEFAULTS, GATES
from glow_nb.hlir.ops.recurrence import directions_of

DIRECTIONS = ("forward", "reverse", "bidirectional")
_NAMES = {name.replace("_", ""): name for name in ACTIVATIONS}
"""The names of activations in ONNX, in small letters."""


@onnx_op("RNN", "GRU", "LSTM")
def recurrent(ctx: Context, node: OnnxNode) -> tuple[Value, ...]:
    """A recurrent layer: ``Y [seq, directions, batch, H]`` and the last states."""
    x, weights, matrix = (node.operand(index) for index in range(3))
    cell, direction = node.op.lower(), node.text("direction")
    if direction not in DIRECTIONS:
        raise ctx.wrong(f"direction is {direction!r}; forward, reverse and bidirectional exist")
    if x.type.rank != 3:
        raise ctx.wrong(f"input {x} must be [seq, batch, features]")
    _check_size(ctx, node, matrix, cell)
    hidden, memory = node.optional(5), node.optional(6)
    is_batch_first = node.flag("layout", False)
    if is_batch_first:
        x = ctx.transpose(x, (1, 0, 2))
        hidden, memory = (_transposed(ctx, state) for state in (hidden, memory))
    lengths = _lengths(ctx, node.optional(4), x.type.shape[0])
    operands = (x, weights, matrix, node.optional(3), lengths, hidden, memory, node.optional(7))
    layer = partial(ops.RecurrentLayer, cell=cell, clip=_clip(ctx, node), flag=_flag(node))
    functions = _functions(ctx, node, len(directions_of(direction)))
    if len(set(functions)) == 1:
        made = ctx.emit_all(layer(*operands, direction=direction, **vars(functions[0])))
    else:
        made = _apart(ctx, layer, operands, functions)
    outputs, *states = made
    if is_batch_first:
        outputs = ctx.transpose(outputs, (2, 0, 1, 3))
        states = [ctx.transpose(state, (1, 0, 2)) for state in states]
    return (outputs, *states)


def _check_size(ctx: Context, node: OnnxNode, matrix: Value, cell: str) -> None:
    """Raise ModelError unless the recurrent weights have the required number of rows."""
    shape, gates = matrix.type.shape, GATES[cell]
    if len(shape) != 3 or shape[1] != gates * shape[2]:
        raise ctx.wrong(f"weights {matrix} must be [directions, {gates} H, H]")
    if node.has("hidden_size") and node.integer("hidden_size") != shape[2]:
        raise ctx.wrong(f"hidden_size is {node.integer('hidden_size')}, but weights {matrix}")


def _transposed(ctx: Context, state: Value | None) -> Value | None:
    """Return a state ``[batch, directions, H]`` with the directions first."""
    if state is None or state.type.rank != 3:
        return state
    return ctx.transpose(state, (1, 0, 2))


def _lengths(ctx: Context, lengths: Value | None, steps: int) -> Value | None:
    """Return *lengths*; None if it is known that no sample ends before the last step."""
    if lengths is None:
        return None
    check_lengths(ctx, lengths, steps)
    ends_nowhere = isinstance(lengths, Constant) and all(n == steps for n in lengths.array.flat)
    return None if ends_nowhere else lengths


def _clip(ctx: Context, node: OnnxNode) -> float:
    """Return the bound of what goes into an activation, 0 for none."""
    clip = node.number("clip") if node.has("clip") else 0.0
    if not clip >= 0:
        raise ctx.wrong(f"clip is {clip}; give a positive number, or leave it out for none")
    return 0.0 if clip == np.inf else clip


def _flag(node: OnnxNode) -> bool:
    name = {"GRU": "linear_before_reset", "LSTM": "input_forget"}.get(node.op, "")
    return bool(name) and node.flag(name, False)


@dataclass(frozen=True)
class Functions:
    """The activations of one direction, with their numbers."""

    activations: tuple[str, ...]
    alpha: tuple[float, ...]
    beta: tuple[float, ...]


def _functions(ctx: Context, node: OnnxNode, directions: int) -> list[Functions]:
    """Return the activations of each direction."""
    count = len(DEFAULTS[node.op.lower()])
    names = DEFAULTS[node.op.lower()] * directions
    if node.has("activations"):
        names = node.texts("activations")
    if len(names) != count * directions:
        raise ctx.wrong(f"activations {list(names)} must be {count} for each direction")
    for name in names:
        if name.lower() not in _NAMES:
            raise ctx.unsupported(f"activation {name!r}; there are {', '.join(sorted(_NAMES))}")
    names = tuple(_NAMES[name.lower()] for name in names)
    known = [ACTIVATIONS[name] for name in names]
    alpha = _numbers(ctx, node, "activation_alpha", [each.alpha for each in known])
    beta = _numbers(ctx, node, "activation_beta", [each.beta for each in known])
    cuts = [slice(d * count, (d + 1) * count) for d in range(directions)]
    return [Functions(names[cut], alpha[cut], beta[cut]) for cut in cuts]


def _numbers(
    ctx: Context, node: OnnxNode, name: str, defaults: Sequence[float | None]
) -> tuple[float, ...]:
    """Return the numbers called *name* of all functions, 0 for one that has none.

    The functions that have one take theirs in order; the default is for those that are left. If
    there are as many as functions, each has its own.
    """
    given = node.numbers(name) if node.has(name) else ()
    takers = [index for index, default in enumerate(defaults) if default is not None]
    if len(given) == len(defaults):
        takers = list(range(len(defaults)))
    if len(given) > len(takers):
        raise ctx.wrong(f"{name} has {len(given)} numbers, but its functions take {len(takers)}")
    if not np.isfinite(given).all():
        raise ctx.wrong(f"{name} is {list(given)}, but must be finite")
    found = dict(zip(takers, given, strict=False))
    return tuple(
        found.get(index, default) if default is not None else 0.0
        for index, default in enumerate(defaults)
    )


def _apart(
    ctx: Context,
    layer: Callable[..., ops.RecurrentLayer],
    operands: Sequence[Value | None],
    functions: Sequence[Functions],
) -> tuple[Value, ...]:
    """Return what two layers of one direction each give, joined."""
    x, *weights, lengths, hidden, memory, peepholes = operands
    results = []
    for index, (direction, each) in enumerate(zip(DIRECTIONS, functions, strict=False)):
        cut = [_of_direction(ctx, value, index) for value in (*weights, hidden, memory, peepholes)]
        node = layer(x, *cut[:3], lengths, *cut[3:], direction=direction, **vars(each))
        results.append(ctx.emit_all(node))
    axes = (1, 0, 0)
    return tuple(
        ctx.emit(ops.Concat(pair, axis=axis))
        for pair, axis in zip(zip(*results, strict=True), axes, strict=False)
    )


def _of_direction(ctx: Context, value: Value | None, index: int) -> Value | None:
    """Return the part of a weight or state that one direction has."""
    if value is None or value.type.shape[:1] != (2,):
        return value  # which the layer refuses
    shape = value.type.shape
    starts, stops = (index, *(0,) * (len(shape) - 1)), (index + 1, *shape[1:])
    return ctx.emit(ops.Slice(value, starts=starts, stops=stops, steps=(1,) * len(shape)))
