"""The numbers of losses, optimizers and schedules, checked when one of these is made."""

from __future__ import annotations

import sys

import numpy as np

from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError
from glow_nb.base.types import ElementKind

MOST_INTEGER = (1 << 63) - 1
"""The largest seed, and number of steps: the state of the random numbers is of int64."""


def checked_number(
    name: str,
    value: object,
    *,
    positive: bool = False,
    most: float | None = None,
    below: float | None = None,
) -> float:
    """Return the argument called *name* as a number of Python; one of NumPy will do.

    Raises:
        OptionError: It is no finite number, or not from 0, or if *positive* above 0, to *most*,
            or *below* a limit.
    """
    number = value.item() if isinstance(value, np.integer | np.floating) else value
    if (
        isinstance(number, int | float)
        and not isinstance(number, bool)
        and abs(number) <= sys.float_info.max
        and (number > 0 or (number == 0 and not positive))
        and (most is None or number <= most)
        and (below is None or number < below)
    ):
        return number
    wanted = "above 0" if positive else "of 0 or more" if most is below is None else "from 0"
    wanted += "" if most is None else f" to {most}"
    wanted += "" if below is None else f" to below {below}"
    raise OptionError(f"{name}={described(value)}: give a number {wanted}")


def keep_numbers(
    owner: object,
    *names: str,
    positive: bool = False,
    most: float | None = None,
    below: float | None = None,
) -> None:
    """Check the attributes *names* of a frozen dataclass and keep them as numbers of Python."""
    for name in names:
        value = getattr(owner, name)
        number = checked_number(name, value, positive=positive, most=most, below=below)
        object.__setattr__(owner, name, number)


def computed_kind(kind: ElementKind) -> ElementKind:
    """Return the kind in which weights of *kind* are updated, and what is kept for them.

    It has 32 bits or more: squares of gradients, and a usual epsilon, are 0 in 16.
    """
    return ElementKind.FLOAT64 if kind is ElementKind.FLOAT64 else ElementKind.FLOAT32
