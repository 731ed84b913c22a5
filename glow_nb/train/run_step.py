"""A training step on its compiled functions: as a whole, or in parts whose gradients are added.

A step that fails or is interrupted leaves all states as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from glow_nb.base.errors import OptionError, TrainingError
from glow_nb.base.types import Array
from glow_nb.hlir.save import is_update
from glow_nb.network.network import Network
from glow_nb.train.diagnosis import first_fault
from glow_nb.train.states import TrainerStates
from glow_nb.train.step import StepFunctions

Arrays = Mapping[str, Array]

Batch = tuple[Arrays, Array]
"""The inputs by name, and the targets."""


@dataclass(frozen=True)
class StepRun:
    """A step that is about to be made.

    Attributes:
        functions: The functions of the step.
        network: These, compiled.
        states: The store of the states.
        numbers: The optimizer's feeds, by its own names.
    """

    functions: StepFunctions
    network: Network
    states: TrainerStates
    numbers: Mapping[str, float]

    def whole(self, batch: Batch) -> float:
        """Make the step on *batch* and return the loss."""
        return self._train(batch, self._fed())

    def in_parts(self, parts: Sequence[Batch], counts: Sequence[float]) -> float:
        """Make the step on *parts* of a batch, each counting so much, and return the mean loss.

        Running statistics and random numbers change with each part. What they were is kept, so
        that a step can be undone up to the run that gives the weights their new values.
        """
        share, loss = self.functions.share, 0.0
        assert share is not None
        emptied = {state.name for state in self.functions.gradients}
        changed = {n.output.name for n in self.functions.train.nodes if is_update(n)} - emptied
        with self.states.alone():
            self.states.begin(changed, emptied)
            try:
                for batch, count in zip(parts, counts, strict=True):
                    part = count / sum(counts)
                    loss += part * self._train(batch, {share: self._number(share, part)})
                self._check_gradients(self.network["apply"].run(self._fed()), loss)
            finally:
                self.states.end()
        return loss

    def _train(self, batch: Batch, fed: Arrays) -> float:
        inputs, targets = batch
        feeds = {**inputs, self.functions.target: targets, **fed}
        outputs = self.network["train"].run(feeds)
        loss = float(outputs[self.functions.loss].item())
        if not isfinite(loss):
            fault = first_fault(self.functions.forward, feeds, self.states.values())
            raise TrainingError(
                f"the loss is {loss}: {fault}; all weights are as before the step; lower the "
                "learning rate, clip the gradients by clip_norm=, or correct the data"
            )
        self._check_gradients(outputs, loss)
        return loss

    def _check_gradients(self, outputs: Arrays, loss: float) -> None:
        """Raise TrainingError if *outputs* tell of gradients that are not finite."""
        check = self.functions.check
        if check is None or check.output not in outputs:
            return
        found = outputs[check.output]
        if np.isfinite(found.sum()):
            return
        names = [n for n, f in zip(check.weights, found, strict=True) if not np.isfinite(f)]
        whose = f"the gradient of {', '.join(map(repr, names))!s:.200}"
        what = whose if names and not check.is_length else "the length of the gradients"
        more = f" (that of {whose})" if names and check.is_length else ""
        raise TrainingError(
            f"{what} is not finite{more}, though the loss is {loss}; all weights are as before "
            "the step; lower the learning rate, correct the data, or avoid operators without a "
            "finite derivative (the root of 0); check_gradients=False skips this check"
        )

    def _fed(self) -> dict[str, Array]:
        names = self.functions.numbers
        return {names[name]: self._number(name, n) for name, n in self.numbers.items()}

    def _number(self, name: str, number: float) -> Array:
        kind = self.functions.number_kind
        with np.errstate(over="ignore"):
            array = np.array(number, kind.dtype)
        if not np.isfinite(array):
            raise OptionError(
                f"{name}={number!r}: it is not finite as {kind.value}, the kind of numbers that a "
                "step is fed; give a smaller one"
            )
        return array
