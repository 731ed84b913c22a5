"""Small networks in parts for a host, and pictures of what its devices did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

import glow_nb
from glow_nb.backends import backend_named
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Concat, MatMul, Relu
from glow_nb.network.compilation import build_program, lower_for
from glow_nb.network.pictures.style import frame, ink_on
from glow_nb.runtime.deploy import compile_part
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.hosting.tracer import TracedRun
from glow_nb.runtime.planning.partitioning import Part, Partitioning

ROWS, WIDTH = 256, 256
ACTIVATION = TensorType(ElementKind.FLOAT32, (ROWS, WIDTH))
LABEL_WIDTH = 0.018
"""The shortest bar that names its part, as a share of the time that is drawn."""


@dataclass(frozen=True)
class Block:
    """A part of a network: dense layers.

    Attributes:
        name: Of the part, and of the value that it makes.
        reads: The values that it reads; several are put side by side.
        layers: How many layers it has.
        device: Where it is to run.
    """

    name: str
    reads: tuple[str, ...]
    layers: int
    device: str

    def function(self) -> Function:
        """Return its graph; each value is ``float32<256 x 256>``."""
        builder = glow_nb.Builder(self.name)
        inputs = tuple(builder.input(name, ACTIVATION) for name in self.reads)
        value: Value = inputs[0]
        if len(inputs) > 1:
            value = builder.emit(Concat(inputs, axis=1))
        for layer in range(self.layers):
            rng = np.random.default_rng(layer)
            shape = (value.type.shape[1], WIDTH)
            weight = (rng.normal(size=shape) / shape[0] ** 0.5).astype(np.float32)
            value = builder.emit(
                Relu(builder.emit(MatMul(value, builder.constant("weight", weight))))
            )
        builder.save(value, self.name)
        return builder.function()


def plan(
    name: str, blocks: Sequence[Block], devices: Mapping[str, DeviceDescription]
) -> Partitioning:
    """Return the network of *blocks*, which reads ``x`` and gives what the last one makes."""
    parts = []
    for block in blocks:
        device, function = devices[block.device], block.function()
        backend = backend_named(device.backend, threads=device.cores)
        program = build_program(lower_for(function, backend), backend)
        network = compile_part(function, device)
        memory = network.constant_bytes, network.run_bytes
        parts.append(Part(f"{name}.{block.name}", program, block.device, *memory, 1e-4))
    inputs, outputs = (("x", ACTIVATION),), ((blocks[-1].name, ACTIVATION),)
    used = {block.device: devices[block.device] for block in blocks}
    return Partitioning(name, inputs, outputs, tuple(parts), used, "throughput", 1.0, 1.0)


def draw_runs(
    axes: Axes, runs: Iterable[TracedRun], rows: Sequence[str], colour: Mapping[object, str]
) -> None:
    """Draw each run as a bar in the row of its device; one that is long enough names its part.

    *colour* is that of its network by name, or of its request by number.
    """
    runs = list(runs)
    start = min(run.began for run in runs)
    span = 1e3 * (max(run.ended for run in runs) - start)
    for run in runs:
        begin, length = 1e3 * (run.began - start), 1e3 * (run.ended - run.began)
        row = rows.index(run.device)
        shade = colour.get(run.flow.name) or colour[run.execution]
        axes.barh(row, length, left=begin, height=0.7, color=shade, edgecolor="white", lw=0.5)
        label = run.flow.parts[run.part].deployable.name.rpartition(".")[2]
        if length < LABEL_WIDTH * span:
            continue
        axes.text(
            begin + length / 2, row, label,
            ha="center", va="center", fontsize=7, color=ink_on(shade), clip_on=True,
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds since the first run")
    frame(axes)
    axes.grid(axis="x", color="white")
