"""Patterns as chains of small steps that look for them, which no search ever leaves behind.

A pattern is compiled once to a chain of functions of *registers*, a list. Each step looks at one
thing, notes in a register what it finds, and returns what the next step returns; or None if the
pattern does not fit. Where operands may stand in any order, a step tries the rest of the chain with
both orders. So a pattern is looked for in time proportional to its size times the number of such
orders, and there are at most :data:`MOST_ORDERS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from glow_nb.base.errors import DefinitionError, GlowError
from glow_nb.base.foreign import foreign
from glow_nb.base.pattern import (
    ANY,
    Item,
    Marked,
    Number,
    Pattern,
    ResultOf,
    Wildcard,
    defaults_of,
    operand_names_of,
    parts_of,
    unmarked,
    written_names_of,
)
from glow_nb.base.schema import operand_specs

Registers = list[Any]
Step = Callable[[Registers], Any]
Maker = Callable[[Step], Step]
"""Takes the rest of a chain and returns the chain that begins with one more step."""

ROOT, CONTEXT = 0, 1
"""The registers of the node that may be replaced, and of what the level of the IR works with."""

MOST_ORDERS = 64
"""Orders of operands in which one pattern is looked for: six operators that commute."""


class PatternCompiler(ABC):
    """Makes a chain of the pattern *root*; a level of the IR overrides how it is walked through.

    Attributes:
        places: The registers of what functions of a rule are given by name.
        size: The number of registers.
        items: The registers of the nodes that were found, that of the root first.
        readings_by_name: The registers of the operands that each wildcard stands for, with those of
            what reads them.
    """

    def __init__(self, root: Pattern) -> None:
        """Compile *root*, which :func:`check_orders` has let pass."""
        self.places: dict[str, int] = {"node": ROOT, "rewriter": CONTEXT}
        self.size = CONTEXT + 1
        self.items: list[int] = []
        self.readings_by_name: dict[str, list[tuple[int, int]]] = {}
        self._makers: list[Maker] = []
        self._found: dict[Pattern, int] = {}
        self._readings = readings_of(root)
        self._root = core_of(root)
        self._marks(root, ROOT)
        self._item(self._root, ROOT)

    def chain(self, end: Step) -> Step:
        """Return the chain that ends with *end*, once all of the pattern is found."""
        for maker in reversed(self._makers):
            end = maker(end)
        return end

    def arguments(self, names: Sequence[str]) -> Callable[[Registers], tuple[Any, ...]]:
        """Return what takes the values called *names* from registers."""
        places = [self.places[name] for name in names]
        if len(places) == 1:
            return _only(places[0])
        return itemgetter(*places) if places else _nothing

    def quick_test(self) -> Callable[[Any], bool] | None:
        """Return a test that rejects most nodes by the classes of their operands.

        None if that is not known.
        """
        fields = self._root.fields
        names = pair_of(self._root) or [n for n, part in fields.items() if self._classes(part)][:1]
        gets = [attrgetter(name) for name in names]
        wanted = [self._classes(fields.get(name)) for name in names]
        if len(gets) == 1:
            return _has_operand(gets[0], wanted[0])
        return _has_operands(gets, wanted) if any(wanted) else None

    def _classes(self, part: Any) -> tuple[type, ...]:
        """Return the classes of what may be an operand, none if that may be anything."""
        return self.classes_of(unmarked(part)) if isinstance(part, Pattern) else ()

    @abstractmethod
    def classes_of(self, pattern: Pattern) -> tuple[type, ...]:
        """Return the classes of values that *pattern* may match; none if that is not known."""

    def of_classes(self, at: int, item: Item) -> Maker:
        """Return the step that checks that there is one of the classes of *item*."""
        if item.is_exact:
            (cls,) = item.classes
            return lambda then: lambda r: then(r) if r[at].__class__ is cls else None
        classes = item.classes
        return lambda then: lambda r: then(r) if isinstance(r[at], classes) else None

    @abstractmethod
    def fetch(self, value: int, into: int, reader: int, index: int | None) -> Maker | None:
        """Return the step that finds what makes a *value*, its result *index* if it has several.

        None if the value is what makes it. *reader* is the register of what reads it.
        """

    @abstractmethod
    def used_here(self, value: int, reader: int, readings: int) -> Maker:
        """Return the step that checks that a *value* is read as often as the pattern reads it."""

    @abstractmethod
    def is_number(self, value: Any, number: float) -> bool:
        """Return whether *value* is a constant all of whose elements are *number*."""

    def _new(self) -> int:
        self.size += 1
        return self.size - 1

    def _item(self, item: Item, at: int) -> None:
        self.items.append(at)
        self._found[item] = at
        if at != ROOT:  # of the root, that is known
            self._makers.append(self.of_classes(at, item))
            self._makers += [_equals(at, name, None) for name in absent_of(item)]
        fields = {**defaults_of(item.classes[0]), **item.fields} if item.is_exact else item.fields
        operands = operand_names_of(item.classes[0])
        for name, value in fields.items():
            if name not in operands or value is None:
                self._attribute(at, name, value)
        given = [(name, v) for name, v in fields.items() if name in operands and v is not None]
        parts = self._bound(at, item, given)
        for part, place in sorted(parts, key=lambda each: isinstance(each[0], Wildcard)):
            self._operand(part, place, at)

    def _attribute(self, at: int, name: str, value: Any) -> None:
        if not isinstance(value, Wildcard):
            self._makers.append(_equals(at, name, value))
        elif value.name or value.conditions:
            place = self._new()
            self._makers.append(_bind(at, name, place))
            self._wildcard(value, place)

    def _bound(
        self, at: int, item: Item, given: list[tuple[str, Any]]
    ) -> list[tuple[Pattern, int]]:
        """Let operands be put into registers; return their patterns with these."""
        parts: list[tuple[Pattern, int]] = []
        pair, written = pair_of(item), written_names_of(item.classes[0])
        if pair:
            known = dict(given)
            parts = [(known.get(name, ANY), self._new()) for name in pair]
            self._makers.append(_either_order(at, pair, (parts[0][1], parts[1][1])))
        for name, value in given:
            if name in pair:
                continue
            if name in written:
                place = self._new()
                self._makers.append(_bind(at, name, place))
                self._wildcard(value, place)
            elif isinstance(value, tuple):
                parts += self._several(at, name, value)
            else:
                parts.append((value, self._new()))
                self._makers.append(_bind(at, name, parts[-1][1]))
        return parts

    def _several(
        self, at: int, name: str, values: tuple[Pattern, ...]
    ) -> list[tuple[Pattern, int]]:
        places = [self._new() for _ in values]
        self._makers.append(_bind_all(at, name, places))
        return list(zip(values, places, strict=True))

    def _operand(self, pattern: Pattern, place: int, reader: int) -> None:
        self._marks(pattern, place, reader)
        pattern = unmarked(pattern)
        if isinstance(pattern, Wildcard):
            if pattern.name:
                self.readings_by_name.setdefault(pattern.name, []).append((place, reader))
            self._wildcard(pattern, place)
        elif isinstance(pattern, Number):
            self._makers.append(_is_number(place, pattern.value, self.is_number))
        else:
            self._made(pattern, place, reader)

    def _made(self, pattern: Pattern, place: int, reader: int) -> None:
        item = core_of(pattern)
        index = pattern.index if isinstance(pattern, ResultOf) else None
        into = self._new()
        step = self.fetch(place, into, reader, index)
        into = place if step is None else into
        self._makers += [] if step is None else [step]
        known = self._found.get(item)
        if known is None:
            self._item(item, into)
        else:
            self._makers.append(_is_same(into, known))

    def _marks(self, pattern: Pattern, place: int, reader: int = ROOT) -> None:
        core = unmarked(pattern)
        while isinstance(pattern, Marked):
            if pattern.name:
                self.places.setdefault(pattern.name, place)
            elif place != ROOT:
                self._makers.append(self.used_here(place, reader, self._readings[core]))
            pattern = pattern.pattern

    def _wildcard(self, wildcard: Wildcard, place: int) -> None:
        known = self.places.setdefault(wildcard.name, place) if wildcard.name else place
        if known != place:
            self._makers.append(_is_same(place, known))
            return
        subject = f"pattern {self._root!r}: a condition of {wildcard!r}"
        for condition in wildcard.conditions:
            self._makers.append(_meets(place, condition, foreign(GlowError, subject)))


def absent_of(item: Item) -> tuple[str, ...]:
    """Return those of the fields ``predicate`` and ``plan`` that must be None in *item*."""
    needed = ("predicate", "plan") if item.is_exact else ("predicate",)
    return tuple(name for name in needed if name not in item.fields)


def pair_of(item: Item) -> tuple[str, ...]:
    """Return the two operands of *item* that may stand in either order, if there are such."""
    if not all(getattr(cls, "commutes", False) for cls in item.classes):
        return ()
    pair = tuple(spec.name for spec in operand_specs(item.classes[0]))
    return pair if not item.fields.keys().isdisjoint(pair) else ()


def check_orders(items: Iterable[Item], pattern: Pattern) -> None:
    """Raise DefinitionError if a *pattern* of *items* had to be looked for in too many orders."""
    orders = 2 ** sum(1 for item in items if pair_of(item))
    if orders > MOST_ORDERS:
        raise DefinitionError(
            f"pattern {pattern!r}: its operands have {orders} possible orders, and at most "
            f"{MOST_ORDERS} are tried; match a smaller part, and let a function check the rest"
        )


def core_of(pattern: Pattern) -> Item:
    """Return the operator that *pattern* is, or is a result of."""
    pattern = unmarked(pattern)
    found = pattern.item if isinstance(pattern, ResultOf) else pattern
    assert isinstance(found, Item), f"{pattern!r} is no operator"
    return found


def readings_of(root: Pattern) -> Counter[Pattern]:
    """Return how many operands of the pattern *root* read each pattern in it."""
    found: Counter[Pattern] = Counter()
    seen: set[Item] = set()
    left = [core_of(root)]
    while left:
        item = left.pop()
        if item in seen:
            continue
        seen.add(item)
        for part in map(unmarked, parts_of(item)):
            found[part] += 1
            if isinstance(part, Item | ResultOf):
                left.append(core_of(part))
    return found


def _has_operand(get: Callable[[Any], Any], classes: tuple[type, ...]) -> Callable[[Any], bool]:
    return lambda node: isinstance(get(node), classes)


def _has_operands(
    gets: Sequence[Callable[[Any], Any]], classes: Sequence[tuple[type, ...]]
) -> Callable[[Any], bool]:
    """Return whether two operands are of these classes in one order or the other."""
    (left, right), (first, second) = gets, (each or (object,) for each in classes)

    def test(node: Any) -> bool:
        one, other = left(node), right(node)
        return (isinstance(one, first) and isinstance(other, second)) or (
            isinstance(other, first) and isinstance(one, second)
        )

    return test


def _nothing(_: Registers) -> tuple[Any, ...]:
    return ()


def _only(place: int) -> Callable[[Registers], tuple[Any, ...]]:
    return lambda registers: (registers[place],)


def _equals(at: int, name: str, value: Any) -> Maker:
    get = attrgetter(name)
    if value is None:
        return lambda then: lambda r: then(r) if get(r[at]) is None else None
    return lambda then: lambda r: then(r) if get(r[at]) == value else None


def _bind(at: int, name: str, place: int) -> Maker:
    get = attrgetter(name)

    def make(then: Step) -> Step:
        def bind(r: Registers) -> Any:
            r[place] = get(r[at])
            return then(r)

        return bind

    return make


def _bind_all(at: int, name: str, places: list[int]) -> Maker:
    get = attrgetter(name)

    def make(then: Step) -> Step:
        def bind(r: Registers) -> Any:
            values = get(r[at])
            if len(values) != len(places):
                return None
            for place, value in zip(places, values, strict=True):
                r[place] = value
            return then(r)

        return bind

    return make


def _either_order(at: int, names: tuple[str, ...], places: tuple[int, int]) -> Maker:
    get_first, get_second = map(attrgetter, names)
    left, right = places

    def make(then: Step) -> Step:
        def bind(r: Registers) -> Any:
            one, other = get_first(r[at]), get_second(r[at])
            r[left], r[right] = one, other
            found = then(r)
            if found is not None or one is other:
                return found
            r[left], r[right] = other, one
            return then(r)

        return bind

    return make


def _is_same(place: int, known: int) -> Maker:
    return lambda then: lambda r: then(r) if r[place] == r[known] else None


def _is_number(place: int, number: float, check: Callable[[Any, float], bool]) -> Maker:
    return lambda then: lambda r: then(r) if check(r[place], number) else None


def _meets(place: int, condition: Callable[[Any], bool], border: foreign) -> Maker:
    def make(then: Step) -> Step:
        def check(r: Registers) -> Any:
            with border:
                is_met = bool(condition(r[place]))
            return then(r) if is_met else None

        return check

    return make
