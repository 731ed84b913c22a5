"""Runs of functions that are cut in stages: the numbers that one computes are sizes of the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from glow_nb.base.errors import FeedError
from glow_nb.base.symbol import Symbol
from glow_nb.base.types import Array

RunStage = Callable[[int, dict[str, Array]], Mapping[str, Array]]
"""Runs the stage of a number on arrays by the names of its inputs; returns those of its outputs."""


@dataclass(frozen=True)
class Decision:
    """A size that is known when a stage has run.

    Attributes:
        number: The output that has the number.
        symbol: The size.
        teller: The input of later stages whose shape tells it.
    """

    number: str
    symbol: Symbol
    teller: str

    def told_by(self, outputs: Mapping[str, Array]) -> Array:
        """Return the array whose shape determines the size; raise FeedError if it may not be so."""
        size, symbol = int(outputs[self.number]), self.symbol
        if not symbol.low <= size <= symbol.high:
            wanted = f"which is outside of its range {symbol.low}..{symbol.high}"
            if symbol.low == symbol.high:
                wanted = f"but it must be {symbol.low}"
            raise FeedError(f"size {symbol.name!r}: the run computes {size} for it, {wanted}")
        return np.empty((size, 0), np.bool_)


@dataclass(frozen=True)
class Passage:
    """The values that pass between a stage and the others.

    Attributes:
        inputs: The values that it reads, by name: inputs of the whole network, and values of
            earlier stages.
        decisions: The sizes that are known when it has run.
    """

    inputs: tuple[str, ...]
    decisions: tuple[Decision, ...]


class StagedRun:
    """Runs of stages, one after the other."""

    def __init__(
        self,
        inputs: Sequence[str],
        outputs: Sequence[str],
        passages: Sequence[Passage],
        run: RunStage,
    ) -> None:
        """Let *run* run the stages of these *passages*, which make *outputs* of *inputs*."""
        self._run, self._outputs, self._passages = run, tuple(outputs), tuple(passages)
        last = {name: number for number, one in enumerate(passages) for name in one.inputs}
        self._freed: list[list[str]] = [[] for _ in passages]
        for name in last.keys() - {*outputs, *inputs}:
            self._freed[last[name]].append(name)

    def __call__(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs of the whole by name.

        Raises:
            FeedError: A size is outside of its range.
        """
        values = dict(feeds)
        for number, passage in enumerate(self._passages):
            values.update(self._run(number, {name: values[name] for name in passage.inputs}))
            for decision in passage.decisions:
                values[decision.teller] = decision.told_by(values)
            for name in self._freed[number]:
                del values[name]
        return {name: values[name] for name in self._outputs}
