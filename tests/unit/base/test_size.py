"""Sizes that are known when a network runs: arithmetic, text, comparisons and their guards."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.errors import GlowError, OptionError
from glow_nb.base.noted import keep, trial
from glow_nb.base.open_size_error import OpenSizeError
from glow_nb.base.size import Size, Symbol, at, bounds, example, same
from glow_nb.base.size_as_code import printed_as_code
from glow_nb.base.size_text import read_size
from glow_nb.base.tokens import TokenStream

BATCH, LENGTH = Symbol("batch", 8, 1, 64), Symbol("length", 128, 0, 512)
SIZES = st.fixed_dictionaries({"batch": st.integers(1, 64), "length": st.integers(0, 512)})


def _combined(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw pairs of a size and the function of numbers that it is, made of such *parts*."""
    two = st.tuples(parts, parts)
    return st.one_of(
        two.map(lambda p: (p[0][0] + p[1][0], lambda s: p[0][1](s) + p[1][1](s))),
        two.map(lambda p: (p[0][0] - p[1][0], lambda s: p[0][1](s) - p[1][1](s))),
        two.map(lambda p: (p[0][0] * p[1][0], lambda s: p[0][1](s) * p[1][1](s))),
        st.tuples(parts, st.integers(1, 9)).map(
            lambda p: (p[0][0] // p[1], lambda s: p[0][1](s) // p[1])
        ),
        st.tuples(parts, st.integers(1, 9)).map(
            lambda p: (p[0][0] % p[1], lambda s: p[0][1](s) % p[1])
        ),
        parts.map(lambda p: (p[0] // (BATCH.size + 2), lambda s: p[1](s) // (s["batch"] + 2))),
    )


LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.integers(-9, 9).map(lambda n: (n, lambda _: n)),
    st.just((BATCH.size, lambda s: s["batch"])),
    st.just((LENGTH.size, lambda s: s["length"])),
)
DRAWN = st.recursive(LEAVES, _combined, max_leaves=6)


@given(DRAWN, SIZES)
def test_arithmetic_on_sizes_is_that_on_numbers(drawn: Any, sizes: dict[str, int]) -> None:
    size, number_of = drawn
    assert at(size, sizes) == number_of(sizes)


@given(DRAWN, SIZES)
def test_a_size_is_never_outside_its_bounds(drawn: Any, sizes: dict[str, int]) -> None:
    least, greatest = bounds(drawn[0])
    assert least <= at(drawn[0], sizes) <= greatest


@given(DRAWN)
def test_a_size_reads_back_from_its_text(drawn: Any) -> None:
    reader = TokenStream(str(drawn[0]), "<size>")
    reader.symbols = {"batch": BATCH, "length": LENGTH}
    assert read_size(reader) == drawn[0]
    assert reader.token.kind == "end"


@given(DRAWN, SIZES)
def test_the_python_code_of_a_size_computes_it(drawn: Any, sizes: dict[str, int]) -> None:
    assert eval(f"{drawn[0]}", dict(sizes)) == at(drawn[0], sizes)


@pytest.mark.parametrize("length", [1, 5, 8, 37])
def test_the_python_code_of_a_quotient_rounded_up_computes_it(length: int) -> None:
    assert eval(f"{-(-LENGTH.size // 4)}", {"length": length}) == -(-length // 4)


@given(DRAWN, DRAWN, SIZES)
def test_a_decided_comparison_holds_for_all_sizes(
    left: Any, right: Any, sizes: dict[str, int]
) -> None:
    for symbol in (BATCH, LENGTH):
        symbol.guards.clear()
    for answer, numbers in (
        (left[0] < right[0], left[1](sizes) < right[1](sizes)),
        (left[0] <= right[0], left[1](sizes) <= right[1](sizes)),
        (same(left[0], right[0]), left[1](sizes) == right[1](sizes)),
    ):
        guards = [guard for symbol in (BATCH, LENGTH) for guard in symbol.guards]
        assert answer == numbers or not all(guard.holds(sizes) for guard in guards)


def test_what_divides_without_rest_is_no_quotient() -> None:
    batch, length = BATCH.size, LENGTH.size
    assert batch * length * 768 // (batch * 12) == length * 64
    assert (2 * length + 1) // 2 == length
    assert str((length + 1) // 2 * 2) == "2*((length + 1)/2)"
    assert (batch * batch + batch) // (batch + 1) == batch
    assert (batch * length + length + batch + 1) // (batch + 1) == length + 1
    assert (2 * batch - 1) // batch == 1
    assert (batch - 1) // (batch + 1) == 0


def test_quotients_in_quotients_are_rounded_once() -> None:
    n, m = Symbol("n", 64).size, Symbol("m", 7).size
    assert str((((n + 1) // 2 + 1) // 2 + 1) // 2) == "(n + 7)/8"
    assert str((n // 3 + m) // 5) == "(3*m + n)/15"
    assert str((n // 2 + n // 3) // 5) == "(n/2 + n/3)/5"


def test_what_follows_from_equations_is_not_noted() -> None:
    symbol = Symbol("n", 64)
    tiles = [(symbol.size + size - 1) // size for size in (8, 16, 32)]
    assert same(tiles[1], 2 * tiles[2]) and same(tiles[0], 2 * tiles[1])
    assert same(tiles[0], 4 * tiles[2]) and tiles[0] <= 4 * tiles[2]
    assert len(symbol.guards) == 2


def test_an_undecided_comparison_is_answered_by_the_hint_and_noted() -> None:
    symbol = Symbol("length", 128)
    assert symbol.size <= 512
    assert symbol.size > 77
    assert [str(guard) for guard in symbol.guards] == ["length <= 512", "length > 77"]
    guards = list(symbol.guards)
    assert all(guard.holds({"length": 78}) for guard in guards)
    assert not guards[0].holds({"length": 513})


def test_a_comparison_that_the_range_decides_is_not_noted() -> None:
    symbol = Symbol("length", 128, 1, 512)
    assert symbol.size <= 512
    assert symbol.size + 1 > symbol.size
    assert bool(symbol.size)
    assert not symbol.guards


def test_a_size_is_no_number() -> None:
    for take in (int, float, range, lambda size: size / 2):
        with pytest.raises(OpenSizeError, match=r"^size length \+ 1: it is known only"):
            take(LENGTH.size + 1)


def test_no_size_is_divided_by_what_may_be_zero() -> None:
    with pytest.raises(GlowError, match=r"^size length: batch is divided by it, and it may be 0"):
        BATCH.size // LENGTH.size


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("n", 4, 5, 3), r"the range 5\.\.3 holds no size"),
        (("n", 4, -1, 3), r"the range -1\.\.3 holds no size"),
        (("n", 4, 5, 9), r"4 is outside its range 5\.\.9"),
        (("a b", 4), "must be called by a word"),
        (("scale", 4), "this word has another meaning in the text of a graph; call it scale_size"),
        (("float32", 4), "this word has another meaning in the text of a graph"),
    ],
)
def test_a_symbol_that_cannot_be_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Symbol(*arguments)


def test_a_question_that_is_answered_already_is_not_noted() -> None:
    n, m = Symbol("n", 32), Symbol("m", 64)
    assert n.size >= 10
    for answer in (n.size > 9, n.size + 1 >= 11, n.size > 9, n.size + 5 > 7, n.size != 3):
        assert answer
    assert not same(n.size, m.size)
    assert not same(m.size, n.size)
    assert [str(guard) for guard in (*n.guards, *m.guards)] == ["n >= 10", "n != m"]


def test_a_guard_is_about_the_sizes_that_it_depends_on() -> None:
    n, m = Symbol("n", 32), Symbol("m", 64)
    assert n.size + m.size > m.size + 4
    assert [str(guard) for guard in n.guards] == ["n - 4 > 0"]


def test_rests_of_quotients_are_small() -> None:
    for drawn in (LENGTH.size, BATCH.size * 3 + 1):
        assert bounds(drawn - drawn // 2 * 2) == (0, 1)
        assert bounds((drawn + 1) // 2 - drawn // 2) == (0, 1)
        assert bounds(drawn - (drawn // 2) // 3 * 6) == (0, 5)


def test_rests_within_quotients_are_small() -> None:
    """The pads of a window of five cells, three apart: two to four together."""
    n = Symbol("n", 32, 1, 640).size
    count = -(-n // 3)
    assert count == (n + 2) // 3
    pads = 3 * count - n + 2
    assert bounds(pads) == (2, 4)
    assert bounds(pads // 2)[0] == 1


def test_small_sizes_are_tried_where_bounds_do_not_tell() -> None:
    symbol = Symbol("n", 64)
    n = symbol.size
    assert n + n % 2 >= 2
    assert n * n - 3 * n + 2 >= 0
    assert not symbol.guards
    assert n * n - 3 * n + 2 > 0
    assert [str(guard) for guard in symbol.guards] == ["n*n - 3*n + 2 > 0"]


def test_what_is_only_tried_notes_nothing() -> None:
    n = Symbol("n", 32)
    with trial() as notes:
        assert n.size > 4
        with trial():
            assert n.size > 4
            assert n.size > 7
        with trial() as kept:
            assert n.size > 5
        keep(kept)
    assert not n.guards
    assert [str(guard) for guard in notes] == ["n > 4", "n > 5"]
    keep(notes)
    assert [str(guard) for guard in n.guards] == ["n > 4", "n > 5"]


@pytest.mark.parametrize("make", [lambda n: (n * n + n + 1) // 3, lambda n: n * n + 1])
def test_sizes_that_no_network_has_are_refused(make: Callable[[int], int]) -> None:
    size: int = LENGTH.size
    with pytest.raises(OpenSizeError, match="has more than 256 terms and factors"):
        for _ in range(99):
            size = make(size)


def test_whole_numbers_of_numpy_take_part() -> None:
    three = np.int64(3)
    assert [str(size) for size in (three - BATCH.size, BATCH.size * three, three * BATCH.size)] == [
        "-batch + 3",
        "3*batch",
        "3*batch",
    ]
    assert three < BATCH.size + 3


@pytest.mark.parametrize("power", [0, 1, 3])
def test_powers_and_magnitudes(power: int) -> None:
    assert at(BATCH.size**power, {"batch": 5}) == 5**power
    assert abs(-BATCH.size) == BATCH.size
    assert at((7 * BATCH.size) // -2, {"batch": 5}) == -18


def test_examples_differ_and_stay_in_the_range() -> None:
    assert [example(place) for place in range(3)] == [32, 64, 96]
    assert example(0, 40, 50) == 40
    assert example(2, 1, 50) == 50


@pytest.mark.parametrize("bounds", [(1, 512), (64, 640), (1, 1024), (1, 4096), (800, 2000)])
def test_examples_of_like_ranges_differ_and_are_multiples_of_32(bounds: tuple[int, int]) -> None:
    found = [example(place, *bounds) for place in range(4)]
    assert len(set(found)) == 4
    assert all(bounds[0] <= size <= bounds[1] and size % 32 == 0 for size in found)


def test_examples_lie_near_the_middle_of_a_range_and_not_far_above_512() -> None:
    assert all(192 <= example(place, 1, 512) <= 320 for place in range(6))
    assert all(448 <= example(place, 1, 1 << 20) <= 576 for place in range(6))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda item: pickle.loads(pickle.dumps(item))])
@pytest.mark.parametrize("begin", ["size", "quotient", "guard", "symbol"])
def test_sizes_in_guards_of_their_own_symbols_are_copied(
    copied: Callable[[Any], Any], begin: str
) -> None:
    symbol = Symbol("n", 32)
    half = symbol.size // 2
    assert half + 1 > half * half - 999
    assert half + (half + 5) // 3 < 40
    assert isinstance(half, Size)
    ((quotient,),) = half.terms
    item = {"size": half, "quotient": quotient, "guard": next(iter(symbol.guards))}.get(
        begin, symbol
    )
    found = copied(item)
    assert found == item
    assert str(found) == str(item)
    (same_symbol,) = dict.fromkeys(found.symbols)
    assert list(same_symbol.guards) == list(symbol.guards)


def test_bounds_of_a_product_with_what_is_never_negative() -> None:
    n, m = Symbol("n", 5, 1, 9).size, Symbol("m", 3, 2, 4).size
    assert bounds(n * m - m) == (0, 32)
    assert bounds(m - n * m) == (-32, 0)
    assert bounds((n - 1) * (m - 2) + 7)[0] == 7


def test_texts_are_code_where_code_is_written() -> None:
    height, width = (Symbol(name, 9, 1, 99).size for name in ("height", "width"))
    for size in (height, height + 1, (height + 1) // 2, ((height // 2 + 1) // 2) * width - 1):
        plain = str(size)
        with printed_as_code():
            code = str(size)
            assert (code, repr(size), f"{size!s}") == (f"{size}",) * 3
        assert eval(f"7 - {code}", {"height": 8, "width": 5}) == 7 - at(
            size, {"height": 8, "width": 5}
        )
        assert str(size) == plain and "//" not in plain
