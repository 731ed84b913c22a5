"""Which values of a run must be finite numbers, and what is said of one that is not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import override

from glow_nb.base.arguments import described, truth
from glow_nb.base.destinations import as_names
from glow_nb.base.errors import GlowError, OptionError
from glow_nb.base.types import Array

if TYPE_CHECKING:
    from collections.abc import Mapping


class NonFiniteError(GlowError):
    """A kernel has made a NaN or an infinity, or one came in: fed, in a state, or in a constant.

    Attributes:
        kernel: The number of the first such kernel in ``net.kernels``; None if it came in.
        family: What kind of kernel that is; empty if it came in.
        operators: The names of the nodes of the model that it computes; that of the input, state
            or constant, if it came in.
        value: What the element is one of: a result of the kernel, an input, state or constant.
        index: The first element that is not finite.
        count: How many are not.
        outputs: What the run returned, by name: it was made as any other.
    """

    def __init__(
        self,
        message: str,
        bad: BadElement,
        value: str,
        operators: tuple[str, ...],
        kernel: int | None = None,
        family: str = "",
    ) -> None:
        """Say *message* about an element of *value*, which *operators* made in a *kernel*."""
        super().__init__(message)
        self.value, self.index, self.count = value, bad.index, bad.count
        self.operators, self.kernel, self.family = operators, kernel, family
        self.outputs: Mapping[str, Array] = {}


@dataclass(frozen=True)
class BadElement:
    """The first element of an array that is not finite.

    Attributes:
        index: Where it is.
        number: What it is.
        count: How many there are.
    """

    index: tuple[int, ...]
    number: float
    count: int

    @override
    def __str__(self) -> str:
        """Return it for an error."""
        others = f", the first of {self.count} that are not finite" if self.count > 1 else ""
        return f"element {list(self.index)} is {self.number}{others}"


@dataclass(frozen=True)
class FiniteCheck:
    """What ``compile(check_finite=...)`` looks at: what comes in, and what each kernel writes.

    Attributes:
        exclude: Names of inputs, states, nodes or values of the model that may be anything. A
            kernel that computes one of these nodes is not looked at.
        infinity: Whether an infinity counts; if not, a NaN alone does.
    """

    exclude: Collection[str] = ()
    infinity: bool = True

    def __post_init__(self) -> None:
        names = as_names("exclude", self.exclude) if self.exclude else []
        object.__setattr__(self, "exclude", frozenset(names))
        truth("infinity", self.infinity)

    def excludes(self, names: Collection[str]) -> bool:
        """Return whether one of *names* may be anything."""
        return not frozenset(self.exclude).isdisjoint(names)

    def bad_element(self, array: Array) -> BadElement | None:
        """Return the first element of *array* that is none of the numbers that may be."""
        if not array.size:
            return None
        bad = ~np.isfinite(array) if self.infinity else np.isnan(array)
        count = int(np.count_nonzero(bad))
        if not count:
            return None
        index = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), array.shape))
        return BadElement(index, float(array[index]), count)


def as_finite_check(value: object) -> FiniteCheck | None:
    """Return the ``check_finite=`` of a user, None for no check; or raise OptionError."""
    if isinstance(value, FiniteCheck):
        return value
    if isinstance(value, bool):
        return FiniteCheck() if value else None
    raise OptionError(
        f"check_finite={described(value)}: give True, or glow_nb.FiniteCheck(exclude=['name'])"
    )
