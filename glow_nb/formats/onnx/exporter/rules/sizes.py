"""Open sizes as numbers."""

from __future__ import annotations

from glow_nb.formats.onnx.exporter.registry import exports
from glow_nb.formats.onnx.exporter.run_time_sizes import NUMBER
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value


@exports(ops.Sizes)
def sizes(ctx: Writer, node: ops.Sizes) -> Value:
    """The sizes, computed from the shapes of inputs."""
    return ctx.integers(node.numbers, "sizes")


@exports(ops.DecideSize)
def decide_size(ctx: Writer, node: ops.DecideSize) -> Value:
    """The number is the size wherever it is computed with."""
    number = ctx.step("Reshape", NUMBER, node.number, ctx.integers([1], "one"))
    if node.decides is not None:
        ctx.decided[node.decides] = number
    return number  # nothing reads the result, which has no elements
