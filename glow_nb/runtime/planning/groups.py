"""Groups of numbered things: which stay together, and an order in which none waits for a later one.

The things are the instructions of a program; a group of them becomes a unit.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence


def joined(count: int, together: Iterable[list[int]]) -> list[int]:
    """Return the group of each of *count* numbers: the smallest that it stays with.

    Numbers that stand in one list of *together* stay together.
    """
    parent = list(range(count))

    def find(number: int) -> int:
        while parent[number] != number:
            parent[number] = number = parent[parent[number]]
        return number

    for numbers in together:
        for other in numbers[1:]:
            low, high = sorted((find(numbers[0]), find(other)))
            parent[high] = low
    return [find(number) for number in range(count)]


def in_order(group_of: Sequence[int], edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the number of the group of each instruction, each after those that it reads from.

    Groups that read from each other in a circle become one.
    """
    after: dict[int, set[int]] = {group: set() for group in group_of}
    for source, target in edges:
        if source != target:
            after[source].add(target)
    circle = _circles(after)
    merged: dict[int, set[int]] = {found: set() for found in circle.values()}
    for source, targets in after.items():
        merged[circle[source]] |= {circle[t] for t in targets} - {circle[source]}
    missing = dict.fromkeys(merged, 0)
    for targets in merged.values():
        for target in targets:
            missing[target] += 1
    ready = [group for group, count in missing.items() if not count]
    heapq.heapify(ready)
    number: dict[int, int] = {}
    while ready:
        group = heapq.heappop(ready)
        number[group] = len(number)
        for target in merged[group]:
            missing[target] -= 1
            if not missing[target]:
                heapq.heappush(ready, target)
    return [number[circle[group]] for group in group_of]


def _circles(after: Mapping[int, set[int]]) -> dict[int, int]:
    """Return the smallest of each circle, for each group in it (Kosaraju's algorithm).

    The groups of a circle reach each other; most circles are one group.
    """
    finished: list[int] = []
    seen: set[int] = set()
    for root in after:
        stack = [(root, False)]
        while stack:
            one, is_done = stack.pop()
            if is_done:
                finished.append(one)
            elif one not in seen:
                seen.add(one)
                stack.append((one, True))
                stack += [(other, False) for other in after[one] if other not in seen]
    before: dict[int, list[int]] = {one: [] for one in after}
    for one, others in after.items():
        for other in others:
            before[other].append(one)
    found: dict[int, int] = {}
    for root in reversed(finished):
        members, stack_of = [], [root]
        while stack_of:
            one = stack_of.pop()
            if one not in found:
                found[one] = root
                members.append(one)
                stack_of += before[one]
        found.update(dict.fromkeys(members, min(members, default=root)))
    return found
