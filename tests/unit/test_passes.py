"""The pass driver: names, options, fixed points, verification, observers."""

from __future__ import annotations

import pytest

from glow_nb.errors import DefinitionError, GlowWarning, OptionError, PassError, VerifyError
from glow_nb.passes import PassRegistry, PassRun, Repeat, Step


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
        (Repeat(("nothing",)), "unknown list pass 'nothing'"),
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


def test_two_passes_of_one_name_are_refused(registry: PassRegistry[list[int]]) -> None:
    def decrement(numbers: list[int]) -> list[int]:
        return numbers

    with pytest.raises(DefinitionError, match="already registered"):
        registry.register(decrement)
