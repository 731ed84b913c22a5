"""The mean loss of samples, and of metrics, with the weights as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from glow_nb.base.errors import FeedError, OptionError
from glow_nb.base.foreign import foreign, name_of
from glow_nb.base.types import Array
from glow_nb.train.batches import Batches, Data, Stream, as_batches
from glow_nb.train.engine import Engine
from glow_nb.train.fitting import Score
from glow_nb.train.losses import samples_of

Metric = Callable[[Array, Array], float]
"""Takes the predictions and the targets of a batch, and returns their mean score."""


def whole_batches(data: Data, size: int | None) -> Batches | Stream:
    """Return *data* in batches, to the last sample, for a network that takes batches of *size*.

    Raises:
        FeedError: The last batch would be smaller, and the network takes no other size.
    """
    batches = as_batches(data, keep_last=True)
    if size is not None and isinstance(batches, Batches) and batches.samples % size:
        raise FeedError(
            f"{batches.samples} samples to evaluate: the network takes batches of {size} alone,"
            " and the last one would be smaller; give a multiple, or a model that leaves the "
            "size of its batch open"
        )
    return batches


def mean_scores(
    engine: Engine,
    batches: Iterable[tuple[dict[str, Array], Array]],
    metrics: Mapping[str, Metric],
) -> Score:
    """Return the mean of the loss and of each of *metrics* over pairs of inputs and targets.

    In the mean of a metric a batch counts by its samples, in that of the loss by what its targets
    count there.
    """
    totals: dict[str, float] = {}
    counts: dict[str, float] = {}
    for inputs, targets in batches:
        prediction, loss = engine.judge(inputs, targets)
        scores = {"loss": (loss, engine.count(targets))}
        for name, metric in metrics.items():
            with foreign(OptionError, f"metric {name!r}: {name_of(metric)}"):
                scores[name] = float(metric(prediction, targets)), samples_of(targets)
        for name, (score, count) in scores.items():
            totals[name] = totals.get(name, 0.0) + count * score
            counts[name] = counts.get(name, 0.0) + count
    return {name: total / counts[name] for name, total in totals.items()}
