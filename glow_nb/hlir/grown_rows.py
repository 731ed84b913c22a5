"""A value whose last rows are new: a concat of old rows and new ones, seen through moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from math import prod

from glow_nb.base.schema import operands_of
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node, Placeholder, Value, producer_of
from glow_nb.hlir.ops.shape import Concat, Reshape, Transpose, slice_axis
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.hlir.permutation import inverse
from glow_nb.hlir.save import Save

MOVES = (
    *("gathers_to_slices", "sink_transposes", "sink_reshapes", "merge_slices"),
    *("merge_concats", "eliminate_noops", "eliminate_dead_nodes"),
)
"""The passes that show of moved elements where they are from."""

MOST_ROUNDS = 8


@dataclass(frozen=True)
class Joined:
    """A value that is put together of old rows and new ones along an axis.

    Attributes:
        value: The value.
        old: Its first rows.
        new: The others.
        parts: Its parts, each with the function that computes it from the whole value.
    """

    value: Value
    old: Value
    new: Value
    parts: tuple[tuple[Joined, Callable[[Value], Value]], ...] = ()

    def read_from(self, source: Value) -> dict[Value, Value]:
        """Return the replacements of the value and its parts if *source* has the same elements."""
        found = {self.value: source}
        for part, taken in self.parts:
            found |= part.read_from(taken(source))
        return found


def joined_rows(value: Value, axis: int, builder: Builder) -> Joined | None:
    """Return *value* as old rows and new ones along *axis*; None if no concat shows that.

    Nodes for the rows, and for the parts of the value, are given to *builder*.
    """
    match value:
        case Concat(predicate=None) if value.axis == axis:
            if len(value.inputs) < 2:
                return None
            first, *rest = value.inputs
            new = rest[0] if len(rest) == 1 else builder.emit(Concat(tuple(rest), axis))
            return Joined(value, first, new)
        case Transpose(predicate=None, permutation=permutation):
            return _moved(
                value,
                joined_rows(value.input, permutation[axis], builder),
                lambda rows: Transpose(rows, permutation),
                lambda whole: Transpose(whole, inverse(permutation)),
                builder,
            )
        case Reshape(predicate=None):
            return _reshaped(value, axis, builder)
        case Concat(predicate=None):
            return _stacked(value, axis, builder)
    return None


def _moved(
    value: Value,
    part: Joined | None,
    move: Callable[[Value], Node],
    undo: Callable[[Value], Node],
    builder: Builder,
) -> Joined | None:
    """Return *value*, which *move* makes of rows of *part*, and *undo* makes *part* of it."""
    if part is None:
        return None
    old, new = (builder.emit(move(rows)) for rows in (part.old, part.new))
    return Joined(value, old, new, ((part, lambda whole: builder.emit(undo(whole))),))


def _reshaped(value: Reshape, axis: int, builder: Builder) -> Joined | None:
    """Look through a reshape that leaves *axis* as it is."""
    before, after = value.input.type.shape, value.shape
    same = [
        number
        for number, size in enumerate(before)
        if size == after[axis] and prod(before[:number]) == prod(after[:axis])
    ]
    if len(same) != 1:
        return None

    def move(rows: Value) -> Node:
        return Reshape(rows, (*after[:axis], rows.type.shape[same[0]], *after[axis + 1 :]))

    part = joined_rows(value.input, same[0], builder)
    return _moved(value, part, move, lambda whole: Reshape(whole, before), builder)


def _stacked(value: Concat, axis: int, builder: Builder) -> Joined | None:
    """Look at each input of a concat along another axis."""
    found = [joined_rows(part, axis, builder) for part in value.inputs]
    parts = [part for part in found if part is not None]
    if len(parts) < len(found):
        return None
    starts = (0, *value.ends)

    def taken(start: int, end: int) -> Callable[[Value], Value]:
        return lambda whole: slice_axis(builder, whole, value.axis, slice(start, end))

    old, new = (
        builder.emit(Concat(rows, value.axis))
        for rows in (tuple(p.old for p in parts), tuple(p.new for p in parts))
    )
    takes = map(taken, starts, value.ends)
    return Joined(value, old, new, tuple(zip(parts, takes, strict=True)))


def is_whole(value: Value, input: Placeholder) -> bool:
    """Return whether *value* is *input*, element by element, as the passes over moves show."""
    if value is input:
        return True
    if value.type != input.type:
        return False
    output = Placeholder(f"{input.name}_whole", value.type)
    save = Save(value, output, name=f"{output.name}_save")
    nodes = tuple(nodes_behind([save], {}))
    function = Function("moves", (input,), (output,), nodes)
    if any(isinstance(v, Placeholder) for v in function.use_counts.keys() - {input, output}):
        return False
    for _ in range(MOST_ROUNDS):
        changed = GRAPH_PASSES.run(function, MOVES)
        if changed is function:
            break
        function = changed
    last = function.nodes[-1]
    return isinstance(last, Save) and last.input is input


def nodes_behind(ends: Iterable[Node], replaced: Mapping[Value, Value]) -> Iterator[Node]:
    """Yield the nodes that *ends* need, in order, if others are read for *replaced* values.

    Raises:
        CycleError: The replacement of a value is computed from the value.
    """
    sorter: TopologicalSorter[Node] = TopologicalSorter()
    waiting = list(ends)
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        makers = (producer_of(replaced.get(value, value)) for value in operands_of(node))
        before = dict.fromkeys(maker for maker in makers if maker is not None)
        sorter.add(node, *before)
        new = [maker for maker in before if maker not in seen]
        seen.update(new)
        waiting += new
    yield from sorter.static_order()
