"""Which values of a run must be finite numbers, and the error about one that is not."""

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
    """A kernel has written a NaN or an infinity, or an input, a state or a constant has one.

    Attributes:
        kernel: The number of the first such kernel in ``net.kernels``; None if no kernel wrote it.
        family: The family of that kernel; empty if no kernel wrote it.
        operators: The names of the nodes of the model that the kernel computes; otherwise the name
            of the input, state or constant.
        value: The name of the tensor: a result of the kernel, an input, a state or a constant.
        index: The first element that is not finite.
        count: The number of elements that are not finite.
        outputs: The outputs of the run by name; the run was completed.
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
        number: The number.
        count: The number of elements.
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
    """What ``compile(check_finite=...)`` checks: inputs and states, and the results of each kernel.

    Attributes:
        exclude: Names of inputs, states, nodes or values of the model that are not checked. A
            kernel that computes one of these nodes is not checked.
        infinity: Whether an infinity is an error; otherwise only NaN is.
    """

    exclude: Collection[str] = ()
    infinity: bool = True

    def __post_init__(self) -> None:
        names = as_names("exclude", self.exclude) if self.exclude else []
        object.__setattr__(self, "exclude", frozenset(names))
        truth("infinity", self.infinity)

    def excludes(self, names: Collection[str]) -> bool:
        """Return whether one of *names* is not checked."""
        return not frozenset(self.exclude).isdisjoint(names)

    def bad_element(self, array: Array) -> BadElement | None:
        """Return the first element of *array* that is an error; None if there is none."""
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
