"""Which group normalizations the cpu keeps for its kernel."""

from __future__ import annotations

import pytest

from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.ops import GroupNormalization
from glow_nb.kernels.machine.rows import ZEN3
from glow_nb.kernels.target import Target


@pytest.mark.parametrize(
    ("shape", "groups", "axis", "threads", "is_kept"),
    [
        ((1, 64, 56, 56), 8, 1, 2, True),
        ((2, 8, 56, 56), 1, 1, 2, True),
        ((1, 8, 56, 56), 1, 1, 2, False),  # one group is the work of one thread
        ((1, 2, 1024, 1024), 2, 1, 2, False),  # read from memory again in each walk
        ((1, 56, 56, 64), 8, 3, 2, False),  # a group's elements lie apart
        ((1, 1, 1, 64), 8, 3, 2, True),
    ],
)
def test_groups_stay_whole_that_stay_in_the_cache(
    shape: tuple[int, ...], groups: int, axis: int, threads: int, is_kept: bool
) -> None:
    builder = Builder()
    sizes = " x ".join(map(str, shape))
    x = builder.input("x", f"float32<{sizes}>")
    vector = builder.input("v", f"float32<{shape[axis]}>")
    node = GroupNormalization(x, vector, vector, groups, axis, 1e-5)
    backend = CpuBackend(Target.of(ZEN3), threads=threads)
    assert backend.should_lower(node) is not is_kept
