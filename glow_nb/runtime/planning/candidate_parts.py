"""Candidates of parts: what lies between any two cuts, with transfers, time and memory.

All numbers are arrays ``[cut before, cut behind]``: transfers, time and memory. What is not known
before a part is made is a lower bound, so that the best plan by these numbers is one, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from glow_nb.runtime.devices.device_description import DeviceDescription, Link
from glow_nb.runtime.planning.costs import kernel_seconds
from glow_nb.runtime.planning.cuts import Cut
from glow_nb.runtime.planning.live import copiers_of, live_edges
from glow_nb.runtime.planning.units import Edge, Units

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Traffic:
    """Transfers of each candidate in one direction: how many tensors, and their bytes."""

    count: Floats
    size_bytes: Floats

    def seconds(self, link: Link) -> Floats:
        """Return how long they take on *link*, one after the other."""
        return self.count * link.latency_seconds + self.size_bytes / link.bytes_per_second


class CandidateParts:
    """What lies between any two of some cuts: parts that there could be.

    Attributes:
        units: The units of the network.
        cuts: The cuts, in their order.
        is_part: Whether the second cut comes after the first one, so that there is a part.
        taken: The bytes that come from other parts.
        fed: The bytes that come from the caller.
        given: The bytes that go to the caller.
        kept_bytes: The weights and states of a part.
        memory_bytes: The memory of a part, its weights and states included.
    """

    def __init__(self, units: Units, cuts: Sequence[Cut]) -> None:
        """Look at all pairs of *cuts*."""
        self.units, self.cuts = units, cuts
        count = len(units.units)
        size = count // 8 + 1
        bits = np.frombuffer(b"".join(cut.to_bytes(size, "little") for cut in cuts), np.uint8)
        rows = np.unpackbits(bits.reshape(len(cuts), size), axis=1, bitorder="little")
        self._has = rows[:, :count].astype(np.float64)
        sizes = self._has.sum(axis=1)
        self.is_part = (self._has @ (1 - self._has).T == 0) & (sizes[:, None] < sizes[None])
        made = [edge for edge in units.edges if edge.producer is not None]
        self.taken = self._traffic(made)
        self.fed = self._traffic([edge for edge in units.edges if edge.producer is None])
        self.given = self._given([edge for edge in made if edge.is_output])
        self.kept_bytes = self._constants()
        self.memory_bytes = self.kept_bytes + self._run_bytes(made)

    def members(self, first: int, last: int) -> list[int]:
        """Return the units of the part between two cuts."""
        inside = self.cuts[last] & ~self.cuts[first]
        return [number for number in range(len(self.units.units)) if inside >> number & 1]

    def seconds(self, device: DeviceDescription) -> Floats:
        """Return how long the kernels of each part take on *device*, with the copies that stay."""
        each = np.array([kernel_seconds(unit.kernels, device) for unit in self.units.units])
        before = self._has @ each
        between: Floats = np.maximum(before[None] - before[:, None], 0)
        moves = self.units.moves
        made = self._has[:, [move.producer for move in moves]]
        moved = self._has[:, [move.unit for move in moves]]
        took = np.array([move.kernel.seconds(device) for move in moves])
        between += (made * (1 - moved) * took) @ moved.T
        return between

    def holds_any(self, units: Sequence[bool] | npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return whether each part holds one of *units*."""
        before = self._has @ np.array(units, np.float64)
        found: npt.NDArray[np.bool_] = before[None] - before[:, None] > 0.5
        return found

    def most(self, sizes: Sequence[int]) -> Floats:
        """Return the largest of *sizes*, one for each unit, among the units of each part."""
        found = np.zeros(self.is_part.shape)
        needs = np.array(sizes)
        for size in np.unique(needs[needs > 0]):  # larger ones overwrite smaller ones
            found[self.holds_any(needs == size)] = size
        return found

    def _traffic(self, edges: Sequence[Edge]) -> Traffic:
        """Return which of *edges* parts read from earlier units, or from inputs."""
        shape = (len(self.cuts), len(self.cuts))
        count, size = np.zeros(shape), np.zeros(shape)
        ones = np.ones(len(self.cuts))
        once = [edge for edge in edges if len(edge.readers) == 1]
        if once:
            after = np.stack([self._read[edge] for edge in once], axis=1)
            made = [ones if edge.producer is None else self._has[:, edge.producer] for edge in once]
            enters = np.stack(made, axis=1) * (1 - after)
            count += enters @ after.T
            size += (enters * [edge.size_bytes for edge in once]) @ after.T
        for edge in edges:
            if len(edge.readers) > 1:
                begun = ones if edge.producer is None else self._has[:, edge.producer]
                read = self._read[edge]
                here = _block(begun * (read < len(edge.readers)), read)
                rows, columns = here
                entered = begun[rows, None] * (read[None, columns] > read[rows, None])
                count[here] += entered
                size[here] += entered * edge.size_bytes
        return Traffic(count, size)

    def _given(self, edges: Sequence[Edge]) -> Traffic:
        if not edges:
            return Traffic(np.zeros_like(self.is_part, np.float64), np.zeros(self.is_part.shape))
        made = self._made(edges)
        sizes = np.array([edge.size_bytes for edge in edges], np.float64)
        return Traffic((1 - made) @ made.T, ((1 - made) * sizes) @ made.T)

    @cached_property
    def _read(self) -> dict[Edge, Floats]:
        """The number of readers of each edge before each cut."""
        return {edge: self._has[:, list(edge.readers)].sum(axis=1) for edge in self.units.edges}

    def _made(self, edges: Sequence[Edge]) -> Floats:
        """Return whether each of *edges*, which units make, is made before each cut."""
        return self._has[:, [edge.producer for edge in edges if edge.producer is not None]]

    def _constants(self) -> Floats:
        """Return the bytes of the weights and states of each part."""
        alone = np.zeros(len(self.units.units))
        total = np.zeros(self.is_part.shape)
        for buffer, users in self.units.kept.items():
            if len(users) == 1:
                alone[users[0]] += buffer.type.size_bytes
            else:
                before = self._has[:, list(users)].sum(axis=1)
                total += buffer.type.size_bytes * (before[None] > before[:, None])
        before = self._has @ alone
        return total + (before[None] - before[:, None])

    def _run_bytes(self, made: Sequence[Edge]) -> Floats:
        """Return the least bytes of a run of each part: what is bound, and what must live."""
        if not made:
            return self.fed.size_bytes
        number = {edge: index for index, edge in enumerate(made)}
        sizes = np.array([edge.size_bytes for edge in made], np.float64)
        begun = self._made(made)
        all_read = np.stack([self._read[edge] == len(edge.readers) for edge in made], axis=1)
        inside = begun * all_read * np.array([not edge.is_output for edge in made])
        bound = ((1 - begun) * sizes) @ (begun - inside).T
        in_arena = self._in_arena(made, inside)
        arena = np.zeros(self.is_part.shape)
        live_at = live_edges(self.units)
        for index, (unit, live) in enumerate(zip(self.units.units, live_at, strict=True)):
            if not live and not unit.inner_bytes:
                continue
            picked = np.array([number[edge] for edge in live], np.intp)
            last = self._has[:, index]
            here = rows, columns = _block(1 - last, last)
            later = (1 - begun[rows, picked]) * sizes[picked]
            own = np.full((len(later), 1), unit.inner_bytes - unit.on_read_bytes)
            needed = np.hstack([later, own]) * (1 - last[rows, None])
            held = np.hstack([in_arena[columns, picked], np.ones((len(last), 1))[columns]])
            during = needed @ (held * last[columns, None]).T
            arena[here] = np.maximum(arena[here], during)
        total: Floats = self.taken.size_bytes + self.fed.size_bytes + bound + arena
        return total

    def _in_arena(self, made: Sequence[Edge], inside: Floats) -> Floats:
        """Return which of the edges *made* are in the arena, of those that are *inside* a part.

        What is copied may be made where the copy is; if that is bound, it takes no arena.
        """
        found = inside.copy()
        number = {edge: index for index, edge in enumerate(made)}
        for index in sorted(range(len(made)), key=lambda index: -(made[index].producer or 0)):
            for copier in copiers_of(self.units, made[index]):
                targets = [number[edge] for edge in self.units.made[copier]]
                found[:, index] *= found[:, targets].prod(axis=1)
        return found


def _block(first: Floats, last: Floats) -> tuple[slice, slice]:
    """Return the smallest block of pairs of cuts that has all where neither flag is 0."""
    rows, columns = np.flatnonzero(first), np.flatnonzero(last)
    if not len(rows) or not len(columns):
        return slice(0), slice(0)
    return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
