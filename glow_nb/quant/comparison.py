"""The errors of a quantized network, or one of lower precision, against the float network."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from glow_nb.backends import Backend, BackendLike, backend_named
from glow_nb.base.arguments import as_path, whole_number
from glow_nb.base.distance import differences_of, energy, signal_to_noise
from glow_nb.base.errors import OptionError, UnsupportedError
from glow_nb.base.extras import needing
from glow_nb.base.precision import FULL, Precision
from glow_nb.base.quantities import count_of
from glow_nb.base.table import Table, html_text
from glow_nb.base.text import format_name
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.kept_names import require_kept
from glow_nb.hlir.ops.families import NARROW_FLOATS
from glow_nb.hlir.optimize.lower_precision import lower_precision
from glow_nb.network.compilation import optimize
from glow_nb.network.compiling import as_threads, compile
from glow_nb.network.network import Network
from glow_nb.network.source import Trained, as_source, shapes_of
from glow_nb.quant.gain import Gains, measure
from glow_nb.quant.samples import Samples, batches_of
from glow_nb.quant.schemas import Encoding
from glow_nb.quant.value_drift import DriftValues, ValueDrift


@dataclass(frozen=True, repr=False)
class Drift(DriftValues):
    """The errors of a network of lower precision against its float network; printed as a table."""

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the values in the order of the network to the PNG file *path*.

        Raises:
            OptionError: matplotlib is not installed.
            GlowError: The file cannot be written.
        """
        with needing("plot", "the picture of drift"):
            from glow_nb.quant.drift_plot import draw_drift
        draw_drift(self, as_path(path))

    @property
    def table(self) -> Table:
        """The values and the outputs."""
        return Table(
            ("value", "of", "#dB", "#largest error", "#saturated"),
            tuple(
                (
                    row.name,
                    row.opcode,
                    f"{row.signal_to_noise:.1f}",
                    f"{row.largest_error:.4g}",
                    f"{100 * row.saturated:.3f} %",
                )
                for row in (*self.values, *self.outputs)
            ),
        )

    @override
    def __repr__(self) -> str:
        worst = [f"{v.signal_to_noise:.1f} dB of %{format_name(v.name)}" for v in self.worst(1)]
        counted = ", worst ".join([count_of(len(self.values), "value"), *worst])
        return f"<Drift {format_name(self.model)}: {counted}>"

    def _repr_html_(self) -> str:
        """Return the values and the gains for a notebook."""
        return self.table._repr_html_() + (html_text(str(self.gains)) if self.gains else "")

    @override
    def __str__(self) -> str:
        return str(self.table) + (f"\n\n{self.gains}" if self.gains else "")


def drift(
    float_model: Trained,
    quantized: Trained,
    samples: Samples,
    *,
    backend: BackendLike = "cpu",
    threads: int | None = None,
    runs: int = 10,
    precision: Precision = FULL,
    keep: Sequence[str] = (),
) -> Drift:
    """Run both networks on *samples* and compare their values and their times.

    Outputs are compared, and every value that *quantized* rounds to integers and that the optimized
    graph of *float_model* has under the same name: all of them, if :func:`quantize` made it.
    Outputs with a data-dependent size are left out, since their elements may not correspond.

    ``drift(model, model, samples, precision="bfloat16")`` compares a network in another precision
    with itself; the values are then the rounded factors of products.

    Args:
        float_model: The calibrated network.
        quantized: Its quantized version.
        samples: As :func:`calibrate` takes them.
        backend: The backend that runs the networks.
        threads: Cores that share the work of a run; all that are available by default.
        runs: The number of timed runs of each network; 0 for none.
        precision: The precision of *quantized*, as for :func:`glow_nb.compile`.
        keep: Its layers that stay float32, by names and globs.

    Raises:
        CalibrationError: There are no samples, or some hold NaN.
        FeedError: A sample does not fit.
        OptionError: The networks have different outputs, *runs* is no whole number, *keep* matches
            no layer, or the backend has another precision.
        GlowError: As :func:`glow_nb.compile`.
    """
    cores, runs = as_threads(threads), whole_number("runs", runs, 0)
    runner = backend_named(backend, threads=cores)
    if runner.precision != FULL:
        raise OptionError(
            f"the backend computes in {runner.precision}, which would round the floats that are "
            f"compared with, too; give drift precision={runner.precision!r}"
        )
    asked = backend_named("interpreter", options={"precision": precision, "keep": keep})
    source = as_source(float_model)
    batches = batches_of(samples, source)
    first = next(batches)
    shapes = shapes_of(first)
    reference = optimize(source.function(shapes))
    rounded = as_source(quantized).function(shapes)
    if asked.precision != FULL:
        rounded = _lowered(rounded, asked)
    pairs = _pairs(reference, rounded)
    comparisons = [_Comparison(value, node) for value, node in pairs]
    outputs = [_Comparison(value, None) for value in _common_outputs(reference, rounded)]
    floats = compile(
        _with_outputs(reference, [value for value, _ in pairs]), backend=backend, threads=cores
    )
    integers = compile(
        _with_outputs(rounded, [node for _, node in pairs]), backend=backend, threads=cores
    )
    for feed in (first, *batches):
        for wanted, found, comparison in zip(
            _values(floats, feed, len(pairs), outputs),
            _values(integers, feed, len(pairs), outputs),
            (*comparisons, *outputs),
            strict=True,
        ):
            comparison.add(wanted, found)
    return Drift(
        reference.name,
        tuple(comparison.result() for comparison in comparisons),
        tuple(comparison.result() for comparison in outputs),
        _gains(reference, rounded, first, runner, cores, runs),
    )


def _gains(
    reference: Function,
    rounded: Function,
    feed: dict[str, Array],
    backend: Backend,
    threads: int,
    runs: int,
) -> Gains | None:
    """Return how long the layers of both networks take; None if the backend takes no times."""
    if not runs:
        return None
    floats, integers = (
        compile(function, backend=backend, threads=threads) for function in (reference, rounded)
    )
    try:
        return measure(floats, integers, feed, runs=runs)
    except UnsupportedError:
        return None


def _lowered(function: Function, asked: Backend) -> Function:
    """Return *function*, optimized, in the precision of *asked* but for the layers it keeps."""
    require_kept([function], asked.keep)
    kind = ElementKind(asked.precision)
    return lower_precision(optimize(function), kind=kind, keep=asked.keep, must_fit=False)


_Rounded = ops.Dequantize | ops.ConvertTo
"""An object with a rounded value: real numbers as integers, or floats of lower precision."""


def _pairs(reference: Function, rounded: Function) -> list[tuple[Value, _Rounded]]:
    """Return the float values that are rounded, and the nodes that have what becomes of these."""
    floats = (*reference.inputs, *reference.nodes)
    named = {v.name: v for v in floats if v.type.kind is ElementKind.FLOAT32}
    pairs: dict[Value, _Rounded] = {}
    for node in rounded.nodes:
        match node:
            case ops.Dequantize(input=ops.Quantize(input=stored)) if stored.name in named:
                value = named[stored.name]
                if value.type == node.type:
                    pairs.setdefault(value, node)
            case ops.ConvertTo(input=source, kind=kind) if kind in NARROW_FLOATS:
                if source.name in named:
                    pairs.setdefault(named[source.name], node)
    return list(pairs.items())


def _common_outputs(reference: Function, rounded: Function) -> list[Value]:
    """Return the outputs of *reference* whose sizes are known.

    Raises:
        OptionError: *rounded* has others.
    """
    wanted, found = (
        {output.name: output.type for output in function.outputs}
        for function in (reference, rounded)
    )
    if wanted != found:
        raise OptionError(
            f"the outputs of {rounded.name!r} are {found}, those of {reference.name!r} are "
            f"{wanted}; compare networks of which one was made from the other"
        )
    hidden = {output.counted.count for output in reference.outputs if output.counted}
    return [o for o in reference.outputs if not o.counted and o.name not in hidden]


def _with_outputs(function: Function, values: list[Value] | list[_Rounded]) -> Function:
    """Return *function* with *values* as outputs after its own."""
    builder = Builder.continuing(function)
    for value in values:
        builder.save(value, builder.unique_name(f"{value.name}_seen"))
    return builder.function()


def _values(
    network: Network, feed: dict[str, Array], count: int, outputs: list[_Comparison]
) -> Iterator[Array]:
    """Yield what a run shows: the *count* values that were added, then the network's outputs."""
    found = network.run(feed)
    yield from list(found.values())[len(found) - count :]
    for output in outputs:
        yield found[output.name]


class _Comparison:
    """Adds up differences, batch by batch."""

    def __init__(self, value: Value, node: _Rounded | None) -> None:
        self.name = value.name
        if node is None:
            self._opcode = "output"
        else:
            self._opcode = value.opcode if isinstance(value, Node) else "input"
        self._range = (-math.inf, math.inf)
        if isinstance(node, ops.Dequantize):
            self._range = _range_of(node)
        self._signal = self._noise = self._largest = 0.0
        self._outside = self._count = 0

    def add(self, wanted: Array, found: Array) -> None:
        """Count one batch."""
        expected, given = wanted.astype(np.float64), found.astype(np.float64)
        differences = differences_of(expected, given)
        self._signal += energy(expected[np.isfinite(expected)])
        self._noise += energy(differences)
        self._largest = max(self._largest, float(differences.max(initial=0.0)))
        low, high = self._range
        self._outside += int(np.sum((expected < low) | (expected > high)))
        self._count += expected.size

    def result(self) -> ValueDrift:
        """Return the result of all batches."""
        ratio = signal_to_noise(self._signal, self._noise)
        saturated = self._outside / max(self._count, 1)
        return ValueDrift(self.name, self._opcode, ratio, self._largest, saturated)


def _range_of(node: ops.Dequantize) -> tuple[float, float]:
    """Return the least and the greatest number that is rounded to one that has an integer."""
    type = node.input.type
    assert type.scale is not None
    assert type.offset is not None
    encoding = Encoding(type.kind, type.scale, type.offset)
    half = encoding.scale / 2
    return encoding.lowest - half, encoding.highest + half
