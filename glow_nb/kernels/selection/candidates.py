"""Elements that may be among the k best of a line: integer keys and places, sorted by radix.

Keys are in the order in which elements come: the least comes first. A sort goes by one digit after
the other, from the lowest one, and keeps the order of equal keys, which is that of their places.
Lines that are sorted already, in either order, are common, and are detected by one pass over their
keys.
"""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.size import Size, surely
from glow_nb.base.types import ElementKind
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.llir.instructions.reduction import TopKInst

DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS
"""How many values a digit has."""

_LEAST_ROOM = 1024
_ROOM_FOR_EACH = 4
"""Candidates that there is room for, at least, and for each of the k best: so
many are sorted at a time that few sorts are needed."""

_COUNT_BYTES = 4

_INFINITIES = {
    ElementKind.FLOAT16: 0x7C00,
    ElementKind.BFLOAT16: 0x7F80,
    ElementKind.FLOAT32: 0x7F800000,
    ElementKind.FLOAT64: 0x7FF0000000000000,
}
"""The bits of infinity."""

_SIGNED = {
    1: ElementKind.INT8,
    2: ElementKind.INT16,
    4: ElementKind.INT32,
    8: ElementKind.INT64,
}


@dataclass(frozen=True)
class Candidates:
    """The candidates of one line, in two halves of the scratch, of which a sort moves them.

    The source around it names the variables ``half``, where the candidates begin, and ``length``.

    Attributes:
        kind: Kind of the elements.
        largest: The largest elements come first.
        room: The largest number of candidates.
        lanes: The number of elements that are added at a time.
        place: The kind that holds places.
    """

    kind: ElementKind
    largest: bool
    room: int
    lanes: int
    place: ElementKind

    @classmethod
    def of(cls, instruction: TopKInst, lanes: int) -> Candidates:
        """Return the candidates of *instruction*, of which *lanes* are added at a time."""
        type, k = instruction.input.type, instruction.k
        count = type.shape[instruction.axis]
        few = surely(_ROOM_FOR_EACH * k, "<=", _LEAST_ROOM)
        room = lanes + (_LEAST_ROOM if few else _ROOM_FOR_EACH * k)
        if not few and isinstance(k, Size):
            room += _LEAST_ROOM  # which does for any k
        if surely(count, "<=", room):
            room = count
        place = ElementKind.INT32 if surely(count, "<", 2**31) else ElementKind.INT64
        return cls(type.kind, instruction.largest, room, lanes, place)

    @property
    def key_digits(self) -> int:
        """Digits of a key."""
        return self.kind.size_bytes

    @property
    def _key(self) -> ElementKind:
        return ElementKind.INT64 if self.key_digits == 8 else ElementKind.INT32

    @property
    def scratch_bytes(self) -> int:
        """Bytes for both halves and for how often each digit has each value."""
        both = 2 * self.room * (self._key.size_bytes + self.place.size_bytes)
        return both + self.key_digits * DIGITS * _COUNT_BYTES

    def write_pointers(self, out: SourceWriter) -> None:
        """Write where keys, places, counts and the bits of the operand are."""
        places = 2 * self.room * self._key.size_bytes
        counts = places + 2 * self.room * self.place.size_bytes
        out.line(f"keys = as_{self._key.value}(scratch)")
        out.line(f"places = as_{self.place.value}(at(scratch, {places}))")
        out.line(f"counts = as_int32(at(scratch, {counts}))")
        out.line(f"bits = as_{_SIGNED[self.key_digits].value}(input)")

    def write_added(self, out: SourceWriter, element: str) -> None:
        """Write element ``i``, at index *element*, after the candidates; ``length`` stays.

        Zeros of both signs have one key, as have all NaN, which are larger than infinity.
        """
        least, infinity = -(2 ** (self.kind.bits - 1)), _INFINITIES.get(self.kind)
        out.line(f"key = get(bits, {element})")
        if infinity is not None:
            out.line(f"key = key if key >= 0 else {least} - key")
            is_number = f"key >= -{infinity} and key <= {infinity}"
            out.line(f"key = key if {is_number} else {infinity + 1}")
        elif self.kind.value.startswith("uint"):
            out.line(f"key = key ^ {least}")
        if self.largest:
            out.line("key = -1 - key")
        out.line("put(keys, half + length, key)\nput(places, half + length, i)")

    def write_sort(self, out: SourceWriter) -> None:
        """Write the sort of all candidates, after which ``half`` may be the other one.

        Those that come in order already, or in reverse, are not sorted by digits.
        """
        out.line("later = 0\nkey = get(keys, half)")
        with out.block("for i in range(1, length):"):
            out.line("before = key\nkey = get(keys, half + i)")
            out.line("later = later + (1 if key < before else 0)")
        with out.block("if later == length - 1 and length > 1:"):  # no two are equal
            self._write_reversed(out)
        with out.block("elif later > 0:"):
            self._write_sort_by_digits(out)

    def _write_reversed(self, out: SourceWriter) -> None:
        """Write the moves to the other half, in reverse."""
        out.line(f"other = {self.room} - half")
        with out.block("for i in range(length):"):
            for tensor in ("keys", "places"):
                last = f"get({tensor}, half + length - 1 - i)"
                out.line(f"put({tensor}, other + i, {last})")
        out.line("half = other")

    def _write_sort_by_digits(self, out: SourceWriter) -> None:
        """Write the sort by one digit after the other, from the lowest one."""
        out.line(f"clear(counts, 0, {self.key_digits * DIGITS})")
        with out.block("for i in range(length):"):
            out.line("key = get(keys, half + i)")
            for digit in range(self.key_digits):
                out.line(f"at_digit = {self._count_of(digit)}")
                out.line("put(counts, at_digit, get(counts, at_digit) + 1)")
        for digit in range(self.key_digits):
            out.line("key = get(keys, half)")
            with out.block(f"if get(counts, {self._count_of(digit)}) < length:"):
                self._write_pass(out, digit)

    def _write_pass(self, out: SourceWriter, digit: int) -> None:
        """Write the moves to the other half, by one digit."""
        out.line("total = 0")
        with out.block(f"for at_digit in range({digit * DIGITS}, {(digit + 1) * DIGITS}):"):
            out.line("many = get(counts, at_digit)\nput(counts, at_digit, total)")
            out.line("total = total + many")
        out.line(f"other = {self.room} - half")
        with out.block("for i in range(length):"):
            out.line(f"key = get(keys, half + i)\nat_digit = {self._count_of(digit)}")
            out.line("place = get(counts, at_digit)\nput(counts, at_digit, place + 1)")
            out.line("put(keys, other + place, key)")
            out.line("put(places, other + place, get(places, half + i))")
        out.line("half = other")

    def _count_of(self, digit: int) -> str:
        """Return the index of the count of the value that ``key`` has in *digit*."""
        sign = f" ^ {DIGITS // 2}" if digit == self.key_digits - 1 else ""
        shifted = f"(key >> {digit * DIGIT_BITS})" if digit else "key"
        return f"{digit * DIGITS} + (({shifted} & {DIGITS - 1}){sign})"
