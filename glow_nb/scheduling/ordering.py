"""Orders of steps in which little memory is live at a time, whatever the steps are.

Several orders are tried beside the given one, which stays unless another has a lower peak:

* depth first: each step right after those it needs, of these the one first whose subtree needs the
  most memory beyond what it leaves behind (Glow's child-memory scheduler, after Sethi and Ullman);
* greedy: of the steps that may come next, the one that adds the fewest live bytes, or the one that
  became possible last if it adds none. Both are built from the first step on and from the last one,
  and take equal steps in the given order or depth first.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError, PassError
from glow_nb.base.foreign import foreign, name_of
from glow_nb.scheduling.steps import Steps

MOST_COMPARED = 16
"""Steps that may come next and that a greedy order compares, it bounds the work for graphs of many
branches."""

Scheduler = Callable[[Steps], Sequence[int]]
"""Orders steps: returns their numbers, each once and after those that must come before it."""


def best_order(steps: Steps) -> list[int]:
    """Return the order of the lowest peak that was found, the given one among equals.

    What was found is a new order to begin from, until no other is better: so it stays if it is
    given.
    """
    best = list(range(len(steps.before)))
    while (found := min((best, *_candidates(steps, best)), key=steps.peak)) is not best:
        best = found
    return best


def _candidates(steps: Steps, given: Sequence[int]) -> Iterator[list[int]]:
    """Yield orders that may be better than the *given* one; the numbers of steps do not count."""
    backwards, deep = steps.reversed(), depth_first(steps, given)
    yield deep
    for order in (given, deep):
        for preference in (_fewest_bytes, _latest):
            yield greedy(steps, order, preference)
            yield _turned(greedy(backwards, _turned(order), preference))


def _turned(order: Sequence[int]) -> list[int]:
    """Return *order* from its end, with steps numbered from the last one."""
    return [len(order) - 1 - step for step in reversed(order)]


def depth_first(steps: Steps, given: Sequence[int]) -> list[int]:
    """Return the order in which each step comes right after what it needs, the hungriest first.

    Equal ones are taken as they stand in the order *given*.
    """
    place = {step: index for index, step in enumerate(given)}
    made = [sum(amounts.values()) for amounts in steps.writes]
    need: list[int] = []
    wanted: list[list[int]] = []
    for step, before in enumerate(steps.before):
        wanted.append(sorted(before, key=lambda other: (made[other] - need[other], place[other])))
        held = peak = 0
        for number in wanted[step]:
            peak = max(peak, held + need[number])
            held += made[number]
        need.append(max(peak, held + made[step]))
    return _visited((step for step in given if not steps.after[step]), wanted)


def _visited(roots: Iterable[int], before: Sequence[Sequence[int]]) -> list[int]:
    """Return all steps: for each root in turn those *before* it, in that order, and itself."""
    ordered: dict[int, None] = {}
    for root in roots:
        stack = [(root, False)]
        while stack:
            step, ready = stack.pop()
            if step in ordered:
                continue
            if ready:
                ordered[step] = None
                continue
            stack.append((step, True))
            stack += [(number, False) for number in reversed(before[step]) if number not in ordered]
    return list(ordered)


class _Choice(NamedTuple):
    """A step that may come next.

    Attributes:
        during: Bytes that are live while it runs.
        added: Bytes that are live after it, less those that are live before.
        since: The number of steps that were done when it became possible.
    """

    during: int
    added: int
    since: int


Preference = Callable[[_Choice], tuple[int, ...]]
"""What a greedy order makes small."""


def _fewest_bytes(choice: _Choice) -> tuple[int, ...]:
    return choice.added, choice.during


def _latest(choice: _Choice) -> tuple[int, ...]:
    return choice.added > 0, -choice.since, choice.added


def greedy(steps: Steps, given: Sequence[int], preference: Preference) -> list[int]:
    """Return the order that takes the best step by *preference* again and again.

    Equal ones are taken as they stand in the order *given*.
    """
    place = {step: index for index, step in enumerate(given)}
    missing = [len(set(before)) for before in steps.before]
    since = [0] * len(missing)
    ready = [step for step in given if not missing[step]]
    order: list[int] = []
    done = live = 0
    while ready:
        choices = []
        for step in ready[:MOST_COMPARED]:
            during, after = steps.run(step, done, live)
            choice = _Choice(during, after - live, since[step])
            choices.append((preference(choice), place[step], after))
        _, index, live = min(choices)
        step = given[index]
        ready.remove(step)
        order.append(step)
        done |= 1 << step
        for later in steps.after[step]:
            missing[later] -= 1
            if not missing[later]:
                since[later] = len(order)
                bisect.insort(ready, later, key=place.__getitem__)
    return order


def order_by(scheduler: Scheduler, steps: Steps, names: Sequence[str]) -> list[int]:
    """Return the order that *scheduler* finds for *steps*, which errors call by *names*.

    Raises:
        OptionError: It returns no order of all steps, or one that is not allowed.
        PassError: It raises an exception.
    """
    subject = f"scheduler {name_of(scheduler)!r}"
    with foreign(PassError, subject):
        order = scheduler(steps)
    if not isinstance(order, Sequence | np.ndarray):
        raise OptionError(f"{subject}: it returned {described(order)}; return a list of numbers")
    found = [int(step) for step in order if isinstance(step, int | np.integer)]
    if len(found) < len(order) or sorted(found) != list(range(len(names))):
        raise OptionError(
            f"{subject}: it returned {described(order)} for {len(names)} steps; return each of the "
            f"numbers 0 to {len(names) - 1} once"
        )
    place = {step: index for index, step in enumerate(found)}
    for step in found:
        for needed in steps.before[step]:
            if place[needed] > place[step]:
                raise OptionError(
                    f"{subject}: step {step} ({names[step]}) comes before step {needed} "
                    f"({names[needed]}), which it needs; steps.before says what must come first"
                )
    return found
