"""How much memory does the placement of buffers save? An allocator of a script's own.

This one is a bump allocator with a free list: a buffer takes the first gap that is large enough at
the moment when it is born (the paper's heap), and never looks ahead::

    python -m experiments.passes.allocator squeezenet
"""

import sys
from collections.abc import Sequence

import glow_nb
from experiments.networks.twins import make_twin
from glow_nb.extend import LiveRange, aligned_bytes


def first_fit(live_ranges: Sequence[LiveRange]) -> list[int]:
    """Return an offset for each range: the lowest that is free when it begins."""
    offsets = [0] * len(live_ranges)
    live: list[tuple[int, int, int]] = []  # begin and end of its bytes, when it ends
    for number in sorted(range(len(offsets)), key=lambda n: live_ranges[n].start):
        own, begin = live_ranges[number], 0
        live = sorted(held for held in live if held[2] > own.start)
        for first, end, _ in live:
            if first - begin >= aligned_bytes(own.size_bytes):
                break
            begin = max(begin, end)
        offsets[number] = begin
        live.append((begin, begin + aligned_bytes(own.size_bytes), own.end))
    return offsets


if __name__ == "__main__":
    model = make_twin(sys.argv[1] if sys.argv[1:] else "squeezenet")
    for allocator in (None, first_fit):
        print(glow_nb.compile(model, backend="interpreter", allocator=allocator).memory)
