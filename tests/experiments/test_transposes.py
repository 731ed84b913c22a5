"""The page of transposes against copies."""

import pytest

from experiments.transposes import Case, bound, cases, page
from glow_nb.types import ElementKind

FLOAT32 = ElementKind.FLOAT32


@pytest.mark.parametrize(
    ("case", "word"),
    [
        (("", (1024, 1024), (1, 0), FLOAT32), "places"),
        (("", (333, 333), (1, 0), FLOAT32), "lines"),
        (("", (1, 128, 12, 64), (0, 2, 1, 3), FLOAT32), "copy"),
        (("", (64, 64), (1, 0), ElementKind.INT8), "shuffles"),
        (("", (8192, 8192), (1, 0), FLOAT32), "memory"),
    ],
)
def test_the_bound_follows_from_the_plan(case: Case, word: str) -> None:
    assert bound(case) == word


def test_the_page_has_a_row_for_each_case() -> None:
    found = [(case, [0.5, 0.75]) for case in cases()]
    lines = page(found, [1, 2]).splitlines()
    first = next(row for row, line in enumerate(lines) if line.startswith("|---"))
    assert lines[first - 1].endswith("| 1 thread | 2 threads | bound |")
    assert len(lines) - first - 1 == len(found)
    assert {line.count("|") for line in lines[first - 1 :]} == {7}
