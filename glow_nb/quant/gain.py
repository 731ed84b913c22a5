"""The speedup of quantization, predicted and measured.

The prediction adds up the backend's estimates of the kernels of both networks, for one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from typing_extensions import override

from glow_nb.backends import BackendLike, backend_named
from glow_nb.backends.backend import Estimator
from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError
from glow_nb.base.table import Table
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function
from glow_nb.hlir.with_sizes import with_sizes
from glow_nb.llir.program import Program
from glow_nb.network import compilation as compiler
from glow_nb.network.network import Network
from glow_nb.quant.layers import Layer, Names, byte_links, match

MICROSECONDS = 1e-3
"""One nanosecond in microseconds."""


@dataclass(frozen=True)
class Times:
    """The time of the kernels of a layer, or of a network.

    Attributes:
        floats: Nanoseconds of the float kernels.
        integers: Nanoseconds of the integer kernels.
    """

    floats: float
    integers: float

    @property
    def gain(self) -> float:
        """The speedup: the time of the float kernels over that of the integer kernels; 0 if there
        are no float kernels, as for conversions.
        """
        return self.floats / self.integers if self.integers else float("inf")


@dataclass(frozen=True)
class LayerGain:
    """The speedup of one layer by quantization.

    Attributes:
        names: The imported nodes that it computes.
        predicted: The estimated times of its kernels.
        measured: Their median times; None if they were not measured.
    """

    names: Names
    predicted: Times
    measured: Times | None = None


@dataclass(frozen=True)
class Gains:
    """The speedup of each layer and of the network by quantization; printed as a table.

    Attributes:
        layers: In the order of the kernels.
    """

    layers: tuple[LayerGain, ...]

    @property
    def predicted(self) -> Times:
        """The estimated times of all kernels."""
        return _sum(layer.predicted for layer in self.layers)

    @property
    def measured(self) -> Times | None:
        """The median times of all kernels; None if they were not measured."""
        known = [layer.measured for layer in self.layers if layer.measured is not None]
        return _sum(known) if known else None

    @property
    def table(self) -> Table:
        """The times of all layers in microseconds, and of the network in the last row."""
        measured = ("#measured: float us", "#integer us", "#gain") if self.measured else ()
        whole = LayerGain(("all kernels",), self.predicted, self.measured)
        return Table(
            ("layer", "#predicted: float us", "#integer us", "#gain", *measured),
            tuple(
                (_title(each.names), *_cells(each.predicted), *_cells(each.measured))
                for each in (*self.layers, whole)
            ),
        )

    @override
    def __str__(self) -> str:
        return str(self.table)


def _sum(times: Iterable[Times]) -> Times:
    known = list(times)
    return Times(sum(each.floats for each in known), sum(each.integers for each in known))


def _title(names: Names) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _cells(times: Times | None) -> tuple[str, ...]:
    if times is None:
        return ()
    gain = f"{times.gain:.2f}" if times.floats and times.integers else "-"
    return f"{times.floats * MICROSECONDS:.1f}", f"{times.integers * MICROSECONDS:.1f}", gain


class Predictor:
    """Predicts the speedup of quantized versions of a float network."""

    def __init__(self, function: Function, backend: BackendLike = "cpu") -> None:
        """Predict for quantized versions of *function*, compiled for *backend*.

        Raises:
            OptionError: The backend does not estimate its kernels.
        """
        chosen = backend_named(backend)
        if not isinstance(chosen, Estimator):
            raise OptionError(
                f"backend={described(backend)}: it does not estimate how long its kernels take; "
                "give one that has a method estimated_ns"
            )
        self._estimator, self._backend = chosen, chosen
        self._floats = self._program(function)
        self._float_times = self._times(self._floats)

    def gains(self, quantized: Function) -> tuple[Gains, Gains]:
        """Return the gains of the layers of *quantized*, and of its islands.

        An island is a set of operators that pass integers to each other, with the conversions at
        its border.
        """
        program = self._program(quantized)
        times = self._times(program)
        links = byte_links(program)
        linked = {place for link in links for place in link}
        layers, islands = (self._match(program, given) for given in ((), links))
        return (
            Gains(tuple(self._gain(layer, times) for layer in layers)),
            Gains(
                tuple(
                    self._gain(layer, times)
                    for layer in islands
                    if not linked.isdisjoint(layer.integers)
                )
            ),
        )

    def _program(self, function: Function) -> Program:
        if function.sizes:  # it is estimated for those of the example
            function = with_sizes(function, {s.name: s.hint for s in function.sizes})
        lowered = compiler.lower_for(function, self._backend)
        return compiler.build_program(lowered, self._backend)

    def _times(self, program: Program) -> list[float]:
        return [self._estimator.estimated_ns(instruction) for instruction in program.work]

    def _match(self, program: Program, links: Sequence[Sequence[int]]) -> list[Layer]:
        floats, integers = (
            [instruction.imported_names for instruction in each.work]
            for each in (self._floats, program)
        )
        return match(floats, integers, links)

    def _gain(self, layer: Layer, times: Sequence[float]) -> LayerGain:
        return LayerGain(layer.names, _times_of(layer, self._float_times, times))


def _times_of(layer: Layer, floats: Sequence[float], integers: Sequence[float]) -> Times:
    return Times(sum(floats[i] for i in layer.floats), sum(integers[i] for i in layer.integers))


def measure(floats: Network, integers: Network, inputs: Mapping[str, Array], *, runs: int) -> Gains:
    """Run both networks on *inputs* and return the predicted and the measured times.

    Raises:
        OptionError: *runs* is not a positive whole number.
        UnsupportedError: The backend does not measure the time of its kernels.
    """
    profiles = [
        network.profile(dict(inputs), runs=runs, limits=False).kernels
        for network in (floats, integers)
    ]
    names = [[kernel.report.origins for kernel in profile] for profile in profiles]
    predicted = [[kernel.report.estimated_ns for kernel in profile] for profile in profiles]
    measured = [[1e9 * kernel.median_seconds for kernel in profile] for profile in profiles]
    return Gains(
        tuple(
            LayerGain(layer.names, _times_of(layer, *predicted), _times_of(layer, *measured))
            for layer in match(names[0], names[1])
        )
    )
