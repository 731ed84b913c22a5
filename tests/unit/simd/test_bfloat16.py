"""``float32`` to ``bfloat16``, with the processor's instruction and without."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glow_nb.base.types import ElementKind
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.kernels.writing.source import KernelSource
from tests.unit.kernels.running import RunningKernel

pytestmark = pytest.mark.jit

BFLOAT16 = ElementKind.BFLOAT16
LEAST_NORMAL = np.float32(2.0**-126)


@pytest.mark.parametrize("lanes", LANE_COUNTS)
@pytest.mark.parametrize("has_instruction", [True, False])
def test_normal_numbers_are_rounded_to_the_nearest(lanes: int, has_instruction: bool) -> None:
    target = Target.host()
    if has_instruction and "avx512bf16" not in target.enabled_features:
        pytest.skip("this processor has no instruction that rounds to bfloat16")
    if not has_instruction:
        target = replace(target, features=target.features.replace("+avx512bf16", "-avx512bf16"))
    bits = np.random.default_rng(0).integers(0, 1 << 32, 1 << 14, np.uint32)
    ties = np.arange(1 << 14, dtype=np.uint32) * 0x0002_8000 + 0x0000_8000
    numbers = np.concatenate([bits, ties]).view(np.float32)
    text = f"""
def kernel(dest, src, scratch, thread, threads):
    for i in range(0, {numbers.size}, {lanes}):
        store(dest, i, flush_bfloat16(load(src, i, {lanes})))
"""
    source = KernelSource("flush", text, (BFLOAT16, ElementKind.FLOAT32))
    found = np.empty(numbers.shape, BFLOAT16.dtype)
    RunningKernel(source, target)(found, numbers)
    with np.errstate(all="ignore"):
        wanted = numbers.astype(BFLOAT16.dtype)
    is_small = np.abs(numbers) < LEAST_NORMAL
    np.testing.assert_array_equal(
        found[~is_small].astype(np.float32), wanted[~is_small].astype(np.float32)
    )
    assert (np.abs(found[is_small].astype(np.float32)) <= LEAST_NORMAL).all()
