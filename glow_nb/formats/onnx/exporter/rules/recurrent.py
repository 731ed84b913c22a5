"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glow_nb.formats.onnx.exporter.registry import exports
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.formulas.recurrence.activations import ACTIVATIONS
from glow_nb.hlir.ops.formulas.recurrence.cells import GRU, LSTM, Cell
from glow_nb.hlir.ops.recurrence import directions_of

_FLAGS = {GRU: "linear_before_reset", LSTM: "input_forget"}


def _has_elements(node: ops.RecurrentLayer) -> bool:
    """Return whether no axis is empty, of which ONNX says little."""
    return node.type.size > 0 and node.input.type.size > 0


@exports(ops.RecurrentLayer, says=_has_elements)
def recurrent_layer(ctx: Writer, node: ops.RecurrentLayer) -> tuple[Value, ...]:
    """A recurrent layer with its weights."""
    weights = node.weights or _identities(ctx, node)
    operands = [node.input, weights, node.recurrent, node.bias, node.lengths, node.hidden]
    if node.cell == LSTM:
        operands += [node.memory, node.peepholes]
    return ctx.steps(node.cell.upper(), node.result_types, *operands, **_attributes(node))


def _identities(ctx: Writer, node: ops.RecurrentLayer) -> Value:
    """Return weights that hand each direction what its gates get."""
    directions, width, _ = node.recurrent.type.shape
    whole = np.eye(directions * width, dtype=node.type.kind.dtype)
    return ctx.constant(whole.reshape(directions, width, directions * width))


def _attributes(node: ops.RecurrentLayer) -> dict[str, Any]:
    found: dict[str, Any] = {
        "hidden_size": node.recurrent.type.shape[2],
        "direction": node.direction,
    }
    if node.clip:
        found["clip"] = node.clip
    if node.flag:
        found[_FLAGS[node.cell]] = 1
    cell, directions = Cell.of(node), len(directions_of(node.direction))
    names = [name.title().replace("_", "") for name in cell.activations]
    found["activations"] = names * directions
    known = [ACTIVATIONS[name] for name in cell.activations] * directions
    alpha = _numbers(cell.alpha * directions, [each.alpha for each in known])
    beta = _numbers(cell.beta * directions, [each.beta for each in known])
    if alpha:
        found["activation_alpha"] = alpha
    if beta:
        found["activation_beta"] = beta
    return found


def _numbers(numbers: Sequence[float], defaults: Sequence[float | None]) -> list[float]:
    """Return the numbers of the functions that take one, up to the last one that is no default."""
    pairs = [(x, y) for x, y in zip(numbers, defaults, strict=True) if y is not None]
    while pairs and pairs[-1][0] == pairs[-1][1]:
        pairs.pop()
    return [x for x, _ in pairs]
