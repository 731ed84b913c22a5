"""The dependences of a value under construction: inputs, random numbers, or neither."""

from __future__ import annotations

import operator
from collections.abc import Iterator

from glow_nb.base.schema import operands_of
from glow_nb.hlir.graph import Placeholder, Value, producer_of
from glow_nb.hlir.ops.random import Drawn


def inputs_behind(value: Value) -> list[str]:
    """Return the names of the inputs that *value* is computed from."""
    return [v.name for v in _behind(value) if isinstance(v, Placeholder)]


def require_no_sizes(value: Value) -> None:
    """Raise OpenSizeError if *value* is computed from an open size."""
    for behind in _behind(value):
        producer = producer_of(behind)
        if producer is not None and producer.symbols:
            operator.index(producer.symbols[0].size)


def is_of_a_run(value: Value) -> bool:
    """Return whether *value* is computed from inputs, or from open sizes."""
    return any(
        isinstance(v, Placeholder) or bool((n := producer_of(v)) and n.symbols)
        for v in _behind(value)
    )


def is_decided(value: Value) -> bool:
    """Return whether *value* is the same in each run: no input and no random number is in it."""
    behind = _behind(value)
    return not any(isinstance(v, Placeholder) or isinstance(producer_of(v), Drawn) for v in behind)


def _behind(value: Value) -> Iterator[Value]:
    """Yield *value* and all values that it is computed from."""
    seen: set[Value] = set()
    pending = [value]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        yield current
        producer = producer_of(current)
        if producer is not None:
            pending += operands_of(producer)
