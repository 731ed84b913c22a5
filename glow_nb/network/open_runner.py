"""Runs of one executable whose sizes are those of the feeds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np

from glow_nb.base.arguments import as_array
from glow_nb.base.feeds import Feeds, check_open_feeds, name_feeds
from glow_nb.base.outputs import Outputs
from glow_nb.base.size import Symbol
from glow_nb.base.sizes_of_shapes import sizes_of_shapes
from glow_nb.base.types import Array, symbolic
from glow_nb.network.levels import Border
from glow_nb.network.runner import BoundRun, Runner, Runs
from glow_nb.system.state_store import StateStore

MOST_RUNNERS = 256
"""Sets of sizes whose runners are kept; one takes a kilobyte, and some microseconds to make."""

Shapes = tuple[tuple[int, ...], ...]


class OpenRunner:
    """Makes runs of one executable with open sizes: for each set of sizes by a runner of its own.

    Attributes:
        direct: The fast path of a run, if there is one.
    """

    def __init__(
        self, border: Border, symbols: Sequence[Symbol], executable: Runs, state: StateStore
    ) -> None:
        """Run *executable*, whose border is *border*, on *state*."""
        self._border, self._symbols = border, symbols
        self._executable, self._state = executable, state
        self._open_types = {name: symbolic(type) for name, type in border.inputs.items()}
        self._known: OrderedDict[Shapes, Runner] = OrderedDict()
        self._whole = Runner(border, executable, state)
        self.direct = self._whole.direct

    def sizes_of(self, feeds: Feeds) -> dict[str, int]:
        """Return the sizes by name that *feeds* determine; raise FeedError if there are none."""
        return self._sizes(self._arrays(feeds))

    def _arrays(self, feeds: Feeds) -> dict[str, Array]:
        named = name_feeds(self._border.inputs.keys(), feeds)
        return {name: as_array(name, named[name]) for name in self._border.inputs}

    def _sizes(self, arrays: dict[str, Array]) -> dict[str, int]:
        check_open_feeds(self._open_types, arrays)
        shapes = {name: array.shape for name, array in arrays.items()}
        return sizes_of_shapes(self._border.inputs, self._symbols, shapes)

    def _runner_for(self, feeds: Feeds) -> tuple[Runner, dict[str, Array]]:
        """Return the runner for the sizes that *feeds* determine, and these by name."""
        arrays = self._arrays(feeds)
        shapes = tuple(array.shape for array in arrays.values())
        runner = self._known.get(shapes)
        if runner is None:
            border = self._border.at(self._sizes(arrays))
            runner = self._known[shapes] = Runner(border, self._executable, self._state)
            if len(self._known) > MOST_RUNNERS:
                self._known.popitem(last=False)
        return runner, arrays

    def arrays(self, feeds: Feeds) -> list[Array]:
        """Return one contiguous array for each input, or raise FeedError."""
        runner, arrays = self._runner_for(feeds)
        return runner.arrays(arrays)

    def run(self, feeds: Feeds) -> dict[str, Array]:
        """Run on *feeds*; return new arrays by output name."""
        runner, arrays = self._runner_for(feeds)
        return runner.run(arrays)

    def run_into(self, feeds: Feeds, into: object) -> dict[str, Array]:
        """Run on *feeds*; return arrays by output name: those of *into*, and new ones."""
        runner, arrays = self._runner_for(feeds)
        return runner.run_into(arrays, into)

    def run_over(self, arrays: dict[str, Array], sizes: Mapping[str, int]) -> dict[str, Array]:
        """Run on *arrays*, which fit *sizes*, and write outputs that are inputs as well over them.

        The arrays are all inputs, by name in order. It does what :meth:`run_into` does with them in
        a few microseconds.
        """
        outputs = Outputs()
        for name, type in self._border.outputs.items():
            held = arrays.get(name)
            outputs[name] = (
                np.empty(type.at(sizes).shape, type.kind.dtype) if held is None else held
            )
        self._whole.run_between(list(arrays.values()), list(outputs.values()))()
        return outputs

    def bind(self, feeds: Feeds, outputs: object) -> BoundRun:
        """Return a run on *feeds*, which are read where they lie, that writes *outputs*."""
        runner, _ = self._runner_for(feeds)
        return runner.bind(feeds, outputs)
