"""Samples as feeds: arrays of many samples become batches of the size that the network takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from glow_nb.base.arguments import as_array, described
from glow_nb.base.errors import CalibrationError
from glow_nb.base.feeds import Feeds, name_feeds
from glow_nb.base.types import Array, ElementKind
from glow_nb.network.source import Shapes, Source, shapes_of

Samples = Mapping[str, Array] | Array | Iterable[Feeds]
"""One feed after another; or arrays of many samples along the first axis, one for each input."""


def batches_of(samples: Samples, source: Source) -> Iterator[dict[str, Array]]:
    """Yield feeds of *samples* that fit *source*, all of the same shapes.

    Arrays of many samples are cut into batches of the network's size, 1 if that is open. The last
    one is filled up with samples from the beginning, since a network of fixed sizes takes no less.
    What is at hand is checked before the first feed comes, what an iterator makes as it comes.

    Raises:
        CalibrationError: There are none, some are NaN, or their shapes are not the same.
        FeedError: They do not fit the network.
    """
    feeds = _feeds(samples, source)
    if isinstance(feeds, list | tuple):
        for _ in _checked(feeds, source):
            pass
    yield from _checked(feeds, source)


def _checked(feeds: Iterable[Any], source: Source) -> Iterator[dict[str, Array]]:
    shapes: Shapes | None = None
    count = 0
    for count, feed in enumerate(feeds, 1):
        arrays = source.arrays(feed)
        found = shapes_of(arrays)
        if shapes is not None and found != shapes and source.open_graph is None:
            raise CalibrationError(
                f"sample {count}: its shapes are {dict(found)}, those of the first {dict(shapes)}; "
                "ranges are of one set of sizes: give samples of one, or a graph that leaves sizes "
                "open, glow_nb.load(model, open_sizes=True)"
            )
        shapes = found
        _check_numbers(f"sample {count}", arrays)
        yield arrays
    if not count:
        raise CalibrationError("samples: there are none; give at least one feed")


def samples_in(arrays: Mapping[str, Array]) -> int:
    """Return how many samples a feed holds: the size of the first axis of its first input."""
    first = next(iter(arrays.values()), None)
    return 1 if first is None or not first.ndim else len(first)


def _feeds(samples: object, source: Source) -> Iterable[Any]:
    if isinstance(samples, Mapping | np.ndarray):
        return _cut(samples, source)
    if not isinstance(samples, Iterable) or isinstance(samples, str | bytes):
        raise CalibrationError(
            f"samples: {described(samples)} is no array; give feeds one after the other, or "
            "arrays of many samples by input name"
        )
    return samples


def _cut(samples: Feeds, source: Source) -> Iterator[dict[str, Array]]:
    named = name_feeds(dict.fromkeys(source.inputs).keys(), samples)
    arrays = {name: as_array(name, named[name]) for name in source.inputs}
    lengths = {name: len(array) if array.ndim else None for name, array in arrays.items()}
    if len(set(lengths.values())) != 1 or None in lengths.values():
        raise CalibrationError(
            f"samples: the arrays hold {lengths} samples; give the same number for each, along "
            "the first axis"
        )
    count, batch = lengths[source.inputs[0]] or 0, source.batch or 1
    floats = {name: array for name, array in arrays.items() if array.dtype.kind == "f"}
    for place in range(count):
        _check_numbers(f"sample {place + 1}", {name: floats[name][place] for name in floats})
    for begin in range(0, count, batch):
        chosen = np.arange(begin, begin + batch) % count
        yield {name: array[chosen] for name, array in arrays.items()}


def _check_numbers(subject: str, arrays: Mapping[str, Array]) -> None:
    for name, array in arrays.items():
        if ElementKind.of(array.dtype).is_float and np.isnan(array).any():
            raise CalibrationError(
                f"{subject}: input {name!r} holds {int(np.isnan(array).sum())} NaN; a range of "
                "such numbers means nothing: leave the sample out"
            )
