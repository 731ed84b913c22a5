"""Numbers in ``float32`` rounded to bytes, as many vectors at once as one vector of bytes holds.

Processors narrow two vectors to one, and saturate; only whole pieces of 16 bytes do so
by themselves, which leaves the result in another order. A last shuffle puts that right. So four
vectors take four instructions, and what is too large for a byte needs no comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from glow_nb.base.types import ElementKind
from glow_nb.simd.instruction_sets import has_instruction_set
from glow_nb.simd.lanes import FLOAT32, I32, INT32, Lanes, call_named

BYTES = (ElementKind.INT8, ElementKind.UINT8)
_TOO_LARGE = 2.0**30
"""It is beyond all bytes, and within the integers that conversions know."""

_NARROW = {  # lanes: to integers, to 16 bits, to signed bytes, to unsigned bytes
    4: ("sse2.cvtps2dq", "sse2.packssdw.128", "sse2.packsswb.128", "sse2.packuswb.128"),
    8: ("avx.cvt.ps2dq.256", "avx2.packssdw", "avx2.packsswb", "avx2.packuswb"),
    16: ("", "avx512.packssdw.512", "avx512.packsswb.512", "avx512.packuswb.512"),
}
"""Names of LLVM for the instructions on so many ``float32``."""

_ROUND_TO_NEAREST = 8
"""The rounding of AVX-512's conversions that is not that of the thread; exceptions are ignored."""

SETS = {f"pack_bytes_{lanes}": lanes for lanes in _NARROW}
"""The instruction sets by what targets call them: the lanes of a vector."""


def packs_bytes(x: Lanes, kind: ElementKind) -> int:
    """Return how many numbers such as *x* the processor narrows to *kind* at once; 0 if none."""
    if x.kind is not FLOAT32 or kind not in BYTES:
        return 0
    names = (name for name in SETS if has_instruction_set(x.builder, name))
    return next((SETS[name] for name in names), 0)


def rounded_to_bytes(
    parts: Sequence[Lanes], kind: ElementKind, offsets: Sequence[Lanes] = ()
) -> list[Lanes]:
    """Return vectors of ``float32`` as bytes of *kind*, halves to even, the least for NaN.

    All have as many lanes as :func:`packs_bytes` says. If there are *offsets*, one of int32 for
    each vector, with numbers of *kind*, they are added to the integers before these saturate.
    """
    found: list[Lanes] = []
    for first in range(0, len(parts), 4):
        some = [_integers(part) for part in parts[first : first + 4]]
        packed = _packed(_four_of(some), kind, _four_of(offsets[first : first + 4]))
        lanes = some[0].lanes
        found += [packed.shuffle(range(n * lanes, (n + 1) * lanes)) for n in range(len(some))]
    return found


def _four_of(some: Sequence[Lanes]) -> list[Lanes]:
    """Return *some* vectors, repeated until there are four; none if there are none."""
    return [some[number % len(some)] for number in range(4)] if some else []


def _integers(x: Lanes) -> Lanes:
    """Round to int32; the least one stands for NaN and for what is too small."""
    bounded = x.full(_TOO_LARGE).compare("<", x).select(x.full(_TOO_LARGE), x)
    form = ir.VectorType(I32, x.lanes)
    name = _NARROW[x.lanes][0]
    if name:
        value = call_named(x.builder, f"llvm.x86.{name}", form, [bounded.value])
        return x.like(value, INT32)
    none, mask = ir.Constant(form, None), ir.Constant(ir.IntType(16), -1)
    operands = [bounded.value, none, mask, ir.Constant(I32, _ROUND_TO_NEAREST)]
    value = call_named(x.builder, "llvm.x86.avx512.mask.cvtps2dq.512", form, operands)
    return x.like(value, INT32)


def _packed(parts: Sequence[Lanes], kind: ElementKind, offsets: Sequence[Lanes]) -> Lanes:
    """Return four vectors of integers as one of bytes, after *offsets* are added, if there are any.

    Sums of 16 bits saturate: no byte can bring back what is beyond them.
    """
    builder, lanes = parts[0].builder, parts[0].lanes
    _, to_words, signed, unsigned = _NARROW[lanes]
    to_bytes = signed if kind.is_signed else unsigned

    def narrowed(name: str, bits: int, count: int, first: Any, second: Any) -> Any:
        form = ir.VectorType(ir.IntType(bits), count)
        return call_named(builder, f"llvm.x86.{name}", form, [first, second])

    def words(vectors: Sequence[Lanes]) -> list[Any]:
        pairs = (vectors[:2], vectors[2:])
        return [narrowed(to_words, 16, 2 * lanes, a.value, b.value) for a, b in pairs]

    low, high = words(parts)
    if offsets:
        name, form = f"llvm.sadd.sat.v{2 * lanes}i16", low.type
        low, high = (
            call_named(builder, name, form, [word, offset])
            for word, offset in zip((low, high), words(offsets), strict=True)
        )
    mixed = narrowed(to_bytes, 8, 4 * lanes, low, high)
    pieces = lanes // 4  # pieces of 16 bytes, in which four bytes of each part follow one another
    order = [
        piece * 16 + part * 4 + byte
        for part in range(4)
        for piece in range(pieces)
        for byte in range(4)
    ]
    return Lanes(builder, mixed, kind, 4 * lanes).shuffle(order)
