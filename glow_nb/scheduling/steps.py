"""Steps, the memory that they touch, and the memory that an order of them needs.

Nodes and instructions are ordered by the same functions (:mod:`glow_nb.scheduling.ordering`). A
step touches *regions* of memory: one is live from the first step that touches it to the last. A
step is ready when the steps that must come before it are done. Some steps may place a region that
begins with them over one that ends with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Steps:
    """Steps by number, in a given order that is allowed.

    Attributes:
        before: The steps that must come right before each step, all with smaller numbers.
        reads: The regions that each step reads, with the bytes.
        writes: The regions that each step writes, with the bytes.
        size: Bytes of each region.
        shared: Pairs of regions of equal size for each step: the first may lie on the second, if it
            begins with the step and the second ends with it.
    """

    before: Sequence[Sequence[int]]
    reads: Sequence[dict[int, int]]
    writes: Sequence[dict[int, int]]
    size: Sequence[int]
    shared: Sequence[Sequence[tuple[int, int]]]

    @cached_property
    def needed(self) -> list[int]:
        """A bit for each step that must come right before, for each step."""
        return [sum(1 << number for number in set(before)) for before in self.before]

    @cached_property
    def after(self) -> list[list[int]]:
        """The steps that must come right after each step."""
        after: list[list[int]] = [[] for _ in self.before]
        for step, before in enumerate(self.before):
            for number in dict.fromkeys(before):
                after[number].append(step)
        return after

    @cached_property
    def touched(self) -> list[list[int]]:
        """The regions that each step reads or writes."""
        return [list({**r, **w}) for r, w in zip(self.reads, self.writes, strict=True)]

    @cached_property
    def touching(self) -> list[int]:
        """A bit for each step that touches it, for each region."""
        masks = [0] * len(self.size)
        for step, regions in enumerate(self.touched):
            for region in regions:
                masks[region] |= 1 << step
        return masks

    def run(self, step: int, done: int, live: int) -> tuple[int, int]:
        """Return the live bytes during *step* and after it; *live* bytes are live after the steps
        *done*.
        """
        size, touching, left = self.size, self.touching, ~(done | 1 << step)
        born = [region for region in self.touched[step] if not touching[region] & done]
        ended = [region for region in self.touched[step] if not touching[region] & left]
        during = live + sum([size[region] for region in born])
        after = during - sum([size[region] for region in ended])
        for new, old in self.shared[step]:
            if new in born and old in ended:
                during -= size[new]
                born.remove(new)
                ended.remove(old)
        return during, after

    def peak(self, order: Iterable[int]) -> int:
        """Return the largest sum of bytes live at one time while the steps run in *order*."""
        peak = done = live = 0
        for step in order:
            during, live = self.run(step, done, live)
            done |= 1 << step
            peak = max(peak, during)
        return peak

    def reversed(self) -> Steps:
        """Return the steps from the last to the first: where a region began, it ends.

        The order that visits them the other way round has the same peak.
        """
        last = len(self.before) - 1
        return Steps(
            before=[[last - step for step in after] for after in self.after[::-1]],
            reads=self.reads[::-1],
            writes=self.writes[::-1],
            size=self.size,
            shared=[[(old, new) for new, old in pairs] for pairs in self.shared[::-1]],
        )
