"""The counter-based generator Philox 4x32-10 on vectors; :mod:`glow_nb.numerics.philox` says what
it makes.

Words stand in lanes of 64 bits, since a product of two has as many. The high half of a lane may
hold anything: a product takes only the low halves, and shifts bring the high half of a product
down. So a round is two products, two shifts and four exclusive ors for all counters in a register,
and no lane moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from glow_nb.base.types import ElementKind
from glow_nb.numerics.philox import KEY_STEPS, LOW_WORD, MULTIPLIERS, ROUNDS, WORDS
from glow_nb.simd.convert import convert
from glow_nb.simd.lanes import Lanes, constant_vector, splat_value
from glow_nb.simd.memory import are_literal, literal
from glow_nb.simd.types import Vec, llvm_vector

UINT32, UINT64 = ElementKind.UINT32, ElementKind.UINT64
_I64 = ir.IntType(64)
_FEWEST_COUNTERS = 2

Counter = tuple[Lanes, Lanes, Lanes, Lanes]


def _philox(counter: Counter, key: tuple[Any, Any]) -> Counter:
    """Return the random words of *counter* under a *key* of two LLVM 64-bit integers.

    The low halves of all lanes are the words.
    """
    c0, c1, c2, c3 = counter
    builder, k0, k1 = c0.builder, *key
    for _ in range(ROUNDS):
        first = (c0 & LOW_WORD) * MULTIPLIERS[0]
        second = (c2 & LOW_WORD) * MULTIPLIERS[1]
        c0, c1 = second.shift_right(32) ^ c1 ^ _splat(builder, k0, c0.lanes), second
        c2, c3 = first.shift_right(32) ^ c3 ^ _splat(builder, k1, c0.lanes), first
        k0, k1 = (
            builder.add(k, ir.Constant(_I64, step))
            for k, step in zip((k0, k1), KEY_STEPS, strict=True)
        )
    return c0, c1, c2, c3


def _words_of(block: Lanes, seed: Any, run: Any, stream: Any) -> Counter:
    """Return the words of the counters with these numbers of a *block* of four elements."""
    builder, lanes = block.builder, block.lanes
    numbers = _splat(builder, stream, lanes), _splat(builder, run, lanes)
    high = builder.lshr(seed, ir.Constant(_I64, 32))
    return _philox((block, block.shift_right(32), *numbers), (seed, high))


def _splat(builder: Any, number: Any, lanes: int) -> Lanes:
    return Lanes(builder, splat_value(builder, number, lanes), UINT64, lanes)


def _numbers(like: Lanes, numbers: list[int]) -> Lanes:
    return like.like(constant_vector(UINT64, numbers))


def _side_by_side(builder: Any, element: Any, lanes: int, *source: Any) -> Any:
    """Return the words of *lanes* elements from *element* on, a multiple of 4.

    Pairs of words are put together in the lanes where they are, and pairs of pairs are interleaved.
    For that to be one instruction a register, even lanes have the first half of the counters.
    """
    count = max(lanes // WORDS, _FEWEST_COUNTERS)
    half = count // 2
    first = _splat(builder, builder.lshr(element, ir.Constant(_I64, 2)), count)
    block = first + _numbers(first, [lane % 2 * half + lane // 2 for lane in range(count)])
    w0, w1, w2, w3 = _words_of(block, *source)
    pairs = [(low & LOW_WORD) | high.shift_left(32) for low, high in ((w0, w1), (w2, w3))]
    lane_of = [2 * (number % half) + number // half for number in range(count)]
    order = [lane + part * count for lane in lane_of for part in range(2)]
    mask = constant_vector(ElementKind.INT32, order)
    together = builder.shuffle_vector(pairs[0].value, pairs[1].value, mask)
    words = builder.bitcast(together, llvm_vector(UINT32, count * WORDS))
    return Lanes(builder, words, UINT32, count * WORDS).shuffle(range(lanes)).value


def _one_by_one(builder: Any, element: Any, lanes: int, *source: Any) -> Any:
    """Return the words of *lanes* elements from any *element* on: a counter for each of them."""
    number = _splat(builder, element, lanes)
    number = number + _numbers(number, list(range(lanes)))
    word, *others = _words_of(number.shift_right(2), *source)
    place = number & (WORDS - 1)
    for index, other in enumerate(others, 1):
        word = place.compare("==", index).select(other, word)
    return convert(word, UINT32).value


Write = Callable[..., Any]
"""From builder, element, lanes, seed, run and stream to an LLVM vector."""


@intrinsic(prefer_literal=True)
def random_words(typing: Any, seed: Any, run: Any, stream: Any, element: Any, lanes: Any) -> Any:
    """``random_words(seed, run, stream, i, lanes)``: those of the elements from i on.

    *i* is a multiple of 4.
    """
    return _typed(lanes, _side_by_side)


@intrinsic(prefer_literal=True)
def random_words_anywhere(
    typing: Any, seed: Any, run: Any, stream: Any, element: Any, lanes: Any
) -> Any:
    """``random_words_anywhere(seed, run, stream, i, lanes)``: those of the elements from i on.

    *i* may be any number; each element costs as much as four otherwise.
    """
    return _typed(lanes, _one_by_one)


def _typed(lanes: Any, write: Write) -> Any:
    """Return signature and code generator of an intrinsic that *write* writes the code of."""
    if not are_literal(lanes):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        seed, run, stream, element, _ = arguments
        return write(builder, element, literal(lanes), seed, run, stream)

    return Vec(UINT32, literal(lanes))(*(types.int64,) * 4, lanes), codegen
