"""How near do kernels that move much and compute little come to the rate of the memory?

Each row of the table is a network of one operator over tensors that no cache holds: operands and
results take several times as many bytes as the last-level cache. Bytes are counted once for each
operand and each result, and the rate is given as a share of the rate at which this machine copies
such memory (``glow-nb machine``), measured in turn with the kernel::

    python -m experiments.benchmarks.bandwidth
    python -m experiments.benchmarks.bandwidth --only softmax transpose --threads 1
    python -m experiments.benchmarks.bandwidth --data docs/measurements.json

The last form puts the table into the measurements, and writes their page anew.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import glow_nb
from experiments.arguments import thread_count
from experiments.benchmarks.printing import processor
from experiments.benchmarks.results import record
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.codegen.measure_limits import MemoryProbes
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value
from glow_nb.kernels.target import Target
from glow_nb.network.network import CompiledNetwork

CACHES = 4
"""Operands and results of a row together take about so many last-level caches."""

RUNS = 3
"""Runs of a kernel in each round."""

Shape = tuple[int, ...]
Write = Callable[[Builder, Sequence[Value]], Node]
"""Emits the nodes of a row on its inputs; returns the last one."""


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Attributes:
        group: Kind of operator.
        name: What is computed.
        shapes: Of the inputs; one size of 0 is chosen such that the tensors are large enough.
        write: Emits the nodes.
        share: The largest input's part of all bytes.
        kind: Of the inputs.
    """

    group: str
    name: str
    shapes: tuple[Shape, ...]
    write: Write
    share: float = 0.5
    kind: ElementKind = ElementKind.FLOAT32

    def sized(self, size_bytes: int) -> tuple[Shape, ...]:
        """Return the shapes of the inputs such that all tensors take about *size_bytes*."""
        rest = prod(size or 1 for size in self.shapes[0]) * self.kind.size_bytes
        free = max(1, round(size_bytes * self.share / rest))
        return tuple(tuple(size or free for size in shape) for shape in self.shapes)


def cases() -> Iterator[Case]:
    """Yield the rows."""
    yield from _softmaxes()
    yield from _normalizations()
    yield from _reductions()
    yield from _transposes()
    yield from _elementwise()
    yield from _copies()


def _unary(make: Callable[..., Node], *attributes: Any) -> Write:
    """Emit ``make(input, *attributes)``."""
    return lambda builder, inputs: builder.emit(make(inputs[0], *attributes))


def _softmaxes() -> Iterator[Case]:
    for shape, axis in (
        ((0, 10), 1), ((0, 64), 1), ((0, 197), 1), ((0, 1000), 1), ((0, 4096), 1), ((0, 50257), 1),
        ((0, 21, 4096), 1), ((0, 256, 49), 1), ((1000, 0), 0), ((21, 0), 0),
    ):  # fmt: skip
        yield Case("softmax", f"axis {axis}", (shape,), _unary(ops.Softmax, axis))
    yield Case("softmax", "logarithm", ((0, 1000),), _unary(ops.LogSoftmax, 1))


def _normalizations() -> Iterator[Case]:
    def write(builder: Builder, inputs: Sequence[Value]) -> Node:
        shape = inputs[0].type.shape[1:]
        scale, bias = (
            builder.constant(name, np.full(shape, 0.5, np.float32)) for name in ("scale", "bias")
        )
        return builder.emit(ops.LayerNormalization(inputs[0], scale, bias, axis=1, epsilon=1e-5))

    for shape in ((0, 64), (0, 197), (0, 768), (0, 1024), (0, 4096), (0, 56, 64)):
        yield Case("layer normalization", "after axis 0", (shape,), write)


def _reductions() -> Iterator[Case]:
    sums: tuple[tuple[Shape, Shape], ...] = (
        ((0, 8), (1,)), ((0, 64), (1,)), ((0, 1000), (1,)), ((16, 0), (1,)), ((1000, 0), (0,)),
        ((0, 16), (0,)), ((0, 1000), (0,)), ((0, 49, 512), (1,)), ((0, 512, 49), (2,)),
        ((0, 64, 49), (1,)), ((64, 0, 64), (0, 2)), ((0,), (0,)),
    )  # fmt: skip
    for shape, axes in sums:
        yield Case("reduction", f"sum {axes}", (shape,), _unary(ops.ReduceSum, axes, False), 1.0)
    yield Case("reduction", "maximum (1,)", ((0, 1000),), _unary(ops.ReduceMax, (1,), False), 1.0)
    yield Case(
        "reduction", "mean (1, 2)", ((0, 7, 7, 512),), _unary(ops.ReduceMean, (1, 2), False), 1.0
    )


def _transposes() -> Iterator[Case]:
    for shape, order in (
        ((4096, 0), (1, 0)), ((0, 4100), (1, 0)), ((0, 3), (1, 0)), ((3, 0), (1, 0)),
        ((0, 3, 224, 224), (0, 2, 3, 1)), ((0, 224, 224, 3), (0, 3, 1, 2)),
        ((0, 64, 56, 56), (0, 2, 3, 1)), ((0, 56, 56, 64), (0, 3, 1, 2)),
        ((0, 512, 28, 28), (0, 2, 3, 1)), ((0, 28, 28, 512), (0, 3, 1, 2)),
        ((0, 2048, 7, 7), (0, 2, 3, 1)), ((0, 7, 7, 2048), (0, 3, 1, 2)),
        ((0, 128, 12, 64), (0, 2, 1, 3)), ((0, 12, 128, 64), (0, 1, 3, 2)),
    ):  # fmt: skip
        yield Case("transpose", str(order), (shape,), _unary(ops.Transpose, order))


def _elementwise() -> Iterator[Case]:
    flat = (0,)
    for node in (ops.Relu, ops.Sigmoid, ops.Tanh, ops.Exp, ops.Gelu, ops.Erf):
        yield Case("elementwise", node.opcode, (flat,), _unary(node))

    def add(builder: Builder, inputs: Sequence[Value]) -> Node:
        return builder.emit(ops.Add(*inputs))

    def scaled(builder: Builder, inputs: Sequence[Value]) -> Node:
        return builder.emit(ops.Add(builder.emit(ops.Mul(*inputs[:2])), inputs[2]))

    yield Case("elementwise", "a + b", (flat, flat), add, 1 / 3)
    yield Case("elementwise", "a * b + c", (flat, flat, flat), scaled, 1 / 4)
    yield Case("elementwise", "a + row", ((0, 1000), (1, 1000)), add)
    yield Case("elementwise", "a + column", ((0, 1000), (0, 1)), add)
    yield Case("elementwise", "a + channel", ((0, 64, 49), (1, 64, 1)), add)


def _copies() -> Iterator[Case]:
    def concat(axis: int) -> Write:
        return lambda builder, inputs: builder.emit(ops.Concat(tuple(inputs), axis))

    def kept(shape: Shape, starts: Shape) -> Write:
        def write(builder: Builder, inputs: Sequence[Value]) -> Node:
            stops = tuple(size - 1 for size in inputs[0].type.shape)
            return builder.emit(ops.Slice(inputs[0], starts, stops, (1,) * len(starts)))

        return write

    yield Case("copy", "concat 0", ((0,), (0,)), concat(0), 1 / 4)
    yield Case("copy", "concat 1", ((0, 64), (0, 64)), concat(1), 1 / 4)
    yield Case("copy", "concat 1", ((0, 1000), (0, 1000)), concat(1), 1 / 4)
    yield Case("copy", "slice", ((0, 66, 64),), kept((), (1, 1, 0)))
    yield Case("copy", "slice", ((0, 1000),), kept((), (1, 1)))
    for shape, pads in (((0, 56, 56, 64), (0, 1, 1, 0) * 2), ((0, 64, 56, 56), (0, 0, 1, 1) * 2)):
        yield Case("copy", f"pad {pads[:4]}", (shape,), _unary(ops.Pad, pads))
    yield Case("copy", "broadcast", ((1, 1000), (0, 1)), _spread, 1.0)


def _spread(builder: Builder, inputs: Sequence[Value]) -> Node:
    row, column = inputs
    return builder.emit(ops.Broadcast(row, (column.type.shape[0], row.type.shape[1])))


def network(case: Case, size_bytes: int, threads: int) -> CompiledNetwork:
    """Return the network of *case* with tensors of about *size_bytes* in all."""
    builder = Builder("row")
    shapes = case.sized(size_bytes)
    inputs = [builder.input(f"x{i}", TensorType(case.kind, s)) for i, s in enumerate(shapes)]
    builder.save(case.write(builder, inputs), "y")
    net = glow_nb.compile(builder.function(), threads=threads)
    assert isinstance(net, CompiledNetwork)
    return net


def moved_bytes(net: CompiledNetwork) -> int:
    """Return the bytes of all inputs and outputs."""
    return sum(type.size_bytes for type in (*net.inputs.values(), *net.outputs.values()))


def share(net: CompiledNetwork, probes: MemoryProbes, block_bytes: int, rounds: int) -> float:
    """Return the rate of *net* over that of a copy: best times of *rounds*, in turn."""
    rng = np.random.default_rng(0)
    feeds: dict[str, Array] = {
        name: rng.random(type.shape, np.float32) for name, type in net.inputs.items()
    }
    best, copy_rate = np.inf, 0.0
    for _ in range(rounds):
        copy_rate = max(copy_rate, probes.copy.byte_rate(block_bytes))
        best = min(best, *net.profile(feeds, runs=RUNS, limits=False).timings.plain_seconds)
    return moved_bytes(net) / best / copy_rate


def line(case: Case, nets: Sequence[CompiledNetwork], shares: Sequence[float]) -> str:
    """Return the row of *case* in a table in Markdown."""
    shapes = ", ".join(
        " x ".join(map(str, type.shape)) for type in nets[0].inputs.values() if type.rank
    )
    cells = [case.group, case.name, shapes, str(moved_bytes(nets[0]) >> 20)]
    return "| " + " | ".join([*cells, *(f"{each:.2f}" for each in shares)]) + " |"


def heading(threads: Sequence[int]) -> str:
    """Return the lines above the rows."""
    columns = " | ".join(f"{n} thread{'s' * (n != 1)}" for n in threads)
    return (
        f"{processor()}, float32; ratio to the bandwidth of a copy.\n\n"
        f"| kernel | what | shapes | MiB | {columns} |\n"
        f"|---|---|---|---:|{'---:|' * len(threads)}"
    )


def main() -> None:
    """Print the table, or put it into the measurements."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    groups = list(dict.fromkeys(case.group for case in cases()))
    parser.add_argument(
        "--only", nargs="+", choices=groups, default=groups, help="kinds of kernels"
    )
    parser.add_argument(
        "--threads", nargs="+", type=thread_count, default=[1, 2], help="a column for each"
    )
    parser.add_argument("--rounds", type=int, default=3, help="the best of these counts")
    parser.add_argument("--data", type=Path, help="file of measurements")
    options = parser.parse_args()
    target = Target.host()
    size_bytes = CACHES * target.l3_bytes
    blocks = {n: size_bytes // n for n in options.threads}
    probes = {n: MemoryProbes(n, target, block) for n, block in blocks.items()}
    lines = [heading(options.threads)]
    print(lines[0])
    for case in (case for case in cases() if case.group in options.only):
        nets = [network(case, size_bytes, n) for n in options.threads]
        shares = [
            share(net, probes[net.threads], blocks[net.threads], options.rounds) for net in nets
        ]
        lines.append(line(case, nets, shares))
        print(lines[-1], flush=True)
    if options.data is not None:
        record(options.data, "bandwidth", "\n".join(lines).splitlines())


if __name__ == "__main__":
    main()
