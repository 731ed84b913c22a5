"""Ranges in files: YAML that people can read, and in which no number is rounded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from glow_nb.base.errors import CalibrationError, reason_of
from glow_nb.base.types import Array
from glow_nb.hlir.histogram import Histogram
from glow_nb.quant.value_range import ValueRange
from glow_nb.system.regular_files import read_text
from glow_nb.system.replaced_files import replace_file

FORMAT = "glow_nb ranges 1"
MOST_BINS = 1 << 20
MOST = float(np.finfo(np.float32).max)
"""The greatest number that a value can have taken."""

_WORDS: Mapping[type[Any], str] = {
    str: "text",
    int: "a whole number",
    float: "a number with a point",
    bool: "true or false",
    list: "a list",
    Mapping: "a mapping",
}

_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class StoredRanges(NamedTuple):
    """The contents of a file: the fields of :class:`glow_nb.quant.ranges.Ranges`."""

    model: str
    inputs: Mapping[str, tuple[int, ...]]
    samples: int
    values: Mapping[str, ValueRange]


def write_ranges(ranges: StoredRanges, path: Path) -> None:
    """Write *ranges* to *path*, replacing the file as a whole."""
    bins = {value.histogram.bins for value in ranges.values.values()}
    document = {
        "format": FORMAT,
        "model": ranges.model,
        "inputs": {name: list(shape) for name, shape in ranges.inputs.items()},
        "samples": ranges.samples,
        "bins": max(bins, default=0),
        "values": [_described(key, value) for key, value in ranges.values.items()],
    }
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    replace_file(path, lambda place: place.write_bytes(text.encode()))


def _described(key: str, value: ValueRange) -> dict[str, object]:
    histogram = value.histogram
    return {
        "key": key,
        "name": value.name,
        "type": value.type,
        "finite": value.is_finite,
        "minimum": histogram.minimum,
        "maximum": histogram.maximum,
        "counts": " ".join(map(str, np.trim_zeros(histogram.counts, "b").tolist())),
    }


def read_ranges(path: Path) -> StoredRanges:
    """Return the ranges in the file at *path*; raise CalibrationError if it holds none."""
    try:
        document = yaml.load(read_text(path), _Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise CalibrationError(f"{path}: cannot be read as ranges: {reason_of(error)}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise CalibrationError(f"{path}: not valid YAML: {reason:.200}") from error
    return _Reader(path).ranges(document)


class _Reader:
    """Makes ranges of what a file holds, or says what is wrong with it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def ranges(self, document: object) -> StoredRanges:
        if not isinstance(document, Mapping) or document.get("format") != FORMAT:
            raise self._wrong(f"it does not begin with 'format: {FORMAT}'")
        bins = self._whole(document, "bins", MOST_BINS)
        inputs = self._field(document, "inputs", Mapping)
        values = [self._value(item, bins) for item in self._field(document, "values", list)]
        return StoredRanges(
            self._field(document, "model", str),
            {str(name): self._shape(name, shape) for name, shape in inputs.items()},
            self._whole(document, "samples", 1 << 62),
            dict(values),
        )

    def _value(self, item: object, bins: int) -> tuple[str, ValueRange]:
        if not isinstance(item, Mapping):
            raise self._wrong(f"the value {item!r:.80} has no fields")
        name = self._field(item, "name", str)
        counts = self._counts(name, self._field(item, "counts", str), bins)
        least, greatest = (self._field(item, key, float) for key in ("minimum", "maximum"))
        is_nothing = not counts.any() and (least, greatest) == (np.inf, -np.inf)
        if not is_nothing and not (counts.any() and -MOST <= least <= greatest <= MOST):
            raise self._wrong(f"value {name!r}: its counts do not fit {least} to {greatest}")
        value = ValueRange(
            name,
            self._field(item, "type", str),
            Histogram(least, greatest, counts),
            self._field(item, "finite", bool),
        )
        return self._field(item, "key", str), value

    def _counts(self, name: str, text: str, bins: int) -> Array:
        words = text.split()
        if len(words) > bins or not all(word.isdecimal() and len(word) < 19 for word in words):
            raise self._wrong(f"value {name!r}: its counts are no {bins} whole numbers at most")
        counts = np.zeros(bins, np.int64)
        counts[: len(words)] = [int(word) for word in words]
        return counts

    def _shape(self, name: object, shape: object) -> tuple[int, ...]:
        if not isinstance(shape, list) or not all(type(size) is int for size in shape):
            raise self._wrong(f"input {name!r}: {shape!r:.80} is no shape")
        return tuple(shape)

    def _whole(self, item: Mapping[Any, Any], key: str, most: int) -> int:
        number: int = self._field(item, key, int)
        if not 0 <= number <= most:
            raise self._wrong(f"{key!r} is {number}, but must be from 0 to {most}")
        return number

    def _field(self, item: Mapping[Any, Any], key: str, wanted: type[Any]) -> Any:
        found = item.get(key)
        if not isinstance(found, wanted) or (wanted is int and isinstance(found, bool)):
            raise self._wrong(f"{key!r} is {found!r:.80}, but must be {_WORDS[wanted]}")
        return found

    def _wrong(self, reason: str) -> CalibrationError:
        return CalibrationError(f"{self._path}: {reason}; write it anew with Ranges.save")
