"""Loops whose number of steps is known at import: their bodies are repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx

from glow_nb.base.types import TensorType
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.formats.onnx.importer.unrolling import MAX_STEPS
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value


@onnx_op("Scan", since=8)
def scan_of_batch(ctx: Context, node: OnnxNode) -> tuple[Value, ...]:
    """Run a body over the sequence of each sample, which may end early; zeros follow its results.

    All tensors are ``[batch, ...]``, those to scan and those collected ``[batch, steps, ...]``.
    """
    tensors = tuple(node.operand(index) for index in range(1, len(node.inputs)))
    count = _scanned_count(ctx, node, tensors)
    first, carried = tensors[-1].type.shape, len(tensors) - count
    if len(first) < 2 or any(value.type.shape[:1] != first[:1] for value in tensors):
        raise ctx.wrong(f"operands must be [batch, ...], {tensors[-1]} [batch, steps, ...]")
    ends, lengths = (first[1],) * first[0], node.optional(0)
    if lengths is not None:
        ends = ctx.known_integers(lengths, "'sequence_lens'")
    if len(ends) != first[0] or not all(0 <= end <= first[1] for end in ends):
        raise ctx.wrong(f"sequence_lens {list(ends)} must be {first[0]} numbers up to {first[1]}")
    backward = _directions(ctx, node, "directions", count)
    ctx.check_steps(node.message("body").g, sum(ends))
    samples: list[tuple[Value, ...]] = []
    for place, end in enumerate(ends):
        states = [_slice(ctx, value, 0, place) for value in tensors[:carried]]
        whole = (_slice(ctx, value, 0, place) for value in tensors[carried:])
        scanned = [ctx.part(value, 0, 0, end) for value in whole]
        scan = _Scan(node.message("body").g, (0,) * count, backward)
        final, rows, types = scan.run(ctx, states, scanned, end)
        stacks = [_stack(ctx, row, 0, type) for row, type in zip(rows, types, strict=True)]
        samples.append((*final, *(_padded(ctx, stack, first[1]) for stack in stacks)))
    if not samples:
        raise ctx.unsupported("a batch without samples")
    return tuple(_stack(ctx, values, 0, values[0].type) for values in zip(*samples, strict=True))


def _padded(ctx: Context, value: Value, length: int) -> Value:
    """Return *value* with zeros behind, so that its first axis has *length*."""
    missing, rank = length - value.type.shape[0], value.type.rank
    if not missing:
        return value
    return ctx.emit(ops.Pad(value, pads=(*(0,) * rank, missing, *(0,) * (rank - 1))))


def _scanned_count(ctx: Context, node: OnnxNode, tensors: Sequence[Value]) -> int:
    count = node.integer("num_scan_inputs")
    if not 1 <= count <= len(tensors):
        raise ctx.wrong(f"num_scan_inputs is {count}, it has {len(tensors)} operands")
    return count


@onnx_op("Scan", since=9)
def scan(ctx: Context, node: OnnxNode) -> tuple[Value, ...]:
    """Run a body for each slice of some tensors, carrying state along."""
    count = _scanned_count(ctx, node, node.operands)
    states, scanned = node.operands[:-count], node.operands[-count:]
    axes = _axes(ctx, node, "scan_input_axes", [value.type.rank for value in scanned])
    lengths = {value.type.shape[axis] for value, axis in zip(scanned, axes, strict=True)}
    if len(lengths) != 1:
        raise ctx.wrong(f"the tensors to scan have different lengths {sorted(lengths)}")
    (steps,) = lengths
    backward = _directions(ctx, node, "scan_input_directions", count)
    final, rows, types = _Scan(node.message("body").g, axes, backward).run(
        ctx, states, scanned, steps
    )
    directions = _directions(ctx, node, "scan_output_directions", len(rows))
    rows = [row[::-1] if flag else row for row, flag in zip(rows, directions, strict=True)]
    output_axes = _axes(ctx, node, "scan_output_axes", [type.rank + 1 for type in types])
    return (*final, *map(partial(_stack, ctx), rows, output_axes, types))


@dataclass(frozen=True)
class _Scan:
    """A body, and along which axes it scans tensors and which of them from the end."""

    body: onnx.GraphProto
    axes: Sequence[int]
    backward: Sequence[int]

    def run(
        self, ctx: Context, states: Sequence[Value], scanned: Sequence[Value], steps: int
    ) -> tuple[list[Value], list[list[Value]], list[TensorType]]:
        """Return the last states; what is collected in each step; and the types of that."""
        rows = _collected(ctx, self.body, len(states))
        states = list(states)
        ctx.check_steps(self.body, steps)
        with ctx.unrolling.loop(steps) as count_step:
            for step in range(steps):
                count_step()
                slices = [
                    _slice(ctx, value, axis, steps - 1 - step if is_backward else step)
                    for value, axis, is_backward in zip(
                        scanned, self.axes, self.backward, strict=True
                    )
                ]
                results = ctx.subgraph(self.body, [*states, *slices])
                states = list(results[: len(states)])
                for row, value in zip(rows, results[len(states) :], strict=True):
                    row.append(value)
        any_slices = [_any_slice(ctx, *pair) for pair in zip(scanned, self.axes, strict=True)]
        return states, rows, _types_of_rows(ctx, self.body, rows, [*states, *any_slices])


def _collected(ctx: Context, body: onnx.GraphProto, carried: int) -> list[list[Value]]:
    """Return an empty list for each output of a body after the *carried* ones."""
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
    if steps is not None and steps <= MAX_STEPS and _never_ends_early(body):
        ctx.check_steps(body, steps)
    step = 0
    with ctx.unrolling.loop(steps) as count_step:
        while (steps is None or step < steps) and _holds(ctx, going):
            count_step()
            results = ctx.subgraph(body, _operands(ctx, body, step, going, states))
            going, states = results[0], list(results[1 : 1 + len(states)])
            for row, value in zip(collected, results[1 + len(states) :], strict=True):
                row.append(value)
            step += 1
    types = _types_of_rows(ctx, body, collected, _operands(ctx, body, step, going, states))
    return (
        *states,
        *(_stack(ctx, row, 0, type) for row, type in zip(collected, types, strict=True)),
    )


def _operands(
    ctx: Context, body: onnx.GraphProto, step: int, going: Value, states: Sequence[Value]
) -> list[Value]:
    """Return what the body of a loop reads; exporters declare its scalars as ``[1]``, too."""
    scalars = [ctx.constant(np.array(step, np.int64)), going]
    ranks = [len(info.type.tensor_type.shape.dim) for info in body.input[:2]]
    fitting = [
        ctx.reshape(value, (1,) * rank) if value.type.size == 1 else value
        for value, rank in zip(scalars, ranks, strict=False)
    ]
    return [*fitting, *states]


def _never_ends_early(body: onnx.GraphProto) -> bool:
    """Return whether each step hands on the condition that it got."""
    if len(body.input) < 2:
        return False  # which is reported when it is imported
    given, handed_on = body.input[1].name, body.output[0].name
    return given == handed_on or any(
        node.op_type == "Identity" and (*node.input, *node.output) == (given, handed_on)
        for node in body.node
    )


def _holds(ctx: Context, condition: Value) -> bool:
    return bool(ctx.known(condition, "its condition").any())


def _any_slice(ctx: Context, value: Value, axis: int) -> Value:
    """Return what has the type of a slice of *value*, which may have none."""
    shape = value.type.shape
    return ctx.filled(value.type, 0, (*shape[:axis], *shape[axis + 1 :]))


def _slice(ctx: Context, value: Value, axis: int, place: int) -> Value:
    """Return ``value[..., place, ...]`` without the axis."""
    shape = value.type.shape
    return ctx.reshape(ctx.part(value, axis, place, 1), (*shape[:axis], *shape[axis + 1 :]))


def _types_of_rows(
    ctx: Context, body: onnx.GraphProto, rows: Sequence[list[Value]], operands: Sequence[Value]
) -> list[TensorType]:
    """Return the type of what each step adds to each of *rows*.

    Without a step, that is what a step on *operands* would add; what it emits is dropped.
    """
    if all(rows):
        return [row[0].type for row in rows]
    mark = ctx.builder.mark()
    results = ctx.subgraph(body, operands)
    ctx.builder.reset(mark)
    return [value.type for value in results[-len(rows) :]]


def _stack(ctx: Context, values: Sequence[Value], axis: int, type: TensorType) -> Value:
    """Return *values* of *type* joined along a new axis."""
    shape = type.shape
    if not values:
        return ctx.filled(type, 0, (*shape[:axis], 0, *shape[axis:]))
    rows = tuple(ctx.reshape(value, (*shape[:axis], 1, *shape[axis:])) for value in values)
    return ctx.emit(ops.Concat(rows, axis=axis))
