"""Where activations lie for sizes that are known only when the network runs.

A placement for the sizes of the example is found by search, once. What is kept of it is the order
in which activations come by their offsets: for other sizes each is laid, in this order, at the
lowest place that is free while it lives. That takes about a millisecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from glow_nb.base.alignment import aligned_bytes
from glow_nb.base.size import at


@dataclass(frozen=True)
class PlacementOrder:
    """The order in which activations are laid into the arena.

    Attributes:
        sizes: The bytes of each activation.
        order: The numbers of the activations in the order of their placement.
        before: For each in that order, those placed before it that live at some step together
            with it.
    """

    sizes: tuple[int, ...]
    order: tuple[int, ...]
    before: tuple[tuple[int, ...], ...]

    def at(self, sizes: Mapping[str, int]) -> tuple[list[int], int]:
        """Return the offset of each activation for *sizes* by name, and the bytes of the arena."""
        known: dict[int, int] = {}
        for size in self.sizes:
            if size not in known:
                known[size] = aligned_bytes(at(size, sizes))
        lengths = [known[size] for size in self.sizes]
        last = self._last
        if lengths != last[0]:  # else a size changed that no activation depends on
            last = lengths, *self._placed(lengths)
            self.__dict__["_last"] = last
        return last[1], last[2]

    @cached_property
    def _last(self) -> tuple[list[int], list[int], int]:
        """The lengths that were placed last, their offsets, and the bytes of the arena."""
        return [], [], 0

    def _placed(self, lengths: list[int]) -> tuple[list[int], int]:
        offsets = [0] * len(lengths)
        end = 0
        for number, others in zip(self.order, self.before, strict=True):
            offset, length = 0, lengths[number]
            for begin, size in sorted((offsets[other], lengths[other]) for other in others):
                if begin - offset >= length:
                    break
                offset = max(offset, begin + size)
            offsets[number] = offset
            end = max(end, offset + length)
        return offsets, end
