"""Two compilations side by side: which of their nodes, instructions and kernels belong together.

Items belong together by their names, which passes keep; what is left does where it does the work of
a node that both models have. They stay in the order of both compilations, as far as these agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

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
    one, other = _stage(left, key), _stage(right, key)
    names = _origin_names(left), _origin_names(right)
    pairs = _by_name(one, other)
    pairs |= _by_work(one, other, pairs, names)
    return _in_order(one, other, pairs)


def _stage(part: Part, key: str) -> Sequence[Item]:
    return next((stage.items for stage in part.stages if stage.key == key), ())


def _origin_names(part: Part) -> list[str]:
    return [item.name for item in _stage(part, "model")]


def _by_name(left: Sequence[Item], right: Sequence[Item]) -> dict[int, int]:
    """Return the numbers of items of one name, which each side has once."""
    ours, theirs = _once(left), _once(right)
    return {number: theirs[name] for name, number in ours.items() if name in theirs}


def _once(items: Sequence[Item]) -> dict[str, int]:
    found: dict[str, list[int]] = {}
    for number, item in enumerate(items):
        found.setdefault(item.name, []).append(number)
    return {name: numbers[0] for name, numbers in found.items() if len(numbers) == 1}


def _by_work(
    left: Sequence[Item],
    right: Sequence[Item],
    known: Mapping[int, int],
    names: tuple[Sequence[str], Sequence[str]],
) -> dict[int, int]:
    """Return the numbers of items that are not *known* and do the work of the same nodes.

    Of several, one of the same kind is taken, then the one with the most nodes in common.
    """
    taken, users = set(known.values()), dict[str, list[int]]()
    for number, item in enumerate(right):
        for name in () if number in taken else _work(item, names[1]):
            users.setdefault(name, []).append(number)
    found: dict[int, int] = {}
    for number, item in enumerate(left):
        work = [] if number in known else _work(item, names[0])
        shared = Counter(user for name in work for user in users.get(name, ()) if user not in taken)
        if shared:
            best = max(shared, key=lambda n: (right[n].kind == item.kind, shared[n], -n))
            found[number] = best
            taken.add(best)
    return found


def _work(item: Item, names: Sequence[str]) -> list[str]:
    return [names[origin] for origin in item.origins]


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
