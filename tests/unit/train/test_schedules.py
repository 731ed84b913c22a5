"""Schedules: rates beside those of PyTorch's schedulers for a rate of 0.5."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from glow_nb.base.errors import OptionError
from glow_nb.train import SGD, Adam, Constant, Cosine, OneCycle, Schedule, StepDecay, WarmUp

COSINE = [0.5, 0.453209164, 0.330709164, 0.179290836, 0.056790836, 0.01]
ONE_CYCLE = [
    *(0.02, 0.26, 0.5, 0.475242316, 0.405872827, 0.305631011, 0.194370989),
    *(0.094129173, 0.024759684, 2e-06),
]


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        (Constant(0.5), [0.5, 0.5]),
        (StepDecay(0.5, 3, 0.5), [0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125]),
        (Cosine(0.5, 5, 0.01), [*COSINE, 0.01, 0.01]),
        (OneCycle(0.5, 10), [*ONE_CYCLE, 2e-06]),
        (OneCycle(0.5, 3, rise=1.0), [0.02, 0.26, 0.5, 0.5]),
        (WarmUp(3, 0.5), [0.125, 0.25, 0.375, 0.5, 0.5]),
        (WarmUp(1, Cosine(0.5, 5, 0.01)), [0.25, *COSINE]),
    ],
)
def test_rates(schedule: Schedule, rates: list[float]) -> None:
    assert [schedule(step) for step in range(len(rates))] == pytest.approx(rates, abs=1e-9)


def test_peak_between_two_steps_is_never_exceeded() -> None:
    assert max(OneCycle(0.5, 7)(step) for step in range(9)) <= 0.5


@pytest.mark.parametrize(
    "make",
    [
        lambda: Constant(-1.0),
        lambda: Constant(float("nan")),
        lambda: Constant(10**400),
        lambda: StepDecay(0.1, 0),
        lambda: Cosine(0.1, 0),
        lambda: Cosine(0.1, 10, least=0.2),
        lambda: WarmUp(0, 0.1),
        lambda: WarmUp(3, -0.1),
        lambda: OneCycle(0.0, 10),
        lambda: OneCycle(0.1, 10, rise=2.0),
    ],
)
def test_numbers_without_meaning_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(OptionError, match=r": give (a|the) "):
        make()


class Answering(Schedule):
    """A schedule of a user that returns anything."""

    def __init__(self, answer: Any) -> None:
        """Return *answer*, or raise it."""
        self.answer = answer

    @override
    def __call__(self, step: int) -> float:
        if isinstance(self.answer, Exception):
            raise self.answer
        answer: float = self.answer
        return answer


@pytest.mark.parametrize("answer", [float("nan"), float("inf"), -1.0, "x", None, KeyError("gone")])
def test_a_rate_without_meaning_reaches_no_weight(answer: Any) -> None:
    for optimizer in (SGD(Answering(answer)), Adam(Answering(answer))):
        with pytest.raises(OptionError, match="schedule 'Answering': step 3: "):
            optimizer.numbers(3)


def test_numbers_of_numpy_are_numbers() -> None:
    half: Any = np.float32(0.5)
    assert SGD(half, momentum=np.float64(0.9)) == SGD(0.5, momentum=0.9)
    assert type(SGD(half).rate) is float
    assert Cosine(half, 5) == Cosine(0.5, 5)
