"""The pass driver: names, options, fixed points, verification, observers."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from typing_extensions import override

from glow_nb.base.errors import (
    DefinitionError,
    GlowError,
    GlowWarning,
    OptionError,
    PassError,
    VerifyError,
)
from glow_nb.base.passes import PassRegistry, PassRun
from glow_nb.base.steps import Repeat, Step
from glow_nb.observers import each


@pytest.fixture
def registry() -> PassRegistry[list[int]]:
    """Passes over lists of numbers, none of which may be negative."""

    def verify(numbers: list[int]) -> None:
        if any(n < 0 for n in numbers):
            raise VerifyError(numbers, "a number is negative")

    registry: PassRegistry[list[int]] = PassRegistry("list", verify)

    @registry.register
    def decrement(numbers: list[int], *, by: int = 1) -> list[int]:
        return [n - by for n in numbers]

    @registry.register
    def drop_large(numbers: list[int], *, above: int = 5) -> list[int]:
        kept = [n for n in numbers if n <= above]
        return numbers if len(kept) == len(numbers) else kept

    @registry.register
    def halve_one(numbers: list[int]) -> list[int]:
        for index, number in enumerate(numbers):
            if number > 1:
                return [*numbers[:index], number // 2, *numbers[index + 1 :]]
        return numbers

    return registry


def test_steps_run_in_order_with_their_options(registry: PassRegistry[list[int]]) -> None:
    pipeline = (Step("decrement", {"by": 2}), "drop_large", Step("drop_large", {"above": 3}))
    assert registry.run([3, 6, 9], pipeline) == [1]


def test_repeat_stops_at_the_fixed_point(registry: PassRegistry[list[int]]) -> None:
    runs: list[PassRun] = []
    assert registry.run([8, 3], (Repeat(("halve_one",)),), runs.append) == [1, 1]
    assert [run.changed for run in runs] == [True, True, True, True, False]


def test_a_limit_that_is_hit_is_reported(registry: PassRegistry[list[int]]) -> None:
    runs: list[PassRun] = []
    with pytest.warns(GlowWarning, match="after 2 rounds of list passes halve_one still changed"):
        assert registry.run([64], (Repeat(("halve_one",), limit=2),), runs.append) == [16]
    assert [run.name for run in runs] == ["halve_one", "halve_one", "repeat"]


def test_a_pass_that_breaks_the_ir_is_named(registry: PassRegistry[list[int]]) -> None:
    with pytest.raises(PassError, match=r"pass 'decrement' \(after drop_large\).*is negative"):
        registry.run([0], ("drop_large", "decrement"))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("decremnt", "unknown list pass 'decremnt'; did you mean 'decrement'?"),
        (Step("decrement", {"bye": 1}), "no option 'bye'; did you mean 'by'?"),
        (Repeat(("nothing",)), "unknown list pass 'nothing'\n  list passes: decrement, "),
    ],
)
def test_a_wrong_pipeline_fails_before_anything_runs(
    registry: PassRegistry[list[int]], entry: Repeat | Step | str, message: str
) -> None:
    runs: list[PassRun] = []
    with pytest.raises(OptionError, match=message.replace("?", r"\?")):
        registry.run([1], ("drop_large", entry), runs.append)
    assert not runs


def test_an_option_without_default_is_refused(registry: PassRegistry[list[int]]) -> None:
    def takes_anything(numbers: list[int], limit: int) -> list[int]:
        return numbers

    with pytest.raises(DefinitionError, match="'limit' must be keyword-only with a default"):
        registry.register(takes_anything)


def test_a_pass_that_is_defined_again_replaces_the_first(registry: PassRegistry[list[int]]) -> None:
    def decrement(numbers: list[int]) -> list[int]:
        return [n - 100 for n in numbers]

    with pytest.warns(GlowWarning, match="list pass 'decrement' is defined again in .*test_passes"):
        registry.register(decrement)
    assert registry.run([107], ("decrement",)) == [7]
    registry.register(decrement)  # the very same: nothing to tell


def test_a_pass_of_another_module_is_not_replaced(registry: PassRegistry[list[int]]) -> None:
    def decrement(numbers: list[int]) -> list[int]:
        return numbers

    decrement.__module__ = "elsewhere"
    with pytest.raises(DefinitionError, match="registered by .*test_passes, elsewhere cannot"):
        registry.register(decrement)


def without_ir() -> list[int]:
    return []


def with_ir_as_option(*, numbers: tuple[int, ...] = ()) -> list[int]:
    return list(numbers)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (without_ir, "its first parameter must be the IR"),
        (with_ir_as_option, "its first parameter must be the IR"),
        (list, "is no function, which alone has a name"),
        (partial(sorted, reverse=True), "is no function, which alone has a name"),
        (3, "3 is no function"),
    ],
)
def test_what_is_no_pass_is_not_registered(
    registry: PassRegistry[list[int]], run: Any, message: str
) -> None:
    with pytest.raises(DefinitionError, match=message):
        registry.register(run)


def test_functions_stand_in_a_pipeline_themselves(registry: PassRegistry[list[int]]) -> None:
    def add(numbers: list[int], *, amount: int = 1) -> list[int]:
        return [n + amount for n in numbers]

    def keep(numbers: list[int]) -> list[int]:
        return numbers

    runs: list[PassRun] = []
    pipeline = (add, Step(add, {"amount": 10}), Repeat((keep, partial(keep))), "decrement")
    assert registry.run([1], pipeline, runs.append) == [11]
    assert [run.name for run in runs] == ["add", "add", "keep", "partial", "decrement"]
    with pytest.raises(OptionError, match="'add' has no option 'amuont'; did you mean 'amount'"):
        registry.run([1], (Step(add, {"amuont": 1}),))


def test_every_pass_gets_the_options_that_it_has(registry: PassRegistry[list[int]]) -> None:
    def add(numbers: list[int], *, by: int = 0) -> list[int]:
        return [n + by for n in numbers]

    pipeline = ("decrement", Repeat((add, "drop_large"), limit=1), Step("decrement", {"by": 1}),
                partial(add, by=100), print)  # fmt: skip
    filled = registry.with_options(pipeline, {"by": 3, "else": None})
    steps = (Step("decrement", {"by": 3}), Step(add, {"by": 3}), Step("decrement", {"by": 1}))
    assert (filled[0], filled[1].steps[0], filled[2]) == steps  # type: ignore[union-attr]
    assert [entry.options for entry in filled[3:]] == [{}, {}]  # type: ignore[union-attr]
    assert registry.with_options(filled, {"by": 4}) == filled
    with pytest.raises(OptionError, match="unknown list pass 'decremnt'; did you mean 'decrement'"):
        registry.with_options(("decremnt",), {})


class OwnTrouble(Exception):
    @override
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (KeyError("w"), r"pass 'fails' \(after drop_large\): KeyError: 'w'"),
        (RecursionError("too deep"), "RecursionError: too deep"),
        (StopIteration(), r"pass 'fails' \(.*\): StopIteration"),
        (OwnTrouble(), "OwnTrouble: <exception str.. failed>"),
        (OptionError("of ours"), r"pass 'fails' \(after drop_large\): of ours"),
    ],
)
def test_whatever_a_pass_raises_is_kept_as_the_cause(
    registry: PassRegistry[list[int]], cause: Exception, message: str
) -> None:
    def fails(numbers: list[int]) -> list[int]:
        raise cause

    with pytest.raises(PassError, match=message) as caught:
        registry.run([1], ("drop_large", fails))
    assert caught.value.__cause__ is cause


def test_what_ends_the_program_is_no_failure_of_a_pass(registry: PassRegistry[list[int]]) -> None:
    def interrupted(numbers: list[int]) -> list[int]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        registry.run([1], (interrupted,))


@pytest.mark.parametrize("returned", [None, (1, 2), "text"])
def test_a_pass_that_returns_no_ir_is_named(
    registry: PassRegistry[list[int]], returned: object
) -> None:
    def forgets(numbers: list[int]) -> Any:
        return returned

    message = (
        "pass 'forgets' .the first to run.: it returned .* and not a list; a pass that changes"
    )
    with pytest.raises(PassError, match=message):
        registry.run([1], (forgets,))


def takes_nothing() -> None: ...


def takes_two(first: object, second: object) -> None: ...


class Observing:
    def __call__(self, run: PassRun) -> None: ...


@pytest.mark.parametrize(
    ("observer", "message"),
    [
        (Observing, "observer=Observing: this is a class; give an instance of it"),
        (takes_nothing, "observer=takes_nothing: it cannot be called with one argument"),
        (takes_two, "observer=takes_two: it cannot be called with one argument"),
        (3, "observer=3: give a function of one PassRun"),
    ],
)
def test_what_cannot_observe_is_refused(
    registry: PassRegistry[list[int]], observer: Any, message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        registry.run([1], ("drop_large",), observer)
    with pytest.raises(OptionError, match=message):
        each(Observing(), observer)


def test_whatever_an_observer_raises_names_it_and_the_step(
    registry: PassRegistry[list[int]],
) -> None:
    def stumbles(run: PassRun, /) -> None:
        raise ZeroDivisionError(run.name)

    message = "observer 'stumbles', told of step 'drop_large': ZeroDivisionError: drop_large"
    with pytest.raises(GlowError, match=message) as caught:
        registry.run([1], ("drop_large",), stumbles)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
