"""The dot instruction for elements of given kinds on a processor."""

from __future__ import annotations

from glow_nb.base.dot_instruction import BFLOAT16_PAIRS, DOTS, PAIRED_BYTES, SINGLE, DotInstruction
from glow_nb.base.types import ElementKind
from glow_nb.kernels.target import LANE_COUNTS, Target


def has_dot(target: Target, dot: DotInstruction, lanes: int = 0) -> bool:
    """Return whether *target* has *dot* for vectors of *lanes*, by default its own.

    Vectors longer than a register have what needs no features alone.
    """
    lanes = lanes or target.lanes
    if lanes > target.native_lanes:
        return dot.is_there(lanes, frozenset())
    return dot.is_there(lanes, target.enabled_features | target.instruction_sets)


def dots_of(target: Target) -> frozenset[str]:
    """Return the names of the dot instructions of *target* with the lanes of their vectors."""
    return frozenset(
        f"{dot.name}_{lanes}"
        for dot in DOTS.values()
        for lanes in LANE_COUNTS
        if has_dot(target, dot, lanes)
    )


def dots_for(
    left: ElementKind, right: ElementKind, target: Target, run: int = 0
) -> list[DotInstruction]:
    """Return what *target* has for such elements, the fastest first; single products come last.

    Args:
        left: Kind of the left elements.
        right: Kind of the right ones.
        target: The processor.
        run: Neighbours of a sum, which groups of floats must divide.
    """
    found = [
        dot
        for dot in reversed(DOTS.values())
        if dot is not SINGLE
        and not (dot.is_paired or dot.is_matrix)
        and not (dot is BFLOAT16_PAIRS and target.machine.bfloat16_dot_price >= dot.group)
        and dot.multiplies(left, right)
        and dot.fits(run)
        and has_dot(target, dot)
    ]
    return [*found, SINGLE]


def matrix_dot_for(left: ElementKind, right: ElementKind, target: Target) -> DotInstruction | None:
    """Return what multiplies such elements in matrix registers, None if *target* has nothing."""
    rows = (dot for dot in DOTS.values() if dot.is_matrix and dot.multiplies(left, right))
    return next((dot for dot in rows if has_dot(target, dot)), None)


def pays_to_pair(target: Target) -> bool:
    """Return whether *target* multiplies pairs of bytes that do not saturate faster than others.

    See :mod:`glow_nb.kernels.operators.pairings`.
    """
    (left,), (right,) = PAIRED_BYTES.left, PAIRED_BYTES.right
    suited = (
        dot for dot in reversed(DOTS.values()) if dot.multiplies(left, right) and not dot.is_matrix
    )
    return next(dot for dot in suited if dot is SINGLE or has_dot(target, dot)) is PAIRED_BYTES
