"""The table of memory-bound kernels, at sizes that take no time."""

from __future__ import annotations

from math import prod

import pytest

from experiments.benchmarks.bandwidth import Case, cases, heading, line, moved_bytes, network

SIZE_BYTES = 1 << 20
CASES = list(cases())
CHOSEN = [case for case in CASES if 0 in case.shapes[0]]
"""Those whose largest tensor is an operand."""


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: f"{case.group} {case.name}")
def test_tensors_take_the_bytes_that_are_asked_for(case: Case) -> None:
    """To about one row of the largest: sizes are whole."""
    largest = 4 * prod(size or 1 for size in case.shapes[0])
    sizes = [4 * prod(shape) for shape in case.sized(SIZE_BYTES)]
    assert abs(max(sizes) - case.share * SIZE_BYTES) <= largest


@pytest.mark.jit
def test_a_row_of_the_table() -> None:
    case = next(case for case in CASES if case.name == "a + b")
    net = network(case, SIZE_BYTES, threads=1)
    assert moved_bytes(net) == pytest.approx(SIZE_BYTES, rel=0.01)
    text = line(case, [net, net], [0.5, 1.25])
    assert text.endswith("| 0.50 | 1.25 |")
    assert text.count("|") == heading([1, 2]).splitlines()[-1].count("|")
