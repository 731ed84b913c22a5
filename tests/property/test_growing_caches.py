"""Whatever runs there are, caches that grow in place hold what caches that are fed would."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from tests.caches import STEPS, Step, check_steps

LENGTHS = st.lists(st.integers(1, 8), min_size=1, max_size=5)


@cache
def compiled(
    name: str, backend: str, threads: int
) -> tuple[Step, glow_nb.Network, glow_nb.GrowingNetwork]:
    step = STEPS[name]()
    options: dict[str, Any] = {"backend": backend, "threads": threads, "specialize_after": None}
    return step, *step.compiled(**options)


@pytest.mark.parametrize("name", STEPS)
@given(LENGTHS, st.integers(1, 3))
@settings(max_examples=3)
def test_runs_leave_what_the_model_gives(name: str, lengths: list[int], batch: int) -> None:
    check_steps(*compiled(name, "interpreter", 1), lengths, batch)


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", STEPS)
@given(LENGTHS, st.integers(1, 3))
@settings(max_examples=5)
def test_machine_code_leaves_what_the_model_gives(
    name: str, threads: int, lengths: list[int], batch: int
) -> None:
    check_steps(*compiled(name, "cpu", threads), lengths, batch)
