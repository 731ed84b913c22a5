"""Requests of several rows to a network that takes fewer: whether that is possible, and how.

A row is what one sample has of each input: the leading dimension of all of them counts the rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from glow_nb.base.errors import GlowError
from glow_nb.base.types import Array
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Placeholder
from glow_nb.hlir.rows import keeps_rows_apart
from glow_nb.runtime.hosting.row_check import random_array

Arrays = Mapping[str, Array]

TOLERANCE = 1e-3
"""The share of the largest number of an output by which one row and two rows may differ: they may
be summed in another order."""


def dependence_of_rows(one: Function, two: Function) -> str:
    """Return why a network for two rows, *two*, is not *one* twice; empty if it is.

    Where the operators do not show it, both are evaluated for random rows, which may take seconds.
    """
    if reason := _other_types(one, two):
        return reason
    if keeps_rows_apart(one, two):
        return ""
    rng = np.random.default_rng(2)
    rows = {value.name: random_array(rng, value.type) for value in two.inputs}
    try:
        together = evaluate(two, rows)
        alone = [
            evaluate(one, {name: array[row : row + 1] for name, array in rows.items()})
            for row in range(2)
        ]
    except GlowError as error:
        return f"it cannot be evaluated for two rows: {error}"
    for name, array in together.items():
        if not _is_close(np.concatenate([each[name] for each in alone]), array):
            return f"output {name!r} of a row depends on the other rows, or on its place"
    return ""


def _other_types(one: Function, two: Function) -> str:
    """Return which input or output does not have the rows as its leading dimension alone."""
    if one.state or two.state:
        return "it has state"
    pairs = zip((*one.inputs, *one.outputs), (*two.inputs, *two.outputs), strict=True)
    for single, double in pairs:
        if not _has_rows(single, 1) or not _has_rows(double, 2):
            return f"the leading dimension of {single.name!r} is not the batch"
        if single.type.shape[1:] != double.type.shape[1:]:
            return f"the batch decides more than the leading dimension of {single.name!r}"
    return ""


def _has_rows(value: Placeholder, rows: int) -> bool:
    return value.counted is None and value.type.shape[:1] == (rows,)


def _is_close(left: Array, right: Array) -> bool:
    """Return whether the numbers are the same but for rounding."""
    if left.dtype.kind in "biu":
        return bool(np.array_equal(left, right))
    left, right = left.astype(np.float64), right.astype(np.float64)
    finite = np.abs(left[np.isfinite(left)])
    largest = float(finite.max(initial=0.0))
    return bool(np.allclose(left, right, rtol=TOLERANCE, atol=TOLERANCE * largest, equal_nan=True))


def run_in_pieces(
    submit: Callable[[Arrays], asyncio.Future[dict[str, Array]]], inputs: Arrays, most: int
) -> asyncio.Future[dict[str, Array]]:
    """Return the future outputs for *inputs* of any rows, *most* of which *submit* takes.

    If one piece fails, or the client is gone, the others are cancelled.

    Raises:
        GlowError: *submit* has refused a piece.
    """
    pieces: list[asyncio.Future[dict[str, Array]]] = []
    try:
        pieces.extend(submit(piece) for piece in _cut(inputs, most))
    except GlowError:
        _take_back(pieces)
        raise
    return asyncio.ensure_future(_joined(pieces))


async def _joined(pieces: Sequence[asyncio.Future[dict[str, Array]]]) -> dict[str, Array]:
    try:
        outputs = await asyncio.gather(*pieces)
    finally:
        _take_back(pieces)
    return {name: np.concatenate([each[name] for each in outputs]) for name in outputs[0]}


def _take_back(pieces: Iterable[asyncio.Future[dict[str, Array]]]) -> None:
    for piece in pieces:
        piece.cancel()


def _cut(inputs: Arrays, most: int) -> list[dict[str, Array]]:
    """Return *inputs* cut after *most* rows each."""
    rows = len(next(iter(inputs.values())))
    return [
        {name: array[begin : begin + most] for name, array in inputs.items()}
        for begin in range(0, rows, most)
    ]
