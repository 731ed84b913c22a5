"""Small networks, whole and in parts, for the tests of the host."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

import glow_nb
from glow_nb.backends.interpreter import Interpreter
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Add, Mul
from glow_nb.network.compilation import build_program, lower_for
from glow_nb.runtime.deploy import compile_part
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.planning.partitioning import Part, Partitioning

DEVICE = DeviceDescription("any", "simulated", "interpreter")


def scaled(factor: float, *, rows: int = 1, read: str = "x", made: str = "y") -> Function:
    """Return ``made = read * factor`` for ``float32<rows x 2>``."""
    builder = glow_nb.Builder(f"scaled_{made}")
    x = builder.input(read, f"float32<{rows} x 2>")
    y = builder.constant("factor", np.full((rows, 2), factor, np.float32))
    builder.save(builder.emit(Mul(x, y)), made)
    return builder.function()


def summed(left: str, right: str, made: str) -> Function:
    """Return ``made = left + right`` for ``float32<1 x 2>``."""
    builder = glow_nb.Builder(f"summed_{made}")
    x, y = (builder.input(name, "float32<1 x 2>") for name in (left, right))
    builder.save(builder.emit(Add(x, y)), made)
    return builder.function()


def running_sum() -> Function:
    """Return ``y = total = total + x``: a network with state."""
    builder = glow_nb.Builder("running_sum")
    x = builder.input("x", "float32<1 x 2>")
    total = builder.state("total", np.zeros((1, 2), np.float32))
    new = builder.emit(Add(total, x))
    builder.save(new, "y")
    builder.update(total, new)
    return builder.function()


def planned(functions: Sequence[Function], devices: Sequence[str]) -> Partitioning:
    """Return a plan of *functions* on *devices* by name; it takes ``x`` and gives ``y``."""
    parts = []
    for function, device in zip(functions, devices, strict=True):
        program = build_program(lower_for(function, Interpreter()), Interpreter())
        network = compile_part(function, DEVICE)
        sizes = (network.constant_bytes, network.run_bytes)
        parts.append(Part(function.name, program, device, *sizes, 0.001))
    type = TensorType(ElementKind.FLOAT32, (1, 2))
    names = {device: DeviceDescription(device) for device in devices}
    return Partitioning(
        "plan", (("x", type),), (("y", type),), tuple(parts), names, "latency", 1.0, 1.0
    )


def pipeline(*devices: str) -> Partitioning:
    """Return a chain, one part on each of *devices*: ``y = x * 2 ** parts``."""
    names = ["x", *(f"v{index}" for index in range(1, len(devices))), "y"]
    functions = [scaled(2.0, read=read, made=made) for read, made in pairwise(names)]
    return planned(functions, devices)


def diamond(*devices: str) -> Partitioning:
    """Return ``y = 2 x + 3 x`` in four parts on *devices*, two of them side by side."""
    functions = [
        scaled(1.0, made="a"),
        scaled(2.0, read="a", made="b"),
        scaled(3.0, read="a", made="c"),
        summed("b", "c", "y"),
    ]
    return planned(functions, devices)


def row(number: float) -> dict[str, Array]:
    """Return what the networks here are fed: one row of twice *number*."""
    return {"x": np.full((1, 2), number, np.float32)}
