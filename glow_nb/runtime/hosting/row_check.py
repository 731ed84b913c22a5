"""The check of batches: each row must give the same bits, whatever rows run beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from glow_nb.base.errors import OptionError
from glow_nb.base.size import hinted
from glow_nb.base.types import Array, TensorType
from glow_nb.runtime.hosting.batching import joined
from glow_nb.runtime.hosting.dataflow import Dataflow

MOST_CHECKED = 32
"""Numbers of rows that are all checked: code differs for what is left beside whole tiles."""

RunOnce = Callable[[Dataflow, Sequence[Array]], Sequence[Array]]
"""Runs a dataflow on arrays in the order of its inputs, and returns its outputs in order."""


def sizes_that_agree(name: str, flows: Sequence[Dataflow], run: RunOnce) -> list[Dataflow]:
    """Return those of *flows*, the largest last, in which random rows give the same bits.

    The largest batch is compared with itself: some rows are run again, with copies of themselves in
    all other places. A smaller one must give the first rows as the largest does; it is left out if
    a kernel that suits it sums in another order.

    Of many sizes some are checked, all to :data:`MOST_CHECKED` and every sixteenth above; if these
    agree, all do.

    Raises:
        OptionError: The result of a row depends on the other rows, or on its place.
    """
    largest = flows[-1]
    rows = _random_rows(largest)
    whole = run(largest, rows)
    for place in sorted({0, largest.rows // 2, largest.rows - 1}):
        copies = [joined([array[place : place + 1]], largest.rows) for array in rows]
        wanted = [joined([array[place : place + 1]], largest.rows) for array in whole]
        if not _same_bits(run(largest, copies), wanted):
            raise OptionError(
                f"network {name!r}: the result of one row of a batch of {largest.rows} "
                "depends on the other rows, or on its place; use max_batch=1"
            )
    checked = [flow for flow in flows[:-1] if flow.rows <= MOST_CHECKED or flow.rows % 16 == 0]
    agreeing = [
        flow
        for flow in checked
        if _same_bits(
            run(flow, [array[: flow.rows] for array in rows]),
            [array[: flow.rows] for array in whole],
        )
    ]
    return list(flows) if agreeing == checked else [*agreeing, largest]


def _same_bits(left: Sequence[Array], right: Sequence[Array]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(left, right, strict=True))


def _random_rows(flow: Dataflow) -> list[Array]:
    """Return numbers that any network can take: whole ones, which may be indices, are 0 and 1."""
    rng = np.random.default_rng(flow.rows)
    return [random_array(rng, type) for type in flow.inputs.values()]


def random_array(rng: np.random.Generator, type: TensorType) -> Array:
    """Return numbers of *type* that any network can take; open sizes are those of the example."""
    shape = tuple(map(hinted, type.shape))
    if type.kind.is_float:
        return rng.normal(size=shape).astype(type.kind.dtype)
    return rng.integers(0, 2, size=shape).astype(type.kind.dtype)
