"""What the levels of the IR share that apply rules: chains by class, and walks to the end."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from glow_nb.base.errors import GlowError
from glow_nb.base.matching import CONTEXT, ROOT, Step, absent_of, core_of
from glow_nb.base.pattern import Item
from glow_nb.base.rewriting import Rewrite, Rules

MOST_REPLACEMENTS = 8
"""Replacements for each node or instruction, at most; rules that go on have no end."""
FIRST_REPLACEMENTS = 2000
"""Replacements that may come on top of these."""
MOST_WALKS = 64
"""Walks that may come on top of one for each node or instruction."""
LONGEST_CIRCLE = 6
"""Walks after which IR that is as it was before is found; rules that take more just have no end."""


@dataclass(frozen=True)
class Chain:
    """A rule that is ready to be applied.

    Attributes:
        name: The rule.
        test: A quick test that rejects most nodes; None if there is no such test.
        size: The number of registers.
        first: The step that the chain begins with.
    """

    name: str
    test: Callable[[Any], bool] | None
    size: int
    first: Step


class Chains:
    """The rules of a pass as chains, found by the class of what is looked at."""

    def __init__(
        self,
        rules: Rules,
        compiled: Callable[[Rewrite], Chain],
        fits: Callable[[type, Item], bool],
    ) -> None:
        """Compile all of *rules*; *fits* returns whether a pattern may begin at a class."""
        self._fits = fits
        self._chains = [(core_of(rule.pattern), compiled(rule)) for rule in rules.rules]
        self._known: dict[tuple[type, bool, bool], list[Chain]] = {}

    @property
    def roots(self) -> Iterator[Item]:
        """The operators that the patterns begin with."""
        return (root for root, _ in self._chains)

    def applied(self, item: Any, context: Any, fired: Counter[str]) -> Any:
        """Return what the first rule that fits makes of a node or instruction; None if none does.

        *context* is what the level works with; *fired* counts the rules.
        """
        key = (item.__class__, item.predicate is None, item.plan is None)
        for chain in self._known.get(key) or self._fitting(key):
            if chain.test is None or chain.test(item):
                registers = [None] * chain.size
                registers[ROOT], registers[CONTEXT] = item, context
                found = chain.first(registers)
                if found is not None:
                    fired[chain.name] += 1
                    return found
        return None

    def _fitting(self, key: tuple[type, bool, bool]) -> list[Chain]:
        """Return the chains that may begin at something like that, in the order of rules."""
        if key not in self._known:
            cls, *absent = key
            has = {name for name, is_none in zip(ABSENT, absent, strict=True) if not is_none}
            self._known[key] = [
                chain
                for root, chain in self._chains
                if self._fits(cls, root) and has.isdisjoint(absent_of(root))
            ]
        return self._known[key]


ABSENT = ("predicate", "plan")
"""Fields that few nodes have, and few patterns."""

IR = TypeVar("IR")


def to_the_end(
    ir: IR,
    size: int,
    walk: Callable[[IR, Counter[str]], IR],
    state_of: Callable[[IR], object],
) -> IR:
    """Return *ir* after walks, until one changes nothing.

    Args:
        ir: A graph or a program.
        size: The number of its nodes or instructions.
        walk: Applies rules everywhere once, notes which, and returns the same object if none fits.
        state_of: Returns a state that is equal for IR that computes the same by the same
            steps.

    Raises:
        GlowError: It would never end; names the rules that are at fault.
    """
    most, longest = FIRST_REPLACEMENTS + MOST_REPLACEMENTS * size, MOST_WALKS + size
    fired: Counter[str] = Counter()
    circles = _Circles(state_of)
    for walks in itertools.count(1):
        after = walk(ir, fired)
        if after is ir:
            return ir
        ir = after
        turning = circles.found(walks, ir, fired)
        if turning:
            raise GlowError(
                f"{_named(turning)} to no end: after {walks} walks over {ir!r} it is as it was "
                "before; rules that undo each other cannot stand in one pass, so leave one out or "
                "give it a condition (when=...)"
            )
        if fired.total() > most or walks > longest:
            raise GlowError(
                f"{_named(fired)} to no end: after {fired.total():,} replacements in {ir!r} rules "
                "still match; a rule matches its own replacement, so give it a condition "
                "(when=...)"
            )
    raise AssertionError("unreachable")


class _Circles:
    """Finds out that IR is as it was a few walks before, by a look at a few walks."""

    def __init__(self, state_of: Callable[[Any], object]) -> None:
        self._state_of = state_of
        self._walk = 0
        self._state: object = None
        self._fired: Counter[str] = Counter()

    def found(self, walks: int, ir: object, fired: Counter[str]) -> Counter[str]:
        """Return which rules have made the circle that ends with *ir*; empty if none does."""
        is_power = not walks & (walks - 1)
        if walks <= LONGEST_CIRCLE or not (is_power or walks - self._walk <= LONGEST_CIRCLE):
            return Counter()
        state = self._state_of(ir)
        if state == self._state:
            return fired - self._fired
        if is_power:
            self._walk, self._state, self._fired = walks, state, Counter(fired)
        return Counter()


def _named(fired: Mapping[str, Any]) -> str:
    """Return the subject of an error about the rules that *fired*."""
    names = ", ".join(map(repr, fired))
    return f"rule {names} comes" if len(fired) == 1 else f"rules {names} come"
