"""Loops whose number of steps is known at import: their bodies are repeated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

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
    backward = _directions(ctx, node, "scan_input_directions", count)
    collected = _collected(ctx, body, len(states))
    ctx.check_steps(body, steps)
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
    directions = _directions(ctx, node, "scan_output_directions", len(collected))
    rows = [row[::-1] if flag else row for row, flag in zip(collected, directions, strict=True)]
    axes = _axes(
        ctx, node, "scan_output_axes", [row[0].type.rank + 1 if row else 1 for row in rows]
    )
    stacked = (_stack(ctx, row, axis) for row, axis in zip(rows, axes, strict=True))
    return (*states, *stacked)


def _collected(ctx: Context, body: onnx.GraphProto, carried: int) -> list[list[Value]]:
    """Return an empty list for each output of a body behind the *carried* ones."""
    if len(body.output) < carried:
        raise ctx.wrong(f"its graph has {len(body.output)} outputs, it must have {carried} or more")
    return [[] for _ in range(len(body.output) - carried)]


def _directions(ctx: Context, node: OnnxNode, name: str, count: int) -> tuple[int, ...]:
    """Return an attribute that says for each of *count* tensors whether it runs backward."""
    directions = node.integers(name, (0,) * count)
    if len(directions) != count or not {0, 1}.issuperset(directions):
        raise ctx.wrong(f"{name} {list(directions)} must be {count} numbers, each 0 or 1")
    return directions


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
        steps = ctx.known_integer(limit, "the number of steps")
    collected = _collected(ctx, body, 1 + len(states))
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
