"""Two compilations side by side: which of their nodes, instructions and kernels belong together.

Items belong together that have one name, which passes keep, or do the work of a node that both
models have. Where several could, the first operator counts most: a product fused with what reads it
belongs to the product, and not to the reader whose name it has. Items stay in the order of both
compilations, as far as these agree.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from glow_nb.report.data import STAGES, Comparison, Compilation, Item, Match, Part, Table


def compared(left: Compilation, right: Compilation, accuracy: Table | None = None) -> Comparison:
    """Return the first programs of both compilations, matched stage by stage."""
    one, other = left.parts[0], right.parts[0]
    stages = {key: _matched(one, other, key) for key in STAGES}
    return Comparison(stages, _facts(left, right), accuracy)


def _facts(left: Compilation, right: Compilation) -> tuple[tuple[str, str, str], ...]:
    """Return what was said of both, with blanks where one says nothing."""
    first, second = dict(left.facts), dict(right.facts)
    return tuple((name, first.get(name, ""), second.get(name, "")) for name in {**first, **second})


def _matched(left: Part, right: Part, key: str) -> tuple[Match, ...]:
    one = _named(left, key)
    other = _named(right, key)
    likely = sorted(_candidates(one, other), reverse=True)
    pairs: dict[int, int] = {}
    taken = set[int]()
    for _, first, second in likely:
        if -first not in pairs and -second not in taken:
            pairs[-first] = -second
            taken.add(-second)
    return _in_order([named.item for named in one], [named.item for named in other], pairs)


@dataclass(frozen=True)
class _Named:
    """An item of a stage with the names of the nodes of the model that it does the work of."""

    item: Item
    work: frozenset[str]

    @property
    def head(self) -> str:
        """The first of its operators, which are joined by signs."""
        return self.item.kind.partition(" + ")[0]


Likeness = tuple[float, ...]


def _named(part: Part, key: str) -> list[_Named]:
    names = [item.name for item in _stage(part, "model")]
    items = _stage(part, key)
    return [_Named(item, frozenset(names[origin] for origin in item.origins)) for item in items]


def _stage(part: Part, key: str) -> Sequence[Item]:
    return next((stage.items for stage in part.stages if stage.key == key), ())


def _candidates(
    left: Sequence[_Named], right: Sequence[_Named]
) -> Iterator[tuple[Likeness, int, int]]:
    """Yield pairs that could belong together: how well they do, and both numbers, negated."""
    users = dict[str, list[int]]()
    for number, named in enumerate(right):
        for name in named.work:
            users.setdefault(name, []).append(number)
    found = {
        (number, other)
        for number, named in enumerate(left)
        for name in named.work
        for other in users.get(name, ())
    }
    ours, theirs = _once(left), _once(right)
    found |= {(number, theirs[name]) for name, number in ours.items() if name in theirs}
    found |= {(ours[base], n) for name, n in theirs.items() if (base := _base(name, ours))}
    found |= {(n, theirs[base]) for name, n in ours.items() if (base := _base(name, theirs))}
    for number, other in found:
        yield _likeness(left[number], right[other]), -number, -other


def _base(name: str, known: Container[str]) -> str:
    """Return the longest of *known* names that a pass has made *name* of by adding words to it.

    A quantized ``relu_3_quantize`` is made of ``relu_3``. Empty if there is none.
    """
    base = name.rpartition("_")[0]
    while base and base not in known:
        base = base.rpartition("_")[0]
    return base


def _likeness(one: _Named, other: _Named) -> Likeness:
    """Return how well two items belong together: the larger, the better."""
    same_name = one.item.name == other.item.name
    shared, all_work = one.work & other.work, one.work | other.work
    return (
        2 * (one.head == other.head) + same_name,
        one.item.kind == other.item.kind,
        len(shared) / max(1, len(all_work)),
    )


def _once(items: Sequence[_Named]) -> dict[str, int]:
    """Return the numbers of the items whose name no other one has, by these names."""
    found: dict[str, list[int]] = {}
    for number, named in enumerate(items):
        found.setdefault(named.item.name, []).append(number)
    return {name: numbers[0] for name, numbers in found.items() if len(numbers) == 1}


def _in_order(
    left: Sequence[Item], right: Sequence[Item], pairs: dict[int, int]
) -> tuple[Match, ...]:
    """Return all items: in the order of the first, those of the second behind what they follow."""
    after: dict[int, list[int]] = {}
    taken, last = {other: one for one, other in pairs.items()}, -1
    for number in range(len(right)):
        if number in taken:
            last = taken[number]
        else:
            after.setdefault(last, []).append(number)
    matches = [Match(-1, number) for number in after.get(-1, ())]
    for number, item in enumerate(left):
        other = pairs.get(number, -1)
        matches.append(Match(number, other, other >= 0 and item.text == right[other].text))
        matches += [Match(-1, follower) for follower in after.get(number, ())]
    return tuple(matches)
