"""No part needs less memory or time than is estimated for it before it is made."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Concat, MatMul, Mul, Slice
from glow_nb.network.compilation import lower_for
from glow_nb.runtime.deploy import backend_of
from glow_nb.runtime.planning.candidate_parts import CandidateParts
from glow_nb.runtime.planning.costs import kernel_seconds
from glow_nb.runtime.planning.cuts import all_cuts
from glow_nb.runtime.planning.fleet import Fleet, fleet_of
from glow_nb.runtime.planning.planner import Planner
from glow_nb.runtime.planning.split import stacked_program
from glow_nb.runtime.planning.spread import Placed
from glow_nb.runtime.planning.units import units_of
from tests.unit.runtime.networks import branches, devices, product, residual


def dense(depth: int = 3, width: int = 32) -> Function:
    """Return a network in which each layer reads all before it, put together again and again."""
    b = Builder("dense")
    x: Value = product(b, b.input("x", f"float32<8 x {width}>"), width)
    for _ in range(depth):
        x = b.emit(Concat((x, product(b, product(b, x, width), width)), 1))
    b.save(product(b, x, width), "y")
    return b.function()


def gathered(width: int = 32) -> Function:
    """Return a network whose concats each take all that was made before."""
    b = Builder("gathered")
    made: list[Value] = [product(b, b.input("x", f"float32<8 x {width}>"), width)]
    for _ in range(3):
        together = b.emit(Concat(tuple(made), 1)) if len(made) > 1 else made[0]
        made.append(product(b, together, width))
    b.save(product(b, b.emit(Concat((made[0], made[2]), 0)), width), "y")
    return b.function()


def cached(width: int = 64) -> Function:
    """Return a step that appends a row to rows of the caller."""
    b = Builder("cached")
    past = b.input("past", f"float32<31 x {width}>")
    row = product(b, b.input("x", f"float32<1 x {width}>"), width)
    rows = b.emit(Concat((past, product(b, row, width)), 0))
    b.save(rows, "present")
    b.save(b.emit(MatMul(rows, b.constant("w", np.ones((width, width), np.float32)))), "y")
    return b.function()


def cut_twice() -> Function:
    """Return a network that gives the same rows of a product as two outputs, beside another."""
    b = Builder("cut_twice")
    x = product(b, b.input("x", "float32<64 x 32>"), 32)
    for name in ("first", "second"):
        b.save(b.emit(Slice(x, (0, 0), (32, 32), (1, 1))), name)
    b.save(product(b, x, 32), "y")
    return b.function()


def overlapping(rows: int) -> Function:
    """Return a network that reads the first *rows* of 64 and the last ones by themselves."""
    b = Builder("overlapping")
    x = product(b, b.input("x", "float32<64 x 32>"), 32)
    first = b.emit(Slice(x, (0, 0), (rows, 32), (1, 1)))
    second = b.emit(Slice(x, (64 - rows, 0), (64, 32), (1, 1)))
    y = b.emit(Mul(product(b, first, 32), product(b, second, 32)))
    b.save(product(b, y, 32), "y")
    return b.function()


def cut_again() -> Function:
    """Return a network that cuts an input and a product, and cuts again what it has cut."""
    b = Builder("cut_again")
    given = b.input("x", "float32<64 x 32>")
    x = product(b, given, 32)
    y = b.emit(Slice(x, (0, 0), (48, 32), (1, 1)))
    parts = [b.emit(Slice(one, (0, 0), (16, 32), (1, 1))) for one in (given, x, y)]
    early = product(b, b.emit(Concat(tuple(parts), 0)), 32)
    both = product(b, b.emit(Mul(product(b, y, 32), early)), 32)
    b.save(b.emit(Mul(both, product(b, b.emit(Slice(x, (8, 0), (56, 32), (1, 1))), 32))), "y")
    b.save(product(b, x, 32), "z")
    return b.function()


def cut_and_joined() -> Function:
    """Return a network that reads a product as a whole, in parts, and in two concats."""
    b = Builder("cut_and_joined")
    x = product(b, b.input("x", "float32<64 x 32>"), 32)
    u = product(b, x, 32)
    one, other = (b.emit(Concat(pair, 1)) for pair in ((x, u), (u, x)))
    y = b.emit(Mul(product(b, one, 32), product(b, other, 32)))
    z = product(b, b.emit(Slice(x, (1, 0), (63, 32), (1, 1))), 32)
    b.save(product(b, b.emit(Concat((y, z, product(b, z, 32)), 0)), 32), "y")
    return b.function()


def given_and_read() -> Function:
    """Return a network that reads what it gives to the caller, too."""
    b = Builder("given_and_read")
    x = product(b, b.input("x", "float32<64 x 32>"), 32)
    b.save(x, "x_given")
    b.save(product(b, x, 32), "y")
    return b.function()


NETWORKS: dict[str, Callable[[], Function]] = {
    "branches": lambda: branches(3, 32),
    "cached": cached,
    "cut_again": cut_again,
    "cut_and_joined": cut_and_joined,
    "cut_twice": cut_twice,
    "dense": dense,
    "gathered": gathered,
    "given_and_read": given_and_read,
    "overlapping": lambda: overlapping(62),
    "side by side": lambda: overlapping(32),
    "residual": lambda: residual(32, depth=2),
}


def fleet_for(function: Function) -> Fleet:
    made = devices(1)
    backend = backend_of(made[0])
    units = units_of(stacked_program(lower_for(function, backend), backend), backend.traits)
    return fleet_of(units, made, {}, {"d0": [False] * len(units.units)})


@pytest.mark.parametrize("name", NETWORKS)
def test_estimates_are_not_above_the_exact_numbers(name: str) -> None:
    fleet = fleet_for(NETWORKS[name]())
    (device,) = fleet.devices
    cuts = all_cuts(fleet.units)
    assert cuts is not None
    candidates = CandidateParts(fleet.units, cuts)
    memory = candidates.memory_bytes + candidates.most(fleet.scratch[0])
    seconds = candidates.seconds(device)
    planner = Planner(fleet, "throughput")
    for first, last in np.argwhere(candidates.is_part).tolist():
        units = candidates.members(first, last)
        (part,) = planner.plan_of([Placed(tuple(units), 0)]).parts
        assert memory[first, last] <= part.memory_bytes, units
        assert seconds[first, last] <= part.seconds * (1 + 1e-9), units


def test_a_copy_of_what_the_caller_gives_is_counted() -> None:
    fleet = fleet_for(cached())
    count = len(fleet.units.units)
    (part,) = Planner(fleet, "latency").plan_of([Placed(tuple(range(count)), 0)]).parts
    kernels = [kernel for unit in fleet.units.units for kernel in unit.kernels]
    assert kernel_seconds(kernels, fleet.devices[0]) == pytest.approx(part.seconds)


def test_a_copy_of_what_another_part_makes_is_counted() -> None:
    fleet = fleet_for(dense(1))
    cuts = all_cuts(fleet.units)
    assert cuts is not None
    candidates = CandidateParts(fleet.units, cuts)
    first = cuts.index(1)
    (part,) = (
        Planner(fleet, "latency")
        .plan_of([Placed(tuple(candidates.members(first, len(cuts) - 1)), 0)])
        .parts
    )
    assert any(instruction.opcode == "copy" for instruction in part.program.work)
    estimated = candidates.seconds(fleet.devices[0])[first, -1]
    assert estimated == pytest.approx(part.seconds)
