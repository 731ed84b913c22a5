"""From a float network to one of integers (paper 4.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from typing_extensions import override

from glow_nb.backends import BackendLike
from glow_nb.base.arguments import described, finite_number, truth
from glow_nb.base.errors import CalibrationError
from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.histogram import Histogram
from glow_nb.hlir.kept_names import kept_by_name
from glow_nb.network.compilation import optimize
from glow_nb.network.source import Trained, as_source
from glow_nb.quant.emission import Emission
from glow_nb.quant.gain import Gains, Predictor
from glow_nb.quant.methods import Method, MethodName, chosen, method_named
from glow_nb.quant.placement import Kept, Placement, place
from glow_nb.quant.ranges import Ranges
from glow_nb.quant.schemas import (
    WEIGHT_KINDS,
    ActivationKind,
    Encoding,
    Schema,
    SchemaName,
    WeightKind,
    kind_named,
    power_of_two,
    schema_named,
    symmetric,
)
from glow_nb.quant.value_range import ValueRange


@dataclass(frozen=True)
class Conversion:
    """A quantized network, and the operators that stay float; printed as a report.

    Attributes:
        function: The network, as :func:`quantize` returns it.
        quantized: The number of operators that read integers, by opcode.
        kept: The operators that compute with floats, and why.
        gains: The predicted speedup of each layer.
    """

    function: Function
    quantized: dict[str, int]
    kept: tuple[Kept, ...]
    gains: Gains

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
        sizes = (f"{value.name} {list(value.type.shape)}" for value in self.function.inputs)
        lines.append(f"for inputs of the sizes of the samples: {', '.join(sizes)}")
        lines.append(
            f"predicted gain of the network on one thread: {self.gains.predicted.gain:.2f}"
        )
        return "\n".join(lines)


def quantize(
    model: Trained,
    ranges: Ranges,
    *,
    activations: ActivationKind | ElementKind = "uint8",
    weights: WeightKind | ElementKind = "int8",
    schema: SchemaName = "asymmetric",
    method: MethodName | Method = "minmax",
    per_channel: bool = True,
    keep: Iterable[str] = (),
    least_gain: float = 1.0,
    backend: BackendLike = "cpu",
) -> Function:
    """Return a quantized version of *model*: operators that have integer forms compute with
    integers.

    The function has ``quantize`` and ``dequantize`` nodes around these operators, and the same
    inputs and outputs as *model*; :func:`glow_nb.compile` turns it into islands of integer
    operators, and :func:`glow_nb.export_onnx` into a model that other engines run as well.

    Args:
        model: The calibrated network. Open sizes of a model become those of the samples; open sizes
            of a graph stay open.
        ranges: The result of :func:`calibrate` or :meth:`Ranges.load`.
        activations: Integer type of activations: "uint8", "int8" or "int16".
        weights: Integer type of weights: "int8" or "uint8".
        schema: "asymmetric", "symmetric", "symmetric_unsigned" (all integers for values that are
            never negative) or "power_of_two". Weights are always symmetric, with scales that are
            powers of two for "power_of_two".
        method: How the range of an activation follows from its histogram: "minmax", "percentile",
            "mse", "entropy", or a function, see :mod:`glow_nb.quant.methods`. Weights never
            saturate.
        per_channel: Weights have a scale for each channel of the result, not one for all.
        keep: Names, or globs, of nodes that stay float.
        least_gain: An island of integer operators stays float if its predicted speedup, with the
            conversions at its border, is less than this; 0 keeps no island float.
        backend: The backend of the prediction, as for ``glow_nb.compile``; it must estimate
            kernels.

    Raises:
        CalibrationError: The ranges belong to another network; says what differs.
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
        least_gain=least_gain,
        backend=backend,
    ).function


def convert(
    model: Trained,
    ranges: Ranges,
    *,
    activations: ActivationKind | ElementKind = "uint8",
    weights: WeightKind | ElementKind = "int8",
    schema: SchemaName = "asymmetric",
    method: MethodName | Method = "minmax",
    per_channel: bool = True,
    keep: Iterable[str] = (),
    least_gain: float = 1.0,
    backend: BackendLike = "cpu",
) -> Conversion:
    """Quantize like :func:`quantize`, and report the operators that stay float, and why."""
    least_gain = finite_number("least_gain", least_gain, 0.0)
    per_channel = truth("per_channel", per_channel)
    kind, chosen_schema = kind_named("activations", activations), schema_named(schema)
    weight_kind = kind_named("weights", weights, WEIGHT_KINDS)
    chosen_method = method_named(method)
    function = _calibrated_function(model, ranges)
    known = ranges.of_values(function)
    weight_schema = power_of_two if chosen_schema is power_of_two else symmetric
    kept, predictor = kept_by_name(function, keep), Predictor(function, backend)
    while True:
        placement = place(function, kept, lambda value: value in known and known[value].is_known)
        encodings = _encodings(placement, known, kind, chosen_schema, chosen_method)
        made = Emission(
            function, placement, encodings, (weight_kind, weight_schema), per_channel=per_channel
        ).function()
        layers, islands = predictor.gains(made)
        losing = _losing(function, placement, islands, least_gain)
        if not losing:
            break
        kept |= losing
    on_integers = Counter(node.opcode for node in placement.reads)
    return Conversion(made, dict(on_integers), tuple(placement.kept), layers)


def _losing(
    function: Function, placement: Placement, islands: Gains, least_gain: float
) -> dict[str, str]:
    """Return the names of the nodes on integers in islands that gain too little, and why."""
    reasons = {
        name: f"predicted gain {island.predicted.gain:.2f} < {least_gain:g}"
        for island in islands.layers
        if island.predicted.gain < least_gain
        for name in island.names
    }
    found: dict[str, str] = {}
    for node in placement.reads:
        reason = next((reasons[o] for o in function.origins_of(node) if o in reasons), "")
        if reason:
            found[node.name] = reason
    return found


def _calibrated_function(model: Trained, ranges: Ranges) -> Function:
    """Return the optimized graph of *model* for the sizes that *ranges* are of."""
    if not isinstance(ranges, Ranges):
        raise CalibrationError(f"{described(ranges)} is no Ranges; quant.calibrate makes them")
    source = as_source(model)
    if set(source.inputs) != set(ranges.inputs):
        raise CalibrationError(
            f"ranges of {ranges.model!r}: they were made for the inputs {list(ranges.inputs)}, the "
            f"network has {source.inputs}; calibrate this network"
        )
    return optimize(source.open_graph or source.function(tuple(ranges.inputs.items())))


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
