"""``bisect_noise``: the first value of a quantized network with too much quantization error.

Both graphs are evaluated with NumPy on the same inputs. Values that both have under the same name
and with the same type are compared: those of the imported float graph, and those of the optimized
graph, since that is the one that is quantized. The noise of a value includes that of all values
before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from glow_nb.base.arguments import Shapes, as_shapes, finite_number
from glow_nb.base.distance import decibels
from glow_nb.base.errors import OptionError
from glow_nb.base.text import format_name
from glow_nb.base.types import Array
from glow_nb.bisection.calibrated import OutsideRange, inputs_outside
from glow_nb.bisection.search import Progress, named_inputs
from glow_nb.bisection.states import Evaluator, Key, StateValues, key_of
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.llir.program import Program
from glow_nb.network.compilation import optimize
from glow_nb.network.loading import Graph, load_ir, load_open
from glow_nb.network.shared_shapes import shapes_for_each

QUANTIZING = (ops.Quantize, ops.QuantizeLinear)

LEAST_DECIBELS = 20.0
"""The least signal-to-noise ratio of a good value: its error has a hundredth of its energy, a tenth
of its magnitude."""


@dataclass(frozen=True)
class ValueNoise:
    """The quantization error of one value.

    Attributes:
        name: Its name in both networks.
        opcode: The operator that computes it in the quantized network; "output" for outputs.
        signal_to_noise: In decibels.
    """

    name: str
    opcode: str
    signal_to_noise: float


@dataclass(frozen=True)
class NoiseSearch:
    """The result of :func:`bisect_noise`.

    Attributes:
        values: All that were compared, in the order of the quantized network, the outputs last.
        least: The least decibels of a good value.
        first_bad: The first value with less; None if there is none.
        outside: Inputs that the quantized network was not calibrated for, which make values noisy.
    """

    values: tuple[ValueNoise, ...]
    least: float
    first_bad: ValueNoise | None
    outside: tuple[OutsideRange, ...] = ()

    @override
    def __str__(self) -> str:
        return "\n".join([self._found, *map(str, self.outside)])

    @property
    def _found(self) -> str:
        if self.first_bad is None:
            return f"all {len(self.values)} values have at least {self.least:g} dB"
        bad = self.first_bad
        return (
            f"%{format_name(bad.name)}, {bad.opcode}, is the first with less than {self.least:g} "
            f"dB of signal to noise: {bad.signal_to_noise:.1f} dB"
        )


def bisect_noise(
    reference: Graph,
    quantized: Graph,
    inputs: Mapping[str, Array] | Array,
    *,
    shapes: Shapes | None = None,
    least_decibels: float = LEAST_DECIBELS,
    progress: Progress | None = None,
) -> NoiseSearch:
    """Return the first value of *quantized* that is too far from the value in *reference*.

    Args:
        reference: The float network: what ``glow_nb.load`` takes.
        quantized: The network made from it, by :func:`glow_nb.quant.quantize` or another tool.
        inputs: The feeds, as for ``net.run``.
        shapes: As for ``compile``. Each network takes those that it leaves open, and then the sizes
            of the other one's inputs.
        least_decibels: The least signal-to-noise ratio of a good value.
        progress: Called with what is evaluated next.

    Raises:
        OptionError: One of the networks is a program, or their inputs or outputs differ.
        FeedError: An input is missing, unknown, or of another type.
    """
    least = finite_number("least_decibels", least_decibels)
    floats, integers = _loaded(reference, quantized, shapes=as_shapes(shapes) or {})
    _check_outputs(floats, integers)
    feeds = named_inputs(floats, inputs)
    states = (("reference", floats), ("optimized reference", optimize(floats)))
    evaluate, known = Evaluator(feeds), []
    for number, (name, function) in enumerate((*states, ("quantized", integers))):
        if progress:
            progress(name, number, len(states) + 1)
        known.append(evaluate(function))
    *expected, found = known
    values = tuple(_noises(expected, found, integers))
    first = next((value for value in values if value.signal_to_noise < least), None)
    return NoiseSearch(values, least, first, inputs_outside(integers, feeds))


def _loaded(*graphs: Graph, shapes: Shapes) -> Iterator[Function]:
    """Yield *graphs* with the sizes that *shapes* and the other one give."""
    opened = [load_open(graph) for graph in graphs]
    each = shapes_for_each(opened, shapes)
    for graph, read, own in zip(graphs, opened, each, strict=True):
        is_ready = isinstance(read, Function | Program) and not own
        loaded = read if is_ready else load_ir(graph, shapes=own)
        if not isinstance(loaded, Function):
            raise OptionError(f"{loaded!r:.80} is a program; give the graph that it was made from")
        yield loaded


def _check_outputs(floats: Function, integers: Function) -> None:
    """Raise OptionError unless both take the same inputs and give the same outputs."""
    for what in ("inputs", "outputs"):
        wanted, found = (
            {value.name: str(value.type) for value in getattr(function, what)}
            for function in (floats, integers)
        )
        if wanted != found:
            raise OptionError(
                f"the {what} of the quantized network are {found}, those of the reference are "
                f"{wanted}; give the network that it was made from"
            )


def _noises(
    expected: list[StateValues], found: StateValues, quantized: Function
) -> Iterator[ValueNoise]:
    read_as = _dequantized(quantized)
    for name, index in found.values:
        array = found.values[read_as.get((name, index), (name, index))]
        for state in expected:
            wanted = state.values.get((name, index))
            if wanted is not None and _are_alike(wanted, array):
                yield ValueNoise(name, quantized[name].opcode, decibels(wanted, array))
                break
    for name, array in found.outputs.items():
        yield ValueNoise(name, "output", decibels(expected[0].outputs[name], array))


def _dequantized(function: Function) -> dict[Key, Key]:
    """Return, for each value that is stored as integers, what is read in its place.

    Integers have a range, which some tools let do the work of a ReLU: only what is read is then
    what the floats have under this name.
    """
    users = function.users()
    found: dict[Key, Key] = {}
    for node in function.nodes:
        if isinstance(node, QUANTIZING):
            read = _first_read(node, users)
            if read is not None and read.type == node.input.type:
                found[key_of(node.input)] = (read.name, 0)
    return found


def _first_read(stored: Node, users: Mapping[Value, list[Node]]) -> Node | None:
    """Return the first node that reads *stored* as floats."""
    values = [stored]
    for value in values:
        for user in users.get(value, ()):
            if isinstance(user, ops.Dequantize | ops.DequantizeLinear):
                return user
            if isinstance(user, ops.Stored | ops.AsQuantized):
                values.append(user)
    return None


def _are_alike(wanted: Array, found: Array) -> bool:
    same = wanted.shape == found.shape and wanted.dtype == found.dtype
    return same and np.issubdtype(found.dtype, np.floating)
