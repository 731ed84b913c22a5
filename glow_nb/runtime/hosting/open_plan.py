"""A network with open sizes on a host: one program, for requests of all sizes.

Requests that run together are joined along the batch, to exactly the rows that they have. There is
a dataflow for each number of rows; all of them have the same part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glow_nb.base.errors import OptionError, UnsupportedError
from glow_nb.base.map_sizes import map_sizes, renaming
from glow_nb.base.size import Symbol, symbols_of
from glow_nb.base.size_ranges import SizeRanges
from glow_nb.base.types import TensorType
from glow_nb.hlir.graph import Function
from glow_nb.hlir.stages import decided_sizes
from glow_nb.network.open_function import OpenFunction
from glow_nb.network.sized_model import SizedModel
from glow_nb.runtime.hosting.batching import listed_types
from glow_nb.runtime.hosting.dataflow import Dataflow
from glow_nb.runtime.hosting.hosted_device import HostedPart


@dataclass(frozen=True)
class OpenPlan:
    """A graph with open sizes, for any device.

    Attributes:
        function: The graph.
        batch: The sizes that are the rows of requests that run together; none if each runs alone.
    """

    function: Function
    batch: tuple[Symbol, ...] = ()

    def flows(self, name: str, part: HostedPart) -> list[Dataflow]:
        """Return the network called *name*, which is *part*, for each number of rows.

        Raises:
            UnsupportedError: Its code is right for some numbers of rows alone.
        """
        for guard in part.deployable.guards:
            if set(self.batch).intersection(guard.symbols):
                raise UnsupportedError(f"its code is right only for rows where {guard}")
        if not self.batch:
            return [self._flow(name, part, 1)]
        least = max(max(symbol.low for symbol in self.batch), 1)
        most = min(symbol.high for symbol in self.batch)
        return [self._flow(name, part, rows) for rows in range(least, most + 1)]

    def _flow(self, name: str, part: HostedPart, rows: int) -> Dataflow:
        change = renaming(dict.fromkeys(self.batch, rows))

        def sized(type: TensorType) -> TensorType:
            found: TensorType = map_sizes(type, change)
            return found

        inputs = [(value.name, sized(value.type)) for value in self.function.inputs]
        outputs = [(value.name, sized(value.type)) for value in self.function.outputs]
        counted = {v.name: v.counted for v in self.function.outputs if v.counted}
        return Dataflow(name, inputs, outputs, [part], rows, counted)


def open_plan(name: str, model: SizedModel, max_batch: int) -> OpenPlan:
    """Return *model*, called *name*, with its sizes open, for at most *max_batch* rows together.

    Raises:
        OptionError: There are no rows to be joined.
        UnsupportedError: A size has to be a number, or a run decides one.
        GlowError: It cannot be had with open sizes.
    """
    leading = _leading(name, model, max_batch) if max_batch > 1 else ()
    function, specialized = model.open_function(_ranges(model, leading, max_batch))
    for each in specialized:
        raise UnsupportedError(f"size {each.name!r} has to be a number, {each.reason}")
    if decided := decided_sizes(function):
        names = ", ".join(symbol.name for symbol in decided)
        raise UnsupportedError(f"a run decides its sizes {names}, which no host takes")
    batch = symbols_of(*(value.type.shape[0] for value in function.inputs)) if leading else ()
    return OpenPlan(function, batch)


def _ranges(model: SizedModel, leading: Sequence[str], max_batch: int) -> SizeRanges:
    """Return the ranges of the *leading* sizes of *model*: a graph may have narrower ones."""
    own = model.symbols if isinstance(model, OpenFunction) else ()
    known = {one.name: (one.low, min(one.high, max_batch)) for one in own}
    ranges = {size: known.get(size, (1, max_batch)) for size in leading}
    return SizeRanges(ranges=ranges, hints={size: most for size, (_, most) in ranges.items()})


def _leading(name: str, model: SizedModel, max_batch: int) -> tuple[str, ...]:
    """Return the names of the leading sizes of all inputs; raise OptionError if one has none."""
    shapes = [type.shape for type in model.inputs.values()]
    names = {shape[0]: None for shape in shapes if shape and isinstance(shape[0], str)}
    if shapes and all(shape and isinstance(shape[0], str) for shape in shapes):
        return tuple(map(str, names))
    raise OptionError(
        f"network {name!r}: max_batch={max_batch} joins requests along the leading dimension, "
        f"which must be open in all inputs ({listed_types(model.inputs)}); use max_batch=1"
    )
