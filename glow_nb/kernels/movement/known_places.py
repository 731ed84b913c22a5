"""Gathers along the last axis from places that are known: vectors are shuffled out of vectors.

The places are a part of the plan, as ``places`` of one period and the ``advance`` of each next one:
nearest neighbours of an axis that doubles are ``places = [0, 0], advance = 1``. Nothing is clamped,
and no index is read. Rows shorter than a vector count as elements of a longer axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm, prod

import numpy as np

from glow_nb.base.payload import array_or_none
from glow_nb.base.plan import Plan
from glow_nb.base.types import Array
from glow_nb.hlir.ops.gather import clamped
from glow_nb.kernels.registry import PLANNERS, plan_of
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import index_text, plus
from glow_nb.kernels.writing.loops import loops
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import native_lanes
from glow_nb.llir.instructions.gather import GatherInst
from glow_nb.llir.program import Weight

PICK = "pick"
"""The algorithm that knows the places."""

FEW_VECTORS = 16
"""Vectors of a row that are written out one by one, where a loop over periods could be."""
MOST_VECTORS = 64
"""The most vectors that are written out: each takes time to compile."""
BLOCK_VECTORS = 4
"""Vectors of a step of a loop over periods, at least: they share what they load."""

MOVED_AS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}
"""What elements are moved as, by their bytes."""


@PLANNERS.register(GatherInst)
def plan_gather(instruction: GatherInst, target: Target, fusion: Fusion) -> Plan | None:
    """Plan a gather from places that are known; None if rows are copied where indices say.

    Indices are a part of the plan, not read by the writer: kernels of equal forms are written once,
    and contents are no part of a form.
    """
    root, size = instruction.indices.root, instruction.indices.type.size
    if not isinstance(root, Weight) or not instruction.dest.type.size:
        return None
    array = array_or_none(root.payload)
    if array is None or _length(instruction) >= native_lanes(target, instruction.dest.type.kind):
        return None
    offset = instruction.indices.offset
    flat = array.reshape(-1)[offset : offset + size]
    places = clamped(flat, instruction.input.type.shape[instruction.axis])
    period, advance = _period(places)
    if period > MOST_VECTORS * native_lanes(target, instruction.dest.type.kind):
        return None
    plan = Plan.of(PICK, places=tuple(places[:period].tolist()), advance=advance)
    rows = PickedRows.from_plan(plan, instruction, target)
    return plan if rows.is_worth_it else None


def _length(instruction: GatherInst) -> int:
    """Return how many elements a row has."""
    return prod(instruction.input.type.shape[instruction.axis + 1 :])


def _period(places: Array) -> tuple[int, int]:
    """Return the shortest period of *places* and what each adds to the one before."""
    for period in range(1, len(places) // 2 + 1):
        if len(places) % period == 0:
            steps = places[period:] - places[:-period]
            if (steps == steps[0]).all():
                return period, int(steps[0])
    return len(places), 0


@dataclass(frozen=True)
class PickedRows:
    """Rows of elements, each picked from a row of the input: ``dest[a, i] = input[a, places[i]]``.

    Attributes:
        outer: Number of the *a*.
        size: Elements of a row of the input.
        places: The *places*, as many as a row of the result has elements.
        period: Elements after which they repeat, ...
        advance: ... each of them so much further on.
        lanes: Elements of a vector.
    """

    outer: int
    size: int
    places: tuple[int, ...]
    period: int
    advance: int
    lanes: int

    @classmethod
    def from_plan(cls, plan: Plan, instruction: GatherInst, target: Target) -> PickedRows:
        """Return the rows of *instruction* with the places of *plan*.

        Raises:
            UnsupportedError: The plan's places are not those of an axis of this size.
        """
        shape, axis = instruction.input.type.shape, instruction.axis
        count, length = instruction.indices.type.size, _length(instruction)
        one, size = plan.sizes("places"), shape[axis]
        advance = plan.number("advance", least=1 - size, most=size - 1)
        if not one or count % len(one):
            raise plan.unfit(f"{len(one)} places are no period of {count} indices")
        periods = np.arange(count // len(one))[:, None] * advance
        places = (periods + np.array(one, np.int64)).reshape(-1, 1)
        if places.min() < 0 or places.max() >= size:
            raise plan.unfit(f"there are places outside of an axis of {size}")
        elements = places * length + np.arange(length)
        return cls(
            outer=prod(shape[:axis]),
            size=size * length,
            places=tuple(elements.reshape(-1).tolist()),
            period=len(one) * length,
            advance=advance * length,
            lanes=native_lanes(target, instruction.dest.type.kind),
        )

    @property
    def block(self) -> int:
        """Elements that are written out: a row of the result, or some whole periods of it."""
        count, step = len(self.places), lcm(self.period, self.lanes)
        block = step * -(-BLOCK_VECTORS * self.lanes // step)
        is_short = count <= FEW_VECTORS * self.lanes
        return count if is_short or block >= count else block

    @property
    def is_worth_it(self) -> bool:
        """Whether what is written out is short enough."""
        return self.block <= MOST_VECTORS * self.lanes

    def write(self, out: SourceWriter) -> None:
        """Write the loop over rows and blocks, for the share of one thread."""
        count, block = len(self.places), self.block
        text = " ".join(map(str, self.places[:block]))
        with loops(out, [self.outer, -(-count // block)], shared=True) as (a, number):
            first = "0"
            if number != "0":
                out.line(f"first = min({number} * {block}, {count - block})")
                first = "first"
            to = plus(index_text([a], [count]), first)
            start = index_text([a], [self.size])
            if first != "0":
                start = f"{start} + first // {self.period} * {self.advance}"
            out.line(f'pick(dest, {to}, input, {start}, "{text}", {self.lanes})')


def write_known_places(out: SourceWriter, instruction: GatherInst, target: Target) -> None:
    """Write the body of a gather as its plan says."""
    moved = MOVED_AS[instruction.dest.type.kind.size_bytes]
    out.line(f"dest = as_{moved}(dest)")
    out.line(f"input = as_{moved}(input)")
    PickedRows.from_plan(plan_of(instruction, PICK), instruction, target).write(out)
