"""Looking bytes up in a table of 256 elements.

Where the processor picks bytes from registers by the bytes of another one, a whole vector is looked
up at once: each piece of the table that fits the instruction gives a candidate by the low bits of
the byte, and its high bits choose among them. VBMI picks from 128 bytes, which leaves one choice;
``vpshufb`` picks from 16. Anywhere else elements are loaded one by one, from a table in L1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from glow_nb.base.types import ElementKind
from glow_nb.simd.instruction_sets import has_instruction_set
from glow_nb.simd.lanes import Lanes, call_named, joined
from glow_nb.simd.memory import address, load_vector
from glow_nb.simd.take import taken
from glow_nb.simd.types import INDEX, Pointer, Vec

INT8, UINT8 = ElementKind.INT8, ElementKind.UINT8
BYTES = (INT8, UINT8)
ENTRIES = 256
SIGN = 128
FEWEST_SHUFFLED = 16
"""Bytes for which 16 shuffles and 15 choices take less time than this number of loads of one
byte."""


@dataclass(frozen=True)
class _Picker:
    """An instruction that picks bytes from a piece of a table.

    Attributes:
        set: The instruction set that it is of.
        lanes: Bytes that it picks at once.
        entries: Bytes that it picks from.
        fewest: Bytes from which on it is worth it.
    """

    set: str
    lanes: int
    entries: int
    fewest: int

    def pick(self, table: Any, begin: int, numbers: Lanes) -> Lanes:
        """Return the elements of *table* from *begin* on that the low bits of *numbers* count."""
        builder, form = numbers.builder, numbers.value.type
        place = address(builder, table, ir.Constant(INDEX, begin), UINT8)
        if self.entries == 16:
            piece = Lanes(builder, load_vector(builder, place, UINT8, 16), UINT8, 16)
            whole = piece.shuffle([*range(16)] * (self.lanes // 16))
            operands = [whole.value, (numbers & 15).value]
            return numbers.like(call_named(builder, _SHUFFLES[self.lanes], form, operands))
        high = address(builder, table, ir.Constant(INDEX, begin + self.lanes), UINT8)
        first, second = (load_vector(builder, at, UINT8, self.lanes) for at in (place, high))
        operands = [first, numbers.value, second]
        return numbers.like(call_named(builder, _PERMUTE, form, operands))


_PERMUTE = "llvm.x86.avx512.vpermi2var.qi.512"
_SHUFFLES = {
    16: "llvm.x86.ssse3.pshuf.b.128",
    32: "llvm.x86.avx2.pshuf.b",
    64: "llvm.x86.avx512.pshuf.b.512",
}
_PICKERS = (
    _Picker("permute_bytes_64", lanes=64, entries=128, fewest=4),
    *(_Picker(f"shuffle_bytes_{n}", n, entries=16, fewest=FEWEST_SHUFFLED) for n in (64, 32, 16)),
)


@intrinsic
def look_up(typing: Any, table: Any, x: Any) -> Any:
    """``look_up(p, v)``: of the 256 elements from p on the one that each byte of v counts.

    The least byte of the kind of v counts the first.
    """
    if not (isinstance(table, Pointer) and isinstance(x, Vec) and x.kind in BYTES):
        return None
    result = Vec(table.kind, x.lanes)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = Lanes(builder, arguments[1], UINT8, x.lanes)
        if x.kind is INT8:
            numbers = numbers ^ SIGN
        picker = next((p for p in _PICKERS if has_instruction_set(builder, p.set)), None)
        if picker is None or x.lanes < picker.fewest or table.kind not in BYTES:
            return taken(arguments[0], numbers, table.kind)
        return _picked(arguments[0], numbers, picker)

    return result(table, x), codegen


def _picked(table: Any, numbers: Lanes, picker: _Picker) -> Any:
    """Return the bytes that *numbers* count, as many at once as *picker* picks."""
    parts = [
        numbers.shuffle([(begin + lane) % numbers.lanes for lane in range(picker.lanes)])
        for begin in range(0, numbers.lanes, picker.lanes)
    ]
    found = [_chosen(table, part, picker, 0, ENTRIES) for part in parts]
    return joined(found).shuffle(range(numbers.lanes)).value


def _chosen(table: Any, numbers: Lanes, picker: _Picker, begin: int, count: int) -> Lanes:
    """Return the elements that *numbers* count of the *count* ones from *begin* on."""
    if count <= picker.entries:
        return picker.pick(table, begin, numbers)
    half = count // 2
    low = _chosen(table, numbers, picker, begin, half)
    high = _chosen(table, numbers, picker, begin + half, half)
    return (numbers & half).compare("!=", 0).select(high, low)
