"""Straight-line vector code under construction, and what it knows about whole numbers.

Quantized networks round to integers and take these for real numbers again, over and over. So the
code remembers how a vector of whole numbers was made, and writes what is computed in fewer
operations, with the same results::

    saturate(rint(x) + z)            one function, which adds the integers z once they are narrow
    float32(saturate(rint(x) + z))   clamp(rint(x) + z): nothing is narrowed and widened again
    ... - z                          clamp_around(rint(x), z): it is bounded by what z leaves
    float32(q) - float32(z)          float32(q - z), for integers of at most 16 bits

For that, roundings and what may follow them wait: they are written where something else reads them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from glow_nb.base.types import ElementKind
from glow_nb.hlir.ops.quantization import BYTES
from glow_nb.llir.scalar import number_as
from glow_nb.llir.scalar_functions import SCALAR_FUNCTIONS, ScalarFunction

FLOAT32, INT32 = ElementKind.FLOAT32, ElementKind.INT32
_ADD, _SUB, _RINT, _SATURATE, _CONVERT, _CONVERT_FLOAT32 = (
    SCALAR_FUNCTIONS[name] for name in "add sub rint saturate convert convert_float32".split()
)
_MAXIMUM, _MINIMUM = (SCALAR_FUNCTIONS[name] for name in ("maximum", "minimum"))
_INTEGERS = frozenset(kind for kind in ElementKind if kind.value.startswith(("int", "uint")))
_SHORT = frozenset(kind for kind in _INTEGERS if kind.bits <= 16)


@dataclass(frozen=True)
class Vector:
    """A vector in generated text.

    Attributes:
        name: A variable, or a call without side effects that makes the vector; the pointer to a
            table, which is read whole.
        kind: Its element kind.
    """

    name: str
    kind: ElementKind


class VectorCode:
    """Straight-line vector code under construction; equal calls are written once.

    Attributes:
        lanes: Elements of every vector.
        prefix: The prefix of the names of variables.
        lines: The lines written so far, ``v3 = mul(v1, v2)``.
        calls: The functions called so far, each with the kind of its first operand.
    """

    def __init__(self, lanes: int, prefix: str = "v") -> None:
        self.lanes, self.prefix = lanes, prefix
        self.lines: list[str] = []
        self.calls: set[tuple[ScalarFunction, ElementKind]] = set()
        self._known: dict[str, Vector] = {}
        self._numbers: dict[Vector, float] = {}  # what is in every lane of constants
        self._waiting: set[Vector] = set()  # calls that are written where they are read
        self._rounded: dict[Vector, Vector] = {}  # what rint was called on, by its result
        self._integers: set[Vector] = set()  # whole numbers in float32 without -0.0
        self._widened: dict[Vector, Vector] = {}  # short integers, by themselves in float32
        self._sums: dict[Vector, tuple[Vector, Vector]] = {}  # of one rounded and one widened
        self._saturated: dict[Vector, Vector] = {}  # what integers were made of, by the integers
        self._clamped: dict[Vector, tuple[Vector, ElementKind]] = {}  # a sum, to whose limits

    @property
    def operations(self) -> int:
        """The number of calls, including those that wait, of which some may never be written."""
        return len(self.lines) + sum(call.name not in self._known for call in self._waiting)

    def assign(self, text: str, kind: ElementKind) -> Vector:
        """Return a variable that holds the vector *text* of *kind*."""
        if text not in self._known:
            vector = Vector(f"{self.prefix}{len(self.lines)}", kind)
            self.lines.append(f"{vector.name} = {text}")
            self._known[text] = vector
        return self._known[text]

    def call(self, function: ScalarFunction, kind: ElementKind, *operands: Vector) -> Vector:
        """Return the result, of *kind*, of *function*."""
        first = operands[0]
        self.calls.add((function, first.kind))
        if function in (_MAXIMUM, _MINIMUM) and first.kind.is_float:
            return self._extreme(function, kind, *operands)
        if function is _SATURATE:
            return self._saturate(first, kind)
        if function in (_CONVERT, _CONVERT_FLOAT32) and kind is FLOAT32:
            return self._in_float32(first)
        if function is _RINT:
            return self._round(first)
        if function is _ADD and self._are_integers(*operands):
            return self._add_integers(kind, *operands)
        difference = self._difference(*operands) if function is _SUB else None
        return difference or self._written_call(function.name_for(kind), kind, *operands)

    def _extreme(
        self, function: ScalarFunction, kind: ElementKind, x: Vector, bound: Vector
    ) -> Vector:
        """Return the larger or smaller of *x* and *bound*, shorter if the operands allow it."""
        number = self._numbers.get(bound, math.nan)
        is_negative = math.copysign(1.0, number) < 0
        if function is _MAXIMUM and number == 0 and not is_negative:
            return self._written_call("positive_part", kind, x)
        if math.isnan(number) or (function is _MINIMUM and number == 0 and is_negative):
            return self._written_call(function.name, kind, x, bound)
        return self._written_call("at_least" if function is _MAXIMUM else "at_most", kind, x, bound)

    def _written_call(self, name: str, kind: ElementKind, *operands: Vector) -> Vector:
        arguments = ", ".join(self._written(operand).name for operand in operands)
        return self.assign(f"{name}({arguments})", kind)

    def _written(self, vector: Vector) -> Vector:
        """Return *vector* as a variable, if it waited to be written."""
        return self.assign(vector.name, vector.kind) if vector in self._waiting else vector

    def _wait(self, text: str, kind: ElementKind) -> Vector:
        vector = Vector(text, kind)
        self._waiting.add(vector)
        return vector

    def _round(self, x: Vector) -> Vector:
        result = self._wait(f"rint({self._written(x).name})", x.kind)
        self._rounded[result] = x
        return result

    def _are_integers(self, *summands: Vector) -> bool:
        """Return whether the sum is a whole number, but not -0.0.

        All of *summands* are whole numbers then, and one of them is never -0.0.
        """
        integers = self._integers.intersection(summands)
        return bool(integers) and (integers | self._rounded.keys()).issuperset(summands)

    def _add_integers(self, kind: ElementKind, x: Vector, y: Vector) -> Vector:
        """Return the sum, which waits if it is that of one rounded and one widened vector."""
        if y in self._rounded:
            x, y = y, x
        if x in self._rounded and y in self._widened:
            result = self._wait(f"add({x.name}, {y.name})", kind)
            self._sums[result] = x, y
        else:
            result = self._written_call(_ADD.name, kind, x, y)
        self._integers.add(result)
        return result

    def _saturate(self, x: Vector, kind: ElementKind) -> Vector:
        text = f"saturate_{kind.value}({x.name})"
        if x in self._sums and kind in BYTES:
            rounded, offset = self._sums[x]
            number, integers = self._rounded[rounded], self._widened[offset]
            if integers.kind is kind:
                number = self._written(number)
                text = f"saturate_sum_{kind.value}({number.name}, {integers.name})"
        result = self._wait(text, kind)
        self._saturated[result] = x
        return result

    def _in_float32(self, vector: Vector) -> Vector:
        """Return *vector* converted to float32.

        Where integers of at most 16 bits are saturated floats, those are bounded instead.
        """
        kind = vector.kind
        if kind is FLOAT32:
            return vector
        source = self._saturated.get(vector)
        if source in self._integers and kind in _SHORT:
            result = self._wait(f"clamp_{kind.value}({source.name})", FLOAT32)
            self._clamped[result] = source, kind
            return result
        if kind not in _SHORT or kind.is_storage:
            result = self._written_call("convert_float32", FLOAT32, vector)
        else:
            result = self._wait(f"convert_float32({self._written(vector).name})", FLOAT32)
            self._widened[result] = vector
        if kind in _INTEGERS:
            self._integers.add(result)
        return result

    def _difference(self, x: Vector, y: Vector) -> Vector | None:
        """Return *x* less *y* if fewer instructions compute it."""
        if x in self._clamped:
            source, kind = self._clamped[x]
            rounded, offset = self._sums.get(source, (None, None))
            if rounded and offset == y:
                return self._written_call(f"clamp_around_{kind.value}", FLOAT32, rounded, y)
        if x in self._widened and y in self._widened:
            integers = (self.convert(self._widened[each], INT32) for each in (x, y))
            return self._in_float32(self.call(_SUB, INT32, *integers))
        return None

    def convert(self, vector: Vector, kind: ElementKind) -> Vector:
        """Return *vector* with elements of *kind*."""
        return vector if vector.kind is kind else self.call(_CONVERT, kind, vector)

    def splat(self, number: float, kind: ElementKind) -> Vector:
        """Return a vector with *number*, made fit for *kind*, in every lane."""
        fit = number_as(kind, number)
        vector = Vector(f"splat_{kind.value}({number_text(fit)}, {self.lanes})", kind)
        self._numbers[vector] = fit
        return vector


def number_text(number: float) -> str:
    """Return *number* as a Python expression without names; infinity is ``1e999``."""
    if number == -(2**63):
        return f"{number + 1} - 1"  # 2**63 alone is not an int64
    if isinstance(number, float) and math.isinf(number):
        return "1e999" if number > 0 else "-1e999"
    if isinstance(number, float) and math.isnan(number):
        return "1e999 - 1e999"
    return repr(number)
