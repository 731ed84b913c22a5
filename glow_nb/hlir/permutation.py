"""Arithmetic of axis permutations; ``result.shape[i] == input.shape[permutation[i]]``."""

from __future__ import annotations

Permutation = tuple[int, ...]


def inverse(permutation: Permutation) -> Permutation:
    """Return the permutation that undoes *permutation*."""
    result = [0] * len(permutation)
    for position, axis in enumerate(permutation):
        result[axis] = position
    return tuple(result)


def compose(first: Permutation, second: Permutation) -> Permutation:
    """Return the one permutation that equals applying *first*, then *second*."""
    return tuple(first[axis] for axis in second)


def permute(items: tuple[int, ...], permutation: Permutation) -> tuple[int, ...]:
    """Return *items* in the order that *permutation* gives to axes."""
    return tuple(items[axis] for axis in permutation)


def moves_nothing(shape: tuple[int, ...], permutation: Permutation) -> bool:
    """True if the permutation leaves every element where it is: it only moves axes of size 1."""
    moved = [axis for axis in permutation if shape[axis] != 1]
    return moved == sorted(moved)
