"""Scale and offset of a range of real numbers: ``real = (stored - offset) * scale`` (paper 4.1).

With every schema, 0 is represented exactly, since padding and ReLU often give 0. The scale is a
normal float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from glow_nb.base.arguments import described
from glow_nb.base.conversion import rounded
from glow_nb.base.errors import OptionError
from glow_nb.base.schema import closest
from glow_nb.base.types import Array, ElementKind

LEAST_SCALE = 2.0**-126
"""The smallest normal float32: a division by a smaller number loses digits."""

GREATEST = float(np.finfo(np.float32).max)

KINDS = (ElementKind.INT8, ElementKind.UINT8, ElementKind.INT16)
"""The kinds of integers that activations become."""

WEIGHT_KINDS = (ElementKind.INT8, ElementKind.UINT8)
"""The kinds of integers that weights become."""

FEW_BITS = (ElementKind.INT4, ElementKind.INT8)
"""The kinds of weight-only quantization."""


@dataclass(frozen=True)
class Encoding:
    """A mapping between integers and real numbers.

    Attributes:
        kind: The kind of the integers.
        scale: The difference of the real numbers of neighbouring integers; a float32.
        offset: The integer that represents 0.
    """

    kind: ElementKind
    scale: float
    offset: int

    @property
    def lowest(self) -> float:
        """The least number that is represented."""
        return (self.kind.limits[0] - self.offset) * self.scale

    @property
    def highest(self) -> float:
        """The greatest number that is represented."""
        return (self.kind.limits[1] - self.offset) * self.scale

    def stored(self, numbers: Array) -> Array:
        """Return the integers for *numbers*: the nearest ones, or the ends of the range."""
        with np.errstate(over="ignore"):
            steps = np.asarray(numbers, np.float32) / np.float32(self.scale)
        return rounded(steps, np.asarray(self.offset), self.kind)

    def rounded(self, numbers: Array) -> Array:
        """Return what *numbers* become when they are stored and read again."""
        steps = self.stored(numbers).astype(np.float32) - np.float32(self.offset)
        read: Array = steps * np.float32(self.scale)
        return read


def asymmetric(low: float, high: float, kind: ElementKind) -> Encoding:
    """Use all integers for the numbers from *low* to *high*, and 0."""
    low, high = min(low, 0.0), max(high, 0.0)
    least, greatest = kind.limits
    scale = _as_scale((high - low) / (greatest - least))
    offset = min(max(round(least - low / scale), least), greatest)
    return Encoding(kind, _with_finite(max(offset - least, greatest - offset), scale), offset)


def symmetric(low: float, high: float, kind: ElementKind) -> Encoding:
    """Use a range that is symmetric around 0; the integer for 0 is the middle one, 128 for
    ``uint8``.
    """
    middle, most = _middle(kind)
    return Encoding(kind, _with_finite(most, _as_scale(max(-low, high, 0.0) / most)), middle)


def symmetric_unsigned(low: float, high: float, kind: ElementKind) -> Encoding:
    """Do as :func:`symmetric`, but use all integers for positive numbers if none is negative."""
    least, greatest = kind.limits
    if low < 0:
        return symmetric(low, high, kind)
    most = greatest - least
    return Encoding(kind, _with_finite(most, _as_scale(max(high, 0.0) / most)), least)


def power_of_two(low: float, high: float, kind: ElementKind) -> Encoding:
    """Do as :func:`symmetric`, with the next greater power of two as the scale.

    It is a smaller one if the last integer would represent infinity.
    """
    middle, most = _middle(kind)
    mantissa, exponent = math.frexp(max(-low, high, 0.0) / most)
    exponent -= mantissa == 0.5  # it is one
    while (middle - kind.limits[0]) * 2.0**exponent > GREATEST:
        exponent -= 1
    return Encoding(kind, _as_scale(2.0**exponent if mantissa else 0.0), middle)


def _middle(kind: ElementKind) -> tuple[int, int]:
    """Return the integer for 0 and how many there are on either side."""
    least, greatest = kind.limits
    middle = (least + greatest + 1) // 2
    return middle, greatest - middle


def _as_scale(step: float) -> float:
    """Return *step* as a float32 that can be divided by; 1 if there is nothing but zeros."""
    return float(np.float32(max(step, LEAST_SCALE))) if step else 1.0


def _with_finite(steps: int, scale: float) -> float:
    """Return *scale*, or the greatest one with which *steps* of it are a finite float32."""
    limit = np.float32(GREATEST / steps)
    if float(limit) * steps > GREATEST:
        limit = np.nextafter(limit, np.float32(0))
    return min(scale, float(limit))


SchemaName = Literal["asymmetric", "symmetric", "symmetric_unsigned", "power_of_two"]
ActivationKind = Literal["uint8", "int8", "int16"]
WeightKind = Literal["int8", "uint8"]

Schema = Callable[[float, float, ElementKind], Encoding]
"""Takes the least and the greatest number of a range, and the kind of integers."""

SCHEMAS: Mapping[str, Schema] = {
    schema.__name__: schema for schema in (asymmetric, symmetric, symmetric_unsigned, power_of_two)
}


def schema_named(name: str) -> Schema:
    """Return the schema called *name*; raise OptionError if there is none."""
    if not isinstance(name, str) or name not in SCHEMAS:
        raise OptionError(
            f"schema={described(name)}{closest(str(name), SCHEMAS)}; choose one of {list(SCHEMAS)}"
        )
    return SCHEMAS[name]


def kind_named(
    argument: str, kind: str | ElementKind, kinds: Sequence[ElementKind] = KINDS
) -> ElementKind:
    """Return the kind, one of *kinds*, called *kind*; raise OptionError if there is none."""
    names = [known.value for known in kinds]
    name = kind.value if isinstance(kind, ElementKind) else kind
    if not isinstance(name, str) or name not in names:
        raise OptionError(f"{argument}={described(name)}: choose one of {names}")
    return ElementKind(name)
