"""Let caches that a step reads and gives back one longer grow where they lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from graphlib import CycleError

from glow_nb.base.errors import OptionError, UnsupportedError
from glow_nb.base.grown_cache import Cache
from glow_nb.base.schema import closest, listed, operands_of
from glow_nb.base.size import MAX_SIZE, Symbol, bounds, symbols_of
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node, Placeholder, Value, producer_of
from glow_nb.hlir.grown_rows import Joined, is_whole, joined_rows, nodes_behind
from glow_nb.hlir.ops.insertion import InsertSlice
from glow_nb.hlir.ops.shape import slice_axis
from glow_nb.hlir.save import Save
from glow_nb.hlir.stages import decided_sizes, names_of


def grow_caches(
    function: Function, caches: Mapping[str, str]
) -> tuple[Function, tuple[Cache, ...]]:
    """Return *function* with *caches*, inputs and the outputs that they become, as one memory each.

    ::

        func @step(%past : float32<1 x past x 64>) -> (%present : float32<1 x past + 1 x 64>) {
          %all = concat([%past, %new]) {axis = 1} : float32<1 x past + 1 x 64>
          %y = softmax(%all) ...
          save(%all, %present)
        ->
        func @step(%past : float32<1 x 1025 x 64>, %past_size : bool<past x 0>) -> (%past ...) {
          %past_next = insert_slice(%past, %new) {axis = 1, start = past} : float32<1 x 1025 x 64>
          %all = slice(%past_next) ... : float32<1 x past + 1 x 64>
          %y = softmax(%all) ...
          save(%past_next, %past)

    The room is what the ranges of sizes need at most, so that no size is asked. Between the input
    and the concat, and from there to the output, there may be transposes, reshapes, and concats of
    several parts that grow alike. An input that has no elements tells how long the past is.

    Raises:
        OptionError: An input or output is unknown, a range has no end, or an output is no such
            concat.
        UnsupportedError: Runs of the function decide sizes.
    """
    builder = Builder(function.name, function.names)
    grown = [_Grown(function, name, output, builder) for name, output in caches.items()]
    if not grown:
        return function, ()
    decided = decided_sizes(function)
    if decided:
        raise UnsupportedError(
            f"caches={dict(caches)}: there are data-dependent sizes ({names_of(decided)}), and "
            "only networks of one program keep caches; leave caches= out, and feed them"
        )
    _require_alike(grown)
    tellers = {symbol: _teller(symbol, builder) for symbol in dict.fromkeys(g.past for g in grown)}
    saves = [node for node in function.nodes if isinstance(node, Save)]
    dropped = {each.output for each in grown}
    ends = [save for save in saves if save.output not in dropped]
    ends += [builder.emit(Save(g.next, g.room), name=f"{g.room.name}_save") for g in grown]
    try:
        nodes = _rebuilt(ends, _replaced(grown, reads_next=True))
    except CycleError:  # rows that are new are computed from those that were there
        nodes = _rebuilt(ends, _replaced(grown, reads_next=False))
    rooms = {each.input: each.room for each in grown}
    inputs = (*(rooms.get(value, value) for value in function.inputs), *tellers.values())
    outputs = tuple(output for output in function.outputs if output not in dropped)
    made = dataclasses.replace(
        function, inputs=inputs, outputs=(*outputs, *rooms.values()), nodes=()
    )
    return made.with_nodes(nodes), tuple(g.described(tellers[g.past].name) for g in grown)


def _require_alike(grown: list[_Grown]) -> None:
    """Raise OptionError unless a run adds the same number of rows to each cache."""
    first, *others = grown
    for other in others:
        if other.total - other.past.size != first.total - first.past.size:
            raise OptionError(
                f"caches=: {first.room} becomes {first.total!s} rows long, {other.room} "
                f"{other.total!s}; all caches of a network get the same number of new rows in a "
                "run, so leave one out"
            )


def _teller(symbol: Symbol, builder: Builder) -> Placeholder:
    type = TensorType(ElementKind.BOOL, (symbol.size, 0))
    return Placeholder(builder.unique_name(f"{symbol.name}_size"), type)


class _Grown:
    """One cache: its input and output, its room, and what takes the place of its values."""

    def __init__(self, function: Function, name: str, output: str, builder: Builder) -> None:
        self.subject = f"caches={{{name!r}: {output!r}}}"
        self.input = self._found("input", name, function.inputs)
        self.output = self._found("output", output, function.outputs)
        self.axis, self.past = self._growing_axis()
        self.total = self.output.type.shape[self.axis]
        type = self.input.type
        shape = (*type.shape[: self.axis], self._room(), *type.shape[self.axis + 1 :])
        self.room = Placeholder(name, type.with_shape(shape))
        self.joined = self._joined(function, builder)
        start = self.past.size
        self.next = builder.emit(
            InsertSlice(self.room, self.joined.new, axis=self.axis, start=start),
            name=f"{name}_next",
        )
        self.rows = slice_axis(builder, self.next, self.axis, slice(0, self.total))
        self.old_rows, self.old = (
            slice_axis(builder, value, self.axis, slice(0, start))
            for value in (self.next, self.room)
        )
        self.replaced = self.joined.read_from(self.rows)

    def _found(self, role: str, name: str, values: tuple[Placeholder, ...]) -> Placeholder:
        for value in values:
            if value.name == name:
                return value
        names = [value.name for value in values]
        raise OptionError(
            f"{self.subject}: the model has no {role} {name!r}{closest(name, names)}; it has "
            f"{listed(names)}"
        )

    def _growing_axis(self) -> tuple[int, Symbol]:
        """Return the axis along which the output is longer, and the size of the input there."""
        before, after = self.input.type, self.output.type
        unlike = [
            axis
            for axis, (a, b) in enumerate(zip(before.shape, after.shape, strict=False))
            if a != b
        ]
        if before.kind is not after.kind or before.rank != after.rank or len(unlike) != 1:
            raise OptionError(
                f"{self.subject}: the input is {before}, the output {after}; a cache grows along "
                "one axis, and is the same along all others"
            )
        size = before.shape[unlike[0]]
        symbols = symbols_of(size)
        if len(symbols) != 1 or symbols[0].size != size:
            raise OptionError(
                f"{self.subject}: axis {unlike[0]} of the input, which is to grow, is {size!s} of "
                f"{before}; it must be open, and no sum: name it in the model, or say so by sizes="
            )
        return unlike[0], symbols[0]

    def _room(self) -> int:
        """Return how many rows there are at most, after a run."""
        for symbol in symbols_of(self.total):
            if symbol.high >= MAX_SIZE:
                raise OptionError(
                    f"{self.subject}: the output has {self.total!s} rows, and nothing says how "
                    f"large {symbol.name!r} may be; give its range, "
                    f"sizes={{{symbol.name!r}: (0, 1024)}}"
                )
        return bounds(self.total)[1]

    def _joined(self, function: Function, builder: Builder) -> Joined:
        """Return the rows that are saved, put together of old ones and new ones."""
        value = next(
            node.input
            for node in function.nodes
            if isinstance(node, Save) and node.output is self.output
        )
        found = joined_rows(value, self.axis, builder)
        if found is None:
            raise OptionError(
                f"{self.subject}: the output must be the input with new rows after it, along axis "
                f"{self.axis}; it is computed by {_chain(value)}, where no concat along this axis "
                "is found; leave this cache out"
            )
        if not is_whole(found.old, self.input):
            raise OptionError(
                f"{self.subject}: the output is a concat along axis {self.axis} whose first rows "
                f"are {_chain(found.old)}, not the input as it is; leave this cache out"
            )
        return found

    def described(self, teller: str) -> Cache:
        """Return what a user of the function must know."""
        name, output, type = self.room.name, self.output.name, self.room.type
        return Cache(name, output, type, self.axis, self.past, self.total, teller)


def _chain(value: Value) -> str:
    """Return how *value* is made, as far as an error shows it."""
    shown = [repr(value)]
    while len(shown) < 4 and (node := producer_of(value)) is not None and operands_of(node):
        value = operands_of(node)[0]
        shown.append(repr(value))
    return " of ".join(shown)


def _replaced(grown: list[_Grown], *, reads_next: bool) -> dict[Value, Value]:
    """Return the replacements of values of the function.

    Who reads the input alone reads the same rows, which the next contents have as well.
    """
    found: dict[Value, Value] = {}
    for each in grown:
        found |= each.replaced
        found[each.input] = each.old_rows if reads_next else each.old
    return found


def _rebuilt(ends: list[Save], replaced: Mapping[Value, Value]) -> list[Node]:
    """Return the nodes that *ends* need, in order, with the replacements of *replaced* values.

    Raises:
        CycleError: The replacement of a value is computed from the value.
    """
    made: dict[Value, Value] = {}
    nodes: list[Node] = []

    def current(value: Value) -> Value:
        value = replaced.get(value, value)
        return made.get(value, value)

    for node in nodes_behind(ends, replaced):
        new = node.map_operands(current)
        made.update(zip(node.results, new.results, strict=True))
        nodes.append(new)
    return nodes
