"""Arithmetic of axis permutations; ``result.shape[i] == input.shape[permutation[i]]``."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")

Permutation = tuple[int, ...]
Shape = tuple[int, ...]


def inverse(permutation: Permutation) -> Permutation:
    """Return the permutation that undoes *permutation*."""
    result = [0] * len(permutation)
    for position, axis in enumerate(permutation):
        result[axis] = position
    return tuple(result)


def compose(first: Permutation, second: Permutation) -> Permutation:
    """Return the one permutation that equals applying *first*, then *second*."""
    return tuple(first[axis] for axis in second)


def permute(items: tuple[T, ...], permutation: Permutation) -> tuple[T, ...]:
    """Return *items* in the order that *permutation* gives to axes."""
    return tuple(items[axis] for axis in permutation)


def moves_nothing(shape: Shape, permutation: Permutation) -> bool:
    """Return whether the permutation moves axes of size 1 alone, and so no element."""
    moved = [axis for axis in permutation if shape[axis] != 1]
    return moved == sorted(moved)


def axis_groups(before: Shape, after: Shape) -> list[tuple[list[int], list[int]]] | None:
    """Cut both shapes into the finest runs of axes with equal products.

    Returns pairs of axis lists, or None if the shapes hold no elements, or are equally large only
    for some of their open sizes.
    """
    if 0 in before or 0 in after:
        return None
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        left, right = [], []
        left_size = right_size = 1
        if i < len(before):
            left, left_size, i = [i], before[i], i + 1
        if j < len(after):
            right, right_size, j = [j], after[j], j + 1
        while left_size != right_size:
            if (i, j) == (len(before), len(after)):
                return None  # open sizes whose products are equal for some sizes alone
            if j == len(after) or (i < len(before) and left_size < right_size):
                left_size *= before[i]
                left.append(i)
                i += 1
            else:
                right_size *= after[j]
                right.append(j)
                j += 1
        groups.append((left, right))
    return groups


def shape_before(shape: Shape, after: Shape, before: Shape) -> Shape | None:
    """Return the shape of an operand that broadcasts to *before* as *shape* does to *after*."""
    groups = axis_groups(before, after)
    if groups is None:
        return None
    result: list[int] = []
    for left, right in groups:
        if all(shape[axis] == 1 for axis in right):
            result += [1] * len(left)
        elif all(shape[axis] == after[axis] for axis in right):
            result += [before[axis] for axis in left]
        else:
            return None
    return tuple(result)
