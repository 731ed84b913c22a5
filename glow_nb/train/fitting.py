"""``fit``: epochs over batches, with progress, history, early stopping and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from glow_nb.base.progress import report, shown
from glow_nb.train.batches import Batches, Stream

Score = dict[str, float]


@dataclass(frozen=True)
class Epoch:
    """The results of an epoch of ``fit``.

    Attributes:
        number: From 1, over all calls of ``fit``.
        steps: Steps made in it.
        loss: The mean loss of its steps.
        validation: The result of ``evaluate`` after it, if there is validation data.
        seconds: Wall time, validation included.
    """

    number: int
    steps: int
    loss: float
    validation: Score | None
    seconds: float


@dataclass(frozen=True)
class FitState:
    """The progress of a ``fit``; its numbers are all that is needed to continue.

    It is replaced as a whole, so that an interrupt finds the old state or the new one.

    Attributes:
        begin: Epochs before this ``fit``.
        batch: Completed batches of the current epoch.
        total: Sum of their losses.
        best: The best loss of an epoch so far.
        stale: Epochs since the best one.
        history: The fields of each epoch that is done.
    """

    begin: int
    batch: int = 0
    total: float = 0.0
    best: float = inf
    stale: int = 0
    history: Sequence[dict[str, Any]] = ()

    @property
    def epochs(self) -> int:
        """Completed epochs, those before it included."""
        return self.begin + len(self.history)

    def after_step(self, loss: float) -> FitState:
        """Return the state after one more batch, whose loss was *loss*."""
        return replace(self, batch=self.batch + 1, total=self.total + loss)

    def after_epoch(self, epoch: Epoch) -> FitState:
        """Return the state after *epoch*."""
        loss = epoch.loss if epoch.validation is None else epoch.validation["loss"]
        return FitState(
            self.begin,
            best=min(self.best, loss),
            stale=0 if loss < self.best else self.stale + 1,
            history=(*self.history, vars(epoch)),
        )


class History(list[Epoch]):
    """The epochs of a ``fit``, in order."""

    @property
    def losses(self) -> list[float]:
        """The mean loss of each epoch."""
        return [epoch.loss for epoch in self]

    def validation(self, name: str = "loss") -> list[float]:
        """Return a validation score of each epoch that has one."""
        return [e.validation[name] for e in self if e.validation is not None]


@dataclass
class Place:
    """An object that holds the progress of a trainer."""

    fit: FitState


def run_fit(
    step: Callable[[Any, Any], float],
    place: Place,
    batches: Batches | Stream,
    epochs: int,
    *,
    validate: Callable[[], Score] | None,
    patience: int | None,
    after_step: Callable[[], None],
    progress: bool | None,
) -> History:
    """Train from *place* on until *epochs* are done since its beginning, and return their history.

    It stops early if the validation loss, or without it the loss, was not better than the best one
    for *patience* epochs. *after_step* is called when *place* tells of a step, and of an epoch.
    """
    last = place.fit.begin + epochs
    with shown("training", progress):
        while place.fit.epochs < last and not _is_stale(place.fit, patience):
            began, number = time.perf_counter(), place.fit.epochs
            for inputs, targets in batches.epoch(number, place.fit.batch):
                place.fit = place.fit.after_step(step(inputs, targets))
                _report(number, last, place.fit, len(batches))
                after_step()
            made, total = place.fit.batch, place.fit.total
            mean = total / made if made else inf
            score = validate() if validate is not None else None
            seconds = time.perf_counter() - began
            place.fit = place.fit.after_epoch(Epoch(number + 1, made, mean, score, seconds))
            after_step()
    return History(Epoch(**epoch) for epoch in place.fit.history)


def _is_stale(state: FitState, patience: int | None) -> bool:
    return patience is not None and state.stale >= patience


def _report(epoch: int, last: int, state: FitState, batches: int) -> None:
    loss = state.total / state.batch
    stage = f"epoch {epoch + 1} of {last}, loss {loss:.4g}, batch"
    report(*((stage, state.batch, batches) if batches else (f"{stage} {state.batch}",)))
