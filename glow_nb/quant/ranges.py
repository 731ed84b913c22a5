"""The result of calibration: a histogram of each value of a network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from typing_extensions import override

from glow_nb.base.arguments import as_path, described
from glow_nb.base.errors import CalibrationError
from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Function, Value
from glow_nb.quant.ranges_file import StoredRanges, read_ranges, write_ranges
from glow_nb.quant.structure import structural_keys
from glow_nb.quant.value_range import ValueRange


@dataclass(frozen=True)
class Ranges:
    """The ranges of the values of a network, for one set of sizes.

    Attributes:
        model: The name of the network, for display.
        inputs: The shape of each input.
        samples: The number of samples, repeated ones included.
        values: The range of each value, by its structure (:mod:`glow_nb.quant.structure`).
    """

    model: str
    inputs: Mapping[str, tuple[int, ...]]
    samples: int
    values: Mapping[str, ValueRange]

    @property
    def unreached(self) -> list[str]:
        """The names of values without numbers, or whose numbers were not all finite."""
        return [value.name for value in self.values.values() if not value.is_known]

    def merge(self, other: Ranges) -> Ranges:
        """Return the ranges of the samples of both.

        Raises:
            CalibrationError: The other ranges belong to another network, or have other bins.
        """
        if not isinstance(other, Ranges):
            raise CalibrationError(f"{described(other)} is no Ranges; give those of another run")
        self._check_alike(other)
        merged = {key: value.merged(other.values[key]) for key, value in self.values.items()}
        return replace(self, samples=self.samples + other.samples, values=merged)

    def _check_alike(self, other: Ranges) -> None:
        subject = f"ranges of {self.model!r} and of {other.model!r}"
        if self.inputs != other.inputs:
            raise CalibrationError(
                f"{subject}: their inputs are {dict(self.inputs)} and {dict(other.inputs)}; "
                "calibrate both for the same sizes"
            )
        names = [
            values[key].name
            for key in {**self.values, **other.values}
            for values in (self.values, other.values)
            if key in values and not (key in self.values and key in other.values)
        ]
        if names:
            raise CalibrationError(
                f"{subject}: {len(names)} values are in but one of them, the first is "
                f"{names[0]!r}; merge ranges of the same network with the same weights"
            )
        for key, value in self.values.items():
            bins, others = value.histogram.bins, other.values[key].histogram.bins
            if bins != others:
                raise CalibrationError(
                    f"{subject}: they have {bins} and {others} bins; calibrate both with the same"
                )

    def of_values(self, function: Function) -> dict[Value, ValueRange]:
        """Return the range of each value of *function*, an optimized graph.

        Raises:
            CalibrationError: These ranges belong to another network; says what differs.
        """
        keys = structural_keys(function)
        floats = [value for value in profiled_values(function) if keys[value] not in self.values]
        if floats:
            raise self._misfit(function, floats)
        return {value: self.values[keys[value]] for value in profiled_values(function)}

    def _misfit(self, function: Function, missing: list[Value]) -> CalibrationError:
        first = missing[0]
        alike = [value for value in self.values.values() if value.name == first.name]
        inputs = {placeholder.name: placeholder.type.shape for placeholder in function.inputs}
        if inputs != self.inputs:
            reason = f"they were made for the inputs {dict(self.inputs)}, the network has {inputs}"
        elif not alike:
            reason = f"they know no value {first.name!r}"
        elif alike[0].type != str(first.type):
            reason = f"{first.name!r} was {alike[0].type} and is {first.type}"
        else:
            reason = f"{first.name!r} is computed with other weights or attributes"
        return CalibrationError(
            f"ranges of {self.model!r}: {len(missing)} of {len(profiled_values(function))} values "
            f"of the network {function.name!r} have none: {reason}; calibrate this network"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ranges to the YAML file *path*, every number exactly.

        Raises:
            GlowError: The file cannot be written.
        """
        stored = StoredRanges(self.model, self.inputs, self.samples, self.values)
        write_ranges(stored, as_path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Ranges:
        """Read ranges from the YAML file *path*.

        Raises:
            CalibrationError: The file cannot be read, or does not hold ranges.
        """
        return cls(*read_ranges(as_path(path)))

    @override
    def __repr__(self) -> str:
        return f"<Ranges of {self.model!r}: {len(self.values)} values, {self.samples} samples>"


def profiled_values(function: Function) -> list[Value]:
    """Return the values that calibration observes: inputs and results of float32."""
    results = (result for node in function.nodes for result in node.results)
    is_profiled = ElementKind.FLOAT32
    return [value for value in (*function.inputs, *results) if value.type.kind is is_profiled]
