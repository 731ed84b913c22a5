"""Learning rates that change from step to step.

A schedule is a function of the number of earlier steps. Its result is an input of the network in
each step, so nothing is compiled again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import cos, pi

from typing_extensions import override

from glow_nb.base.arguments import whole_number
from glow_nb.base.errors import OptionError
from glow_nb.base.foreign import foreign, name_of
from glow_nb.train.numbers import checked_number, keep_numbers


class Schedule(ABC):
    """The learning rate of each step."""

    @abstractmethod
    def __call__(self, step: int) -> float:
        """Return the rate of the step after *step* earlier steps."""


@dataclass(frozen=True)
class Constant(Schedule):
    """The same *rate* in every step.

    Attributes:
        rate: The learning rate.
    """

    rate: float

    def __post_init__(self) -> None:
        keep_numbers(self, "rate")

    @override
    def __call__(self, step: int) -> float:
        return self.rate


@dataclass(frozen=True)
class StepDecay(Schedule):
    """The rate is multiplied by *factor* after every *every* steps: ``rate * factor ** (step //
    every)``.

    Attributes:
        rate: The rate of the first steps.
        every: Steps from one change to the next.
        factor: The factor of the rate.
    """

    rate: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        keep_numbers(self, "rate", "factor")
        whole_number("every", self.every, 1)

    @override
    def __call__(self, step: int) -> float:
        return self.rate * self.factor ** (step // self.every)


@dataclass(frozen=True)
class Cosine(Schedule):
    """From *rate* down to *least* along half a cosine in *steps* steps, then *least*.

    ``least + (rate - least) * (1 + cos(pi * step / steps)) / 2``, PyTorch's ``CosineAnnealingLR``.

    Attributes:
        rate: The rate of the first step.
        steps: Steps until the least rate is reached.
        least: The least rate.
    """

    rate: float
    steps: int
    least: float = 0.0

    def __post_init__(self) -> None:
        keep_numbers(self, "rate")
        keep_numbers(self, "least", most=self.rate)
        whole_number("steps", self.steps, 1)

    @override
    def __call__(self, step: int) -> float:
        return _eased(self.rate, self.least, min(step / self.steps, 1.0))


@dataclass(frozen=True)
class WarmUp(Schedule):
    """A straight line from nearly 0 to the first rate of *then* in *steps* steps, then *then*.

    In step ``k``, counting from 0, the rate is ``(k + 1) / (steps + 1)`` of that first rate.

    Attributes:
        steps: Steps of the line.
        then: The rate, or its schedule, after the line.
    """

    steps: int
    then: float | Schedule

    def __post_init__(self) -> None:
        whole_number("steps", self.steps, 1)
        as_schedule(self.then)

    @override
    def __call__(self, step: int) -> float:
        after = as_schedule(self.then)
        if step >= self.steps:
            return after(step - self.steps)
        return after(0) * (step + 1) / (self.steps + 1)


@dataclass(frozen=True)
class OneCycle(Schedule):
    """Up to *rate* along half a cosine, and down to nearly nothing along another (1708.07120).

    The rate is that of PyTorch's ``OneCycleLR`` with its defaults; the momentum is not changed. The
    rate begins at ``rate / begin``, reaches its maximum after the share *rise* of all *steps*, and
    ends at ``rate / begin / end``.

    Attributes:
        rate: The greatest rate.
        steps: All steps of the training.
        rise: The share of the steps in which the rate rises.
        begin: The greatest rate over the first one.
        end: The first rate over the last one.
    """

    rate: float
    steps: int
    rise: float = 0.3
    begin: float = 25.0
    end: float = 1e4

    def __post_init__(self) -> None:
        whole_number("steps", self.steps, 2)
        keep_numbers(self, "rate", "begin", "end", positive=True)
        keep_numbers(self, "rise", most=1)

    @override
    def __call__(self, step: int) -> float:
        first = self.rate / self.begin
        peak, last = self.rise * self.steps - 1, self.steps - 1
        if step < peak or last <= peak:
            return _eased(first, self.rate, min(step / peak, 1.0))
        return _eased(self.rate, first / self.end, min((step - peak) / (last - peak), 1.0))


def as_schedule(rate: float | Schedule) -> Schedule:
    """Return *rate* as a schedule; raise OptionError if it is neither one nor a number."""
    return rate if isinstance(rate, Schedule) else Constant(rate)


def rate_at(rate: float | Schedule, step: int) -> float:
    """Return the rate of the step after *step* earlier steps.

    Raises:
        OptionError: A schedule of the user fails, or returns no finite number of 0 or more.
    """
    schedule = as_schedule(rate)
    subject = f"schedule {name_of(schedule)!r}: step {step}"
    with foreign(OptionError, subject):
        found = schedule(step)
    return checked_number(f"{subject}: rate", found)


def _eased(begin: float, end: float, share: float) -> float:
    """Return the number from *begin* to *end* along half a cosine, after *share* of the steps."""
    return end + (begin - end) * (1 + cos(pi * share)) / 2
