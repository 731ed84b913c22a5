"""From a network of floats to one of integers (paper 4.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from typing_extensions import override

from glow_nb.compiler import optimize
from glow_nb.errors import CalibrationError
from glow_nb.hlir.graph import Function, Value
from glow_nb.quant.emission import Emission
from glow_nb.quant.histogram import Histogram
from glow_nb.quant.methods import Method, chosen, method_named
from glow_nb.quant.placement import Kept, Placement, place
from glow_nb.quant.ranges import Ranges, ValueRange
from glow_nb.quant.schemas import (
    WEIGHT_KINDS,
    Encoding,
    Schema,
    kind_named,
    power_of_two,
    schema_named,
    symmetric,
)
from glow_nb.source import Trained, as_source
from glow_nb.types import ElementKind


@dataclass(frozen=True)
class Conversion:
    """A network of integers, and what of it is none; printed as a report.

    Attributes:
        function: The network, as :func:`quantize` returns it.
        quantized: How many operators read integers, by opcode.
        kept: The operators that compute with floats, and why.
    """

    function: Function
    quantized: dict[str, int]
    kept: tuple[Kept, ...]

    @override
    def __str__(self) -> str:
        done = ", ".join(f"{count} {opcode}" for opcode, count in sorted(self.quantized.items()))
        lines = [f"{self.function.name}: on integers: {done or 'nothing'}"]
        reasons: dict[tuple[str, str], list[str]] = {}
        for kept in self.kept:
            reasons.setdefault((kept.opcode, kept.reason), []).append(kept.name)
        for (opcode, reason), names in reasons.items():
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            lines.append(f"float {opcode}: {reason}: {', '.join(names[:3])}{more}")
        return "\n".join(lines)


def quantize(
    model: Trained,
    ranges: Ranges,
    *,
    activations: str | ElementKind = "uint8",
    weights: str | ElementKind = "int8",
    schema: str = "asymmetric",
    method: str | Method = "minmax",
    per_channel: bool = True,
    keep: Iterable[str] = (),
) -> Function:
    """Return *model* with integers in the place of floats where operators have forms for them.

    The function has ``quantize`` and ``dequantize`` nodes around the operators and takes and gives
    the same arrays as *model*; :func:`glow_nb.compile` makes islands of integers of it, and
    :func:`glow_nb.export_onnx` a model that other engines run as well.

    Args:
        model: What was calibrated. Sizes that it leaves open are those of the samples.
        ranges: What :func:`calibrate` has returned, or :meth:`Ranges.load`.
        activations: The integers of activations: "uint8", "int8" or "int16".
        weights: Those of weights: "int8" or "uint8".
        schema: "asymmetric", "symmetric", "symmetric_unsigned" (all integers for what is never
            negative) or "power_of_two". Weights are symmetric, with scales that are powers of two
            if the schema says so.
        method: How the range of an activation follows from its histogram: "minmax", "percentile",
            "mse", "entropy", or a function, see :mod:`glow_nb.quant.methods`. Weights are never cut
            off.
        per_channel: Weights have a scale for each channel of the result, not one for all.
        keep: Names, or globs, of nodes that stay float.

    Raises:
        CalibrationError: The ranges are those of another network: says what differs.
        OptionError: An argument has no meaning.
        GlowError: As :func:`glow_nb.load`.
    """
    return convert(
        model,
        ranges,
        activations=activations,
        weights=weights,
        schema=schema,
        method=method,
        per_channel=per_channel,
        keep=keep,
    ).function


def convert(
    model: Trained,
    ranges: Ranges,
    *,
    activations: str | ElementKind = "uint8",
    weights: str | ElementKind = "int8",
    schema: str = "asymmetric",
    method: str | Method = "minmax",
    per_channel: bool = True,
    keep: Iterable[str] = (),
) -> Conversion:
    """Do what :func:`quantize` does, and tell what stays float, and why."""
    kind, chosen_schema = kind_named("activations", activations), schema_named(schema)
    weight_kind = kind_named("weights", weights, WEIGHT_KINDS)
    chosen_method = method_named(method)
    function = _calibrated_function(model, ranges)
    known = ranges.of_values(function)
    placement = place(function, keep, lambda value: value in known and known[value].is_known)
    encodings = _encodings(placement, known, kind, chosen_schema, chosen_method)
    weight_schema = power_of_two if chosen_schema is power_of_two else symmetric
    emission = Emission(
        function, placement, encodings, (weight_kind, weight_schema), per_channel=per_channel
    )
    on_integers = Counter(node.opcode for node in placement.reads)
    return Conversion(emission.function(), dict(on_integers), tuple(placement.kept))


def _calibrated_function(model: Trained, ranges: Ranges) -> Function:
    """Return the optimized graph of *model* for the sizes that *ranges* are of."""
    if not isinstance(ranges, Ranges):
        raise CalibrationError(f"{ranges!r:.80} is no Ranges; quant.calibrate makes them")
    source = as_source(model)
    if set(source.inputs) != set(ranges.inputs):
        raise CalibrationError(
            f"ranges of {ranges.model!r}: they were made for the inputs {list(ranges.inputs)}, the "
            f"network has {source.inputs}; calibrate this network"
        )
    return optimize(source.function(tuple(ranges.inputs.items())))


def _encodings(
    placement: Placement,
    known: dict[Value, ValueRange],
    kind: ElementKind,
    schema: Schema,
    method: Method,
) -> dict[Value, Encoding]:
    """Return scale and offset of each value that is quantized.

    Values with the same scale have one for the numbers of all of them.
    """
    found: dict[Value, Encoding] = {}
    for values in placement.members().values():
        histogram = reduce(Histogram.merged, (known[value].histogram for value in values))
        found |= dict.fromkeys(values, chosen(method, histogram, kind, schema))
    return found
