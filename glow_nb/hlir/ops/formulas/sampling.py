"""Sampling at computed places: which elements along one axis count at a place, and how much.

The formulas are functions of the graph: an operator evaluates them, its lowering emits them, and
its kernel is written from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf

from glow_nb.base.types import TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops.activation import Clip
from glow_nb.hlir.ops.arithmetic import Maximum, Minimum
from glow_nb.hlir.ops.elementwise import Abs, Floor, Round
from glow_nb.hlir.ops.formulas.terms import Term, where

NEAREST, LINEAR, CUBIC = "nearest", "linear", "cubic"
ZEROS, BORDER, REFLECTION = "zeros", "border", "reflection"
CENTERS, EDGES, ELEMENTS = "centers", "edges", "elements"

TAPS = {NEAREST: 1, LINEAR: 2, CUBIC: 4}
"""Elements of an axis that count at a place."""
Length = int | Term
"""How many elements an axis has; a term, of the kind of the coordinates, where that is open."""
PLACE, WEIGHT, INSIDE = "place", "weight", "inside"
_CUBIC_A = -0.75


@dataclass(frozen=True)
class Tap:
    """One element along one axis, for every place.

    Attributes:
        place: Its number, a whole number; one outside of the axis stands for its nearest end.
        weight: Its share; None for all of it.
        inside: Whether it counts, otherwise it is 0; None for always.
    """

    place: Term
    weight: Term | None
    inside: Term | None


@dataclass(frozen=True)
class Sampler:
    """How coordinates map to elements.

    Attributes:
        mode: ``nearest``, ``linear`` or ``cubic``.
        padding: The values outside of the input: ``zeros``; ``border``, the nearest element;
            ``reflection``.
        coordinates: -1 and 1 are the ``centers`` of the outer elements, or their outer ``edges``;
            or coordinates are ``elements``.
    """

    mode: str
    padding: str
    coordinates: str

    def taps(self, coordinate: Term, size: Length) -> list[Tap]:
        """Return the elements that count at a *coordinate* along an axis of *size*.

        A place beyond the border is moved inside before its neighbours are taken, but for the cubic
        kernel with padding "border", as in ONNX Runtime and PyTorch: there the neighbours alone
        are moved. (``onnx.reference`` moves such a place, too, once it is half an element out.)
        """
        place = self._place(coordinate, size)
        if self.mode == NEAREST:
            return [self._tap(self._inside(place.apply(Round), size), None, size)]
        if not (self.mode == CUBIC and self.padding == BORDER):
            place = self._inside(place, size)
        first = place.apply(Floor)
        fraction = place - first
        if self.mode == LINEAR:
            return [
                self._tap(first, 1 - fraction, size),
                self._tap(first + 1, fraction, size),
            ]
        weights = enumerate(_cubic(fraction), -1)
        return [self._tap(first + step, weight, size) for step, weight in weights]

    def _place(self, coordinate: Term, size: Length) -> Term:
        if self.coordinates == ELEMENTS:
            return coordinate
        unit = coordinate + 1
        return unit * ((size - 1) / 2) if self.coordinates == CENTERS else (unit * size - 1) * 0.5

    def _inside(self, place: Term, size: Length) -> Term:
        """Return places outside the input moved inside, if the padding says so."""
        if self.padding == BORDER:
            return _clipped(place, size)
        return self._reflected(place, size) if self.padding == REFLECTION else place

    def _reflected(self, place: Term, size: Length, reach: float = inf) -> Term:
        """Return places reflected until they are inside; none is more than *reach* outside."""
        low, high = (-0.5, size - 0.5) if self.coordinates == EDGES else (0.0, size - 1.0)
        if low == high:
            return place * 0
        span = high - low
        turned = (place - low).apply(Abs)
        if isinstance(span, Term) or reach > span:
            turned = turned % (2 * span)  # which is exact, however far that is
        reflected = where(turned <= span, turned + low, high - (turned - span))
        if isinstance(span, Term) and self.coordinates != EDGES:
            return where(span > 0, reflected, place * 0)
        return reflected

    def _tap(self, place: Term, weight: Term | None, size: Length) -> Tap:
        """Return the tap at a whole *place*: nothing outside for zeros, else moved inside."""
        if self.padding == ZEROS:
            return Tap(_clipped(place, size), weight, (place >= 0) & (place <= size - 1))
        if self.padding == REFLECTION:
            place = self._reflected(place, size, TAPS[self.mode] // 2)
        return Tap(_clipped(place, size), weight, None)


def _clipped(place: Term, size: Length) -> Term:
    if isinstance(size, Term):
        return place.joined(Maximum, 0.0).joined(Minimum, size - 1)
    clip = Clip(place.value, minimum=0.0, maximum=float(size - 1))
    return Term(place.builder, place.builder.emit(clip))


def _cubic(t: Term) -> list[Term]:
    """Return the four weights of Keys's kernel at ``t + 1, t, 1 - t, 2 - t``."""
    rest = 1 - t
    return [_far(t + 1), _near(t), _near(rest), _far(rest + 1)]


def _near(d: Term) -> Term:
    return (d * (_CUBIC_A + 2) - (_CUBIC_A + 3)) * d * d + 1


def _far(d: Term) -> Term:
    return ((d * _CUBIC_A - 5 * _CUBIC_A) * d + 8 * _CUBIC_A) * d - 4 * _CUBIC_A


@lru_cache(maxsize=64)
def tap_function(sampler: Sampler, size: int | None, type: TensorType) -> Function:
    """Return the taps of an axis of *size* for an input ``coordinate`` of *type*.

    Without *size*, an input ``size`` of *type* says what it is. Outputs are ``place0``,
    ``weight0`` and ``inside0``, as far as there are, and so on.
    """
    builder = Builder("taps")
    coordinate = Term(builder, builder.input("coordinate", type))
    length: Length = 0 if size is None else size
    if size is None:
        length = Term(builder, builder.input("size", type))
    for number, tap in enumerate(sampler.taps(coordinate, length)):
        for name, term in ((PLACE, tap.place), (WEIGHT, tap.weight), (INSIDE, tap.inside)):
            if term is not None:
                builder.save(term.value, f"{name}{number}")
    return builder.function()
