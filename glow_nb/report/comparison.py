"""Two compilations side by side: which of their nodes, instructions and kernels belong together.

Items belong together by their names, which passes keep; what is left does where it does the work of
the same nodes of the model, by the same kind if there is one. They stay in the order of both
compilations, as far as these agree.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    pairs |= _by_origin(one, other, names, pairs, by_kind=True)
    pairs |= _by_origin(one, other, names, pairs, by_kind=False)
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


def _by_origin(
    left: Sequence[Item],
    right: Sequence[Item],
    names: tuple[list[str], list[str]],
    known: dict[int, int],
    *,
    by_kind: bool,
) -> dict[int, int]:
    """Return the numbers of items that are not *known* and do the same work, *by_kind* the same."""

    def work(item: Item, names: Sequence[str]) -> tuple[str, frozenset[str]]:
        return by_kind * item.kind, frozenset(names[origin] for origin in item.origins)

    taken, waiting = set(known.values()), dict[object, list[int]]()
    for number, item in enumerate(right):
        if number not in taken and item.origins:
            waiting.setdefault(work(item, names[1]), []).append(number)
    found: dict[int, int] = {}
    for number, item in enumerate(left):
        same = waiting.get(work(item, names[0])) if number not in known else None
        if same:
            found[number] = same.pop(0)
    return found


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
