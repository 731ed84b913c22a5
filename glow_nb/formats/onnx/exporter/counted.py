"""Values with a valid part that only a run determines: their size is open in ONNX.

Here such a value has the shape of a bound, and padding after what counts. Its readers in ONNX get
it without padding if all of them, down to the outputs, leave padding where it is; if one computes
with the padding, all get it padded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glow_nb.base.schema import operands_of
from glow_nb.formats.onnx.schema.counting import Count, count_after
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import NonMaxSuppression, NonZero, Unique
from glow_nb.hlir.save import Save

COUNTED_AXES: Mapping[type[Node], tuple[int | None, ...]] = {
    NonZero: (1,),
    NonMaxSuppression: (0,),
    Unique: (0, None, 0),
}
"""Operators whose last result says how many slices of the others count, along which axes."""


@dataclass(frozen=True)
class OpenSizes:
    """The values with an open size.

    Attributes:
        producers: Names of the nodes that find the sizes.
        counts: The valid part of each such value.
        numbers: The value of each output that is the count of another one, by its name.
    """

    producers: frozenset[str]
    counts: Mapping[Value, Count]
    numbers: Mapping[str, Value]


def open_sizes(function: Function) -> OpenSizes:
    """Return which values of *function* can do without their padding."""
    hidden = {output.counted.count for output in function.outputs if output.counted}
    saves = [node for node in function.nodes if isinstance(node, Save)]
    numbers = {node.output.name: node.input for node in saves if node.output.name in hidden}
    padded: set[Value] = set()
    while True:
        counts, mixed = _follow(function, numbers, padded)
        if not mixed:
            found = {count.number for count in counts.values()}
            sources = (n for n in function.nodes if type(n) in COUNTED_AXES)
            names = frozenset(node.name for node in sources if node.results[-1] in found)
            return OpenSizes(names, counts, numbers)
        padded |= mixed


def _follow(
    function: Function, numbers: Mapping[str, Value], padded: set[Value]
) -> tuple[dict[Value, Count], set[Value]]:
    """Return what counts of each value, and the numbers of those that meet their padding."""
    counts: dict[Value, Count] = {}
    mixed: set[Value] = set()
    for node in function.nodes:
        counted = [value for value in operands_of(node) if value in counts]
        if counted:
            count = None if isinstance(node, Save) else count_after(node, counts)
            if isinstance(node, Save) and _says(node, counts[node.input], numbers):
                continue
            if count is None or any(type.size == 0 for type in node.result_types):
                mixed.update(counts[value].number for value in counted)
            else:
                counts.update(dict.fromkeys(node.results, count))
        axes = COUNTED_AXES.get(type(node))
        if axes is not None and node.results[-1] not in padded:
            for value, axis in zip(node.results, axes, strict=False):
                if axis is not None:
                    counts[value] = Count(node.results[-1], axis)
    return counts, mixed


def _says(save: Save, count: Count, numbers: Mapping[str, Value]) -> bool:
    """Return whether the output is the size of the valid part."""
    counted = save.output.counted
    return counted is not None and count == Count(numbers[counted.count], counted.axis)
