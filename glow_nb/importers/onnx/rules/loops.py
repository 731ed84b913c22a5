"""Loops whose number of steps is known at import: their bodies are repeated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.importers.onnx.context import Context
from glow_nb.importers.onnx.node import OnnxNode
from glow_nb.importers.onnx.registry import onnx_op


@onnx_op("Scan", since=9)
def scan(ctx: Context, node: OnnxNode) -> tuple[Value, ...]:
    """Run a body for each slice of some tensors, carrying state along."""
    body = node.message("body").g
    count = node.integer("num_scan_inputs")
    states, scanned = list(node.operands[: len(node.inputs) - count]), node.operands[-count:]
    if not 1 <= count <= len(node.inputs):
        raise ctx.wrong(f"num_scan_inputs is {count}, it has {len(node.inputs)} operands")
    axes = _axes(ctx, node, "scan_input_axes", [value.type.rank for value in scanned])
    lengths = {value.type.shape[axis] for value, axis in zip(scanned, axes, strict=True)}
    if len(lengths) != 1:
        raise ctx.wrong(f"the tensors to scan have different lengths {sorted(lengths)}")
    (steps,) = lengths
    backward = node.integers("scan_input_directions", (0,) * count)
    collected: list[list[Value]] = [[] for _ in range(len(body.output) - len(states))]
    with ctx.unrolling.loop(steps) as count_step:
        for step in range(steps):
            count_step()
            slices = [
                _slice(ctx, value, axis, steps - 1 - step if is_backward else step)
                for value, axis, is_backward in zip(scanned, axes, backward, strict=True)
            ]
            results = ctx.subgraph(body, [*states, *slices])
            states = list(results[: len(states)])
            for row, value in zip(collected, results[len(states) :], strict=True):
                row.append(value)
    directions = node.integers("scan_output_directions", (0,) * len(collected))
    rows = [row[::-1] if flag else row for row, flag in zip(collected, directions, strict=False)]
    axes = _axes(
        ctx, node, "scan_output_axes", [row[0].type.rank + 1 if row else 1 for row in rows]
    )
    stacked = (_stack(ctx, row, axis) for row, axis in zip(rows, axes, strict=True))
    return (*states, *stacked)


def _axes(ctx: Context, node: OnnxNode, name: str, ranks: Sequence[int]) -> list[int]:
    axes = node.integers(name, (0,) * len(ranks))
    if len(axes) != len(ranks):
        raise ctx.wrong(f"{name} {list(axes)} must have {len(ranks)} numbers")
    return [ctx.axis(axis, rank) for axis, rank in zip(axes, ranks, strict=True)]


@onnx_op("Loop")
def loop(ctx: Context, node: OnnxNode) -> tuple[Value, ...]:
    """Run a body a known number of times, or as long as a condition known at import holds."""
    body = node.message("body").g
    limit, condition = node.optional(0), node.optional(1)
    states = [node.operand(index) for index in range(2, len(node.inputs))]
    steps = None
    if limit is not None:
        steps = int(ctx.known(limit, "the number of steps").reshape(-1)[0])
    collected: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(states))]
    going = condition if condition is not None else ctx.constant(np.array(True))
    step = 0
    with ctx.unrolling.loop(steps) as count_step:
        while (steps is None or step < steps) and _holds(ctx, going):
            count_step()
            results = ctx.subgraph(body, [ctx.constant(np.array(step, np.int64)), going, *states])
            going, states = results[0], list(results[1 : 1 + len(states)])
            for row, value in zip(collected, results[1 + len(states) :], strict=True):
                row.append(value)
            step += 1
    return (*states, *(_stack(ctx, row, 0) for row in collected))


def _holds(ctx: Context, condition: Value) -> bool:
    return bool(ctx.known(condition, "its condition").any())


def _slice(ctx: Context, value: Value, axis: int, place: int) -> Value:
    """Return ``value[..., place, ...]`` without the axis."""
    shape = value.type.shape
    return ctx.reshape(ctx.part(value, axis, place, 1), (*shape[:axis], *shape[axis + 1 :]))


def _stack(ctx: Context, values: Sequence[Value], axis: int) -> Value:
    """Return *values* joined along a new axis."""
    if not values:
        raise ctx.unsupported("a collected output of a loop without steps")
    shape = values[0].type.shape
    rows = tuple(ctx.reshape(value, (*shape[:axis], 1, *shape[axis:])) for value in values)
    return ctx.emit(ops.Concat(rows, axis=axis))
