"""``fit``: epochs over batches, with progress, history, early stop and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol

from glow_nb.progress import report, shown
from glow_nb.train.batches import Batches, Stream

Score = dict[str, float]


@dataclass(frozen=True)
class Epoch:
    """What an epoch of ``fit`` showed.

    Attributes:
        number: From 1, over all calls of ``fit``.
        steps: Steps made in it.
        loss: The mean loss of its steps.
        validation: What ``evaluate`` said after it, if there is validation data.
        seconds: Wall time, validation included.
    """

    number: int
    steps: int
    loss: float
    validation: Score | None
    seconds: float


@dataclass
class FitState:
    """Where a ``fit`` is; its numbers are all that is needed to go on with it.

    Attributes:
        begin: Epochs made before it.
        batch: Batches of the epoch in progress that are done.
        total: Sum of their losses.
        best: The best loss of an epoch so far.
        stale: Epochs since then.
        history: The fields of each epoch that is done.
    """

    begin: int
    batch: int = 0
    total: float = 0.0
    best: float = inf
    stale: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


class History(list[Epoch]):
    """The epochs of a ``fit``, in order."""

    @property
    def losses(self) -> list[float]:
        """The mean loss of each epoch."""
        return [epoch.loss for epoch in self]

    def validation(self, name: str = "loss") -> list[float]:
        """Return a validation score of each epoch that has it."""
        return [e.validation[name] for e in self if e.validation is not None]


class Steps(Protocol):
    """What ``fit`` needs of a trainer."""

    epochs: int

    def step(self, inputs: Any, targets: Any) -> float:
        """Make a step and return the loss."""
        ...


def run_fit(
    trainer: Steps,
    state: FitState,
    batches: Batches | Stream,
    epochs: int,
    *,
    validate: Callable[[], Score] | None,
    patience: int | None,
    after_step: Callable[[], None],
    progress: bool | None,
) -> History:
    """Train from *state* on until *epochs* are done since its beginning, and return their history.

    It stops early if the validation loss, or without it the loss, was not better than the best one
    for *patience* epochs. *after_step* is called when *state* tells of a step, and of an epoch.
    """
    history = History(Epoch(**epoch) for epoch in state.history)
    last = state.begin + epochs
    with shown("training", progress):
        while trainer.epochs < last and not _is_stale(state, patience):
            began = time.perf_counter()
            for inputs, targets in batches.epoch(trainer.epochs, state.batch):
                loss = trainer.step(inputs, targets)
                state.batch, state.total = state.batch + 1, state.total + loss
                _report(trainer.epochs, last, state, len(batches))
                after_step()
            mean = state.total / state.batch if state.batch else inf
            score = validate() if validate is not None else None
            seconds = time.perf_counter() - began
            history.append(Epoch(trainer.epochs + 1, state.batch, mean, score, seconds))
            _close_epoch(state, history[-1])
            trainer.epochs += 1
            after_step()
    return history


def _close_epoch(state: FitState, epoch: Epoch) -> None:
    loss = epoch.loss if epoch.validation is None else epoch.validation["loss"]
    state.stale = 0 if loss < state.best else state.stale + 1
    state.best = min(state.best, loss)
    state.batch, state.total = 0, 0.0
    state.history.append(vars(epoch))


def _is_stale(state: FitState, patience: int | None) -> bool:
    return patience is not None and state.stale >= patience


def _report(epoch: int, last: int, state: FitState, batches: int) -> None:
    loss = state.total / state.batch
    stage = f"epoch {epoch + 1} of {last}, loss {loss:.4g}, batch"
    report(*((stage, state.batch, batches) if batches else (f"{stage} {state.batch}",)))
