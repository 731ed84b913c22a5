"""The data of ``fit``: arrays that are cut into batches, or a stream of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from glow_nb.base.arguments import as_array, described, whole_number
from glow_nb.base.errors import FeedError, OptionError
from glow_nb.base.feeds import Feeds
from glow_nb.base.types import Array

Batch = tuple[Feeds, Array]
"""Inputs, and targets."""


@dataclass(frozen=True)
class Batches:
    """Arrays that are cut into batches.

    Attributes:
        inputs: One array, or several by the names of inputs; samples along the first axis.
        targets: The target of each sample.
        size: Samples of a batch.
        shuffle: Each epoch has its own order, which depends only on *seed* and the number of the
            epoch.
        keep_last: The last batch may be smaller. If not, the remaining samples are dropped; which
            ones depends on the order of the epoch.
        seed: Seed of the orders.
    """

    inputs: Feeds
    targets: Array
    size: int
    shuffle: bool = True
    keep_last: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("batch size", self.size, 1)
        whole_number("seed", self.seed, 0)
        arrays = {name: as_array(name, array) for name, array in _named(self.inputs).items()}
        is_named = isinstance(self.inputs, Mapping)
        object.__setattr__(self, "inputs", arrays if is_named else arrays["inputs"])
        object.__setattr__(self, "targets", as_array("targets", self.targets))
        samples = self.samples
        for name, array in arrays.items():
            if not np.ndim(array) or len(array) != samples:
                raise FeedError(
                    f"input {name!r}: shape is {list(np.shape(array))}, but there are {samples} "
                    "targets; give one target for each sample, along the first axis"
                )
        if samples < (1 if self.keep_last else self.size):
            raise OptionError(
                f"batch size {self.size}: there are only {samples} samples; give a smaller size"
            )

    @property
    def samples(self) -> int:
        """The number of samples."""
        if not np.ndim(self.targets):
            raise FeedError(f"targets: {described(self.targets)} is no batch; give an array")
        return len(self.targets)

    def __len__(self) -> int:
        """Return how many batches an epoch has."""
        return -(-self.samples // self.size) if self.keep_last else self.samples // self.size

    def epoch(self, number: int, begin: int = 0) -> Iterator[Batch]:
        """Yield the batches of epoch *number*, from batch *begin* on."""
        order = np.arange(self.samples)
        if self.shuffle:
            order = np.random.default_rng((self.seed, number)).permutation(self.samples)
        for index in range(begin, len(self)):
            chosen = order[index * self.size : (index + 1) * self.size]
            yield _taken(self.inputs, chosen), self.targets[chosen]


Data = Batches | Iterable[Batch] | tuple[Feeds, Array, int]
"""Batches, or whole arrays with the size of a batch, which are shuffled in each epoch."""


class Stream:
    """Batches from an iterable of a user, which is iterated in each epoch."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        """Take *batches*; raise OptionError if nothing can be iterated."""
        if not isinstance(batches, Iterable):
            raise OptionError(
                f"batches: {described(batches)} is no iterable of (inputs, targets); give one, or "
                "(inputs, targets, batch_size)"
            )
        self._batches = batches

    def __len__(self) -> int:
        """Return how many batches an epoch has, 0 if that is not known."""
        return len(cast(Any, self._batches)) if hasattr(self._batches, "__len__") else 0

    def epoch(self, number: int, begin: int = 0) -> Iterator[Batch]:
        """Yield the batches from batch *begin* on; raise FeedError if there are none."""
        count = 0
        for count, batch in enumerate(self._batches, 1):
            if not (isinstance(batch, tuple | list) and len(batch) == 2):
                raise FeedError(
                    f"batch {count}: a {type(batch).__name__} is not (inputs, targets); give pairs"
                )
            if count > begin:
                yield batch[0], batch[1]
        if not count:
            raise FeedError(
                f"epoch {number + 1}: there are no batches; give a list, or an object that can be "
                "iterated once more, as a generator cannot"
            )


def as_batches(data: Data | Stream, *, seed: int = 0, keep_last: bool = False) -> Batches | Stream:
    """Return *data* of a user as batches; whole arrays are shuffled unless *keep_last*."""
    if isinstance(data, Batches | Stream):
        return data
    if isinstance(data, tuple) and len(data) == 3 and not isinstance(data[2], tuple):
        inputs, targets, size = data
        return Batches(inputs, targets, size, not keep_last, keep_last, seed)
    return Stream(cast(Iterable[Batch], data))


def _named(inputs: Feeds) -> Mapping[str, Array]:
    return inputs if isinstance(inputs, Mapping) else {"inputs": inputs}


def _taken(inputs: Feeds, chosen: Array) -> Feeds:
    if isinstance(inputs, Mapping):
        return {name: array[chosen] for name, array in inputs.items()}
    return inputs[chosen]
