"""One value a key, however many threads ask; the least recently used go first."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from typing_extensions import override

from glow_nb.base.errors import GlowError
from glow_nb.network.variants import VariantCache


class Maker:
    """Makes values when it is allowed to; counts the attempts."""

    def __init__(self, *, is_open: bool = False) -> None:
        self.attempts, self.error = 0, None  # type: int, BaseException | None
        self.began, self.opened = threading.Event(), threading.Event()
        if is_open:
            self.opened.set()

    def __call__(self) -> str:
        self.attempts += 1
        attempt = self.attempts
        self.began.set()
        assert self.opened.wait(30)
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return f"value {attempt}"


class Caller(threading.Thread):
    """Asks for one value; keeps it or the error."""

    def __init__(self, cache: VariantCache[str, str], key: str, make: Maker) -> None:
        super().__init__(daemon=True)
        self.cache, self.key, self.make = cache, key, make
        self.outcome: object = None
        self.start()

    @override
    def run(self) -> None:
        try:
            self.outcome = self.cache.get(self.key, self.make)
        except BaseException as error:
            self.outcome = error

    def ended(self) -> object:
        self.join(30)
        assert not self.is_alive()
        return self.outcome


def waiting(cache: VariantCache[str, str], make: Maker, count: int) -> list[Caller]:
    """Return *count* threads that want one key: the first makes it, the others are on their way."""
    first = Caller(cache, "a", make)
    assert make.began.wait(30)
    return [first, *(Caller(cache, "a", make) for _ in range(count - 1))]


def test_a_value_is_made_once() -> None:
    cache, make = VariantCache[str, str](4), Maker()
    callers = waiting(cache, make, 5)
    make.opened.set()
    assert [caller.ended() for caller in callers] == ["value 1"] * 5
    assert make.attempts == 1


def test_other_keys_do_not_wait() -> None:
    cache, slow = VariantCache[str, str](4), Maker()
    caller = Caller(cache, "a", slow)
    assert slow.began.wait(30)
    assert cache.get("b", Maker(is_open=True)) == "value 1"
    assert cache.get("b", slow) == "value 1"
    slow.opened.set()
    assert caller.ended() == "value 1"


def test_all_who_wait_get_the_error_and_a_later_one_tries_again() -> None:
    cache, make = VariantCache[str, str](4), Maker()
    make.error = error = ValueError("broken")
    callers = waiting(cache, make, 3)
    make.opened.set()
    outcomes = [caller.ended() for caller in callers]
    # A thread that came when the error was out already is a later one.
    assert outcomes[0] is error and set(outcomes) <= {error, "value 2"}
    assert cache.get("a", make) == "value 2"


def test_one_who_waits_takes_over_from_one_who_is_interrupted() -> None:
    cache, make = VariantCache[str, str](4), Maker()
    make.error = KeyboardInterrupt()
    first, second = waiting(cache, make, 2)
    make.opened.set()
    assert isinstance(first.ended(), KeyboardInterrupt)
    assert second.ended() == "value 2"


def test_the_least_recently_used_go_first() -> None:
    cache, make = VariantCache[str, str](2), Maker(is_open=True)
    for key in ("a", "b", "a", "c"):
        cache.get(key, make)
    assert list(cache.ready()) == ["a", "c"]


def test_a_value_counts_from_when_it_is_ready() -> None:
    cache, slow, quick = VariantCache[str, str](2), Maker(), Maker(is_open=True)
    caller = Caller(cache, "slow", slow)
    assert slow.began.wait(30)
    for key in ("a", "b", "c"):
        cache.get(key, quick)
    slow.opened.set()
    caller.ended()
    assert list(cache.ready()) == ["c", "slow"]


def test_a_maker_that_asks_for_what_it_makes_is_refused() -> None:
    cache = VariantCache[str, str](2)
    with pytest.raises(GlowError, match="while it is being compiled"):
        cache.get("a", lambda: cache.get("a", lambda: "b"))
    assert cache.get("a", lambda: "c") == "c"


def test_a_maker_may_ask_for_what_another_thread_waits_to_make() -> None:
    cache, inner = VariantCache[str, str](4, in_turn=True), Maker(is_open=True)
    begun, others = threading.Event(), list[Caller]()

    def outer() -> str:
        others.append(Caller(cache, "b", inner))  # which has to wait for its turn
        while "b" not in cache._entries:
            begun.wait(0.01)
        return f"a, with {cache.get('b', inner)}"

    assert cache.get("a", outer) == "a, with value 1"
    assert others[0].ended() == "value 1"
    assert inner.attempts == 1


def test_what_was_taken_over_and_failed_is_told_to_both() -> None:
    cache, inner = VariantCache[str, str](4, in_turn=True), Maker(is_open=True)
    inner.error = error = ValueError("broken")
    others = list[Caller]()

    def outer() -> str:
        others.append(Caller(cache, "b", inner))
        while "b" not in cache._entries:
            threading.Event().wait(0.01)
        with pytest.raises(ValueError, match="broken"):
            cache.get("b", inner)
        return "a"

    assert cache.get("a", outer) == "a"
    assert others[0].ended() is error
    assert cache.get("b", inner) == "value 2"


def test_a_maker_of_a_value_taken_over_may_not_ask_for_it() -> None:
    cache, others = VariantCache[str, str](4, in_turn=True), list[Caller]()

    def outer() -> str:
        others.append(Caller(cache, "b", Maker(is_open=True)))
        while "b" not in cache._entries:
            threading.Event().wait(0.01)
        with pytest.raises(GlowError, match="while it is being compiled"):
            cache.get("b", lambda: cache.get("b", lambda: "never"))
        return "a"

    assert cache.get("a", outer) == "a"
    assert isinstance(others[0].ended(), GlowError)


def test_makers_that_would_wait_for_each_other_are_refused() -> None:
    cache, both = VariantCache[str, str](4), threading.Barrier(2)

    def make(other: str) -> Callable[[], str]:
        def made() -> str:
            both.wait(30)
            return f"with {cache.get(other, lambda: 'never')}"

        return made

    callers = [Caller(cache, key, make(other)) for key, other in ("ab", "ba")]  # type: ignore[arg-type]
    outcomes = [caller.ended() for caller in callers]
    assert all(isinstance(outcome, GlowError) for outcome in outcomes)
    assert not cache.ready() and not cache._awaited


LINES_OF_A_CALL = 40
"""More than ``get`` has."""


def _interrupted_at(line: int, call: Callable[[], object]) -> bool:
    """Raise KeyboardInterrupt before the *line*-th line that *call* executes in ``get``."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if frame.f_code is not VariantCache.get.__code__:
            return None
        if event == "line":
            count += 1
            if count == line:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupt_at_any_line_lets_others_have_the_value() -> None:
    lines = 0
    for line in range(1, LINES_OF_A_CALL):
        cache: VariantCache[str, int] = VariantCache(2)
        if not _interrupted_at(line, partial(cache.get, "key", lambda: 1)):
            break
        lines += 1
        found: list[int] = []
        other = threading.Thread(
            target=lambda cache=cache, found=found: found.append(cache.get("key", lambda: 1)),
            daemon=True,
        )
        other.start()
        other.join(10)
        assert found == [1], f"interrupted at line {line}"
        assert cache.get("key", lambda: 1) == 1
    assert 5 < lines < LINES_OF_A_CALL - 1
