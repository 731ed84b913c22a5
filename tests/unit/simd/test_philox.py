"""Random words on vectors, against NumPy, also where no tensor is as large."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from glow_nb.base.types import ElementKind
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.numerics.philox import Words, philox
from tests.unit.kernels.running import RunningKernel

pytestmark = pytest.mark.jit

STREAM = 2**32 - 5
WIDTHS = {"random_words": (1, 2, 4, 8, 64), "random_words_anywhere": (1, 4, 32)}
BEGINS = (0, 4, 64, 2**34 - 8, 2**40 + 12)
"""From the last but one on, the number of the block has more than 32 bits."""


def expected(source: npt.NDArray[np.int64], start: int, lanes: int) -> Words:
    seed, run = (int(number) % 2**64 for number in source)
    element = start + np.arange(lanes, dtype=np.uint64)
    block = element >> np.uint64(2)
    stream, low_run = (np.full_like(block, number) for number in (STREAM, run % 2**32))
    counter = np.stack((block % np.uint64(2**32), block >> np.uint64(32), stream, low_run))
    words = philox(counter, (seed % 2**32, seed >> 32))
    return np.asarray(words[element % np.uint64(4), np.arange(lanes)])


@pytest.mark.parametrize("generator", [(0, 0), (-(2**40) + 9, 2**35 + 2**31 + 1)])
@pytest.mark.parametrize(
    ("name", "offset"), [("random_words", 0), *(("random_words_anywhere", n) for n in range(4))]
)
def test_words_of_any_elements(name: str, offset: int, generator: tuple[int, int]) -> None:
    starts, step = [begin + offset for begin in BEGINS], sum(WIDTHS[name])
    out, place = SourceWriter(), 0
    with out.block("def kernel(dest, source, scratch, thread, threads):"):
        with out.block(f"for i in range({len(starts)}):"):
            arguments = f"get(source, 0), get(source, 1), {STREAM}, get(source, i + 2)"
            for lanes in WIDTHS[name]:
                out.line(f"store(dest, i * {step} + {place}, {name}({arguments}, {lanes}))")
                place += lanes
    kinds = (ElementKind.UINT32, ElementKind.INT64)
    found = np.empty(len(starts) * step, np.uint32)
    source = np.array([*generator, *starts])
    RunningKernel(KernelSource("words", out.text, kinds), Target.host())(found, source)
    wanted = [expected(source[:2], start, lanes) for start in starts for lanes in WIDTHS[name]]
    np.testing.assert_array_equal(found, np.concatenate(wanted))
