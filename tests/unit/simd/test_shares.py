"""The share of a thread as machine code finds it, and as Python does."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.base.types import ElementKind
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from tests.unit.kernels.plain_python import own_share
from tests.unit.kernels.running import RunningKernel

SIZES = (0, 1, 2, 3, 7, 16, 22)
CASES = [
    (units, panels, panels_first) for units in SIZES for panels in SIZES for panels_first in (0, 1)
]


@pytest.mark.jit
def test_kernels_share_in_the_same_way() -> None:
    out = SourceWriter()
    with out.block("def kernel(dest, scratch, thread, threads):"):
        for number, sizes in enumerate(CASES):
            arguments = ", ".join(map(str, sizes))
            out.line(f"a, b, c, d = own_share(thread, threads, {arguments})")
            for index, name in enumerate("abcd"):
                out.line(f"put(dest, {4 * number + index}, {name})")
    kernel = RunningKernel(KernelSource("shares", out.text, (ElementKind.INT64,)), Target.host())
    found = np.empty((len(CASES), 4), np.int64)
    for threads in (1, 2, 3, 5, 8, 13, 31):
        for thread in range(threads):
            kernel.call(found.ctypes.data, 0, thread, threads)
            wanted = [own_share(thread, threads, *case) for case in CASES]
            np.testing.assert_array_equal(found, wanted)
