"""Loops over strided tensors: collapsed dimensions, and shares of threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from glow_nb.base.size import surely, symbols_of
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.llir.program import Buffer

ENOUGH_ROWS = 64
"""Least number of rows to share: with fewer, threads wait too long for the last one."""


@dataclass(frozen=True)
class Nest:
    """A loop nest over one index space.

    Attributes:
        sizes: Steps of each loop, outermost first.
        strides: For each tensor, elements to step over in each loop; 0 where it is broadcast.
    """

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @classmethod
    def over(cls, shape: tuple[int, ...], tensors: Sequence[Buffer]) -> Nest:
        """Return the nest over *shape* that visits *tensors*, which broadcast to it."""
        return cls(shape, tuple(broadcast_strides(tensor, shape) for tensor in tensors)).collapsed()

    def collapsed(self) -> Nest:
        """Return the same nest with as few loops as possible, at least one.

        Loops of one step are removed; two neighbouring loops are merged if every tensor has a
        single stride for both.
        """
        sizes: list[int] = []
        columns: list[tuple[int, ...]] = []
        for size, column in zip(self.sizes, zip(*self.strides, strict=True), strict=True):
            if size == 1:
                continue
            if columns and all(a == b * size for a, b in zip(columns[-1], column, strict=True)):
                sizes[-1] *= size
                columns[-1] = column
            else:
                sizes.append(size)
                columns.append(column)
        if not sizes:
            return Nest((1,), ((1,),) * len(self.strides))
        return Nest(tuple(sizes), tuple(zip(*columns, strict=True)))

    def with_innermost(self, loop: int) -> Nest:
        """Return the nest with *loop* moved inside all others."""
        order = [i for i in range(len(self.sizes)) if i != loop] + [loop]
        strides = tuple(tuple(tensor[i] for i in order) for tensor in self.strides)
        return Nest(tuple(self.sizes[i] for i in order), strides)


def broadcast_strides(tensor: Buffer, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of *tensor* seen as *shape*, in elements; 0 where it is repeated."""
    return tuple(
        0 if size == 1 and wanted != 1 else stride
        for size, stride, wanted in zip(tensor.type.shape, tensor.strides, shape, strict=True)
    )


def share(count: int | str) -> str:
    """Return the range of a thread's part of *count* equal work items."""
    return f"range(thread * {count} // threads, (thread + 1) * {count} // threads)"


def write_shares(
    out: SourceWriter, units: int, panels: int, *, panels_first: bool, panel: str = "panel"
) -> None:
    """Write ``unit``, ``unit_end``, ``panel_begin`` and ``panel_end`` of ``thread``.

    There are *units* times *panels* pieces of work, which the threads share as a
    :func:`~glow_nb.scheduling.thread_grid.thread_grid`. *panel* names the second kind of pieces:
    the variables are ``<panel>_begin`` and ``<panel>_end``.
    """
    sizes = f"{units}, {panels}, {int(panels_first)}"
    out.line(f"unit, unit_end, {panel}_begin, {panel}_end = own_share(thread, threads, {sizes})")


@contextmanager
def loops(
    out: SourceWriter, sizes: Sequence[int], *, shared: bool, prefix: str = "i"
) -> Iterator[tuple[str, ...]]:
    """Write the headers of a nest over *sizes* around the block; yields the names of the indices.

    A loop of one step is left out; its index is ``0``. When *shared*, the outermost loops, as many
    as make enough pieces, become one loop over the thread's share of them.
    """
    names, walked = _walked(sizes, prefix)
    leading = _leading([size for _, size in walked]) if shared else 0
    headers = [f"for {name} in range({size}):" for name, size in walked[leading:]]
    if shared and walked:
        pieces = prod(size for _, size in walked[:leading])
        ends = f"thread * {pieces} // threads", f"(thread + 1) * {pieces} // threads"
        with _flat(out, walked[:leading], ends, prefix), _blocks(out, headers):
            yield names
        return
    if shared:
        headers = ["if thread == threads - 1:"]
    with _blocks(out, headers):
        yield names


@contextmanager
def row_shares(out: SourceWriter, sizes: Sequence[int], panels: int) -> Iterator[tuple[str, ...]]:
    """Write the headers of a nest over the rows of a thread around the block; yields the indices.

    Each row has *panels* pieces, of which the thread takes those from ``panel_begin`` to
    ``panel_end``: few long rows are shared as well as many short ones. Both numbers may be open.
    """
    write_shares(out, prod(sizes), panels, panels_first=False)
    names, walked = _walked(sizes, "i")
    with _flat(out, walked, ("unit", "unit_end"), "i"):
        yield names


def _walked(sizes: Sequence[int], prefix: str) -> tuple[tuple[str, ...], list[tuple[str, int]]]:
    """Return the names of the indices, and those of loops of more than one step with their size."""
    names = tuple(f"{prefix}{number}" if n != 1 else "0" for number, n in enumerate(sizes))
    return names, [(name, n) for name, n in zip(names, sizes, strict=True) if n != 1]


def _leading(sizes: Sequence[int]) -> int:
    """Return how many outer loops are shared out together: enough whatever their sizes are."""
    for count in range(1, len(sizes)):
        if surely(prod(sizes[:count]), ">=", ENOUGH_ROWS):
            return count
    return len(sizes)


@contextmanager
def _flat(
    out: SourceWriter, walked: Sequence[tuple[str, int]], ends: tuple[str, str], prefix: str
) -> Iterator[None]:
    """Write one loop from one to the other of the *ends* over *walked* loops around the block."""
    flat = f"flat_{prefix}"
    if len(walked) == 1:
        with out.block(f"for {walked[0][0]} in range({', '.join(ends)}):"):
            yield
    elif symbols_of(*(size for _, size in walked[1:])):
        with _counted(out, walked, ends, prefix):
            yield
    else:
        with out.block(f"for {flat} in range({', '.join(ends)}):"):
            _split(out, flat, walked)
            yield


@contextmanager
def _counted(
    out: SourceWriter, walked: Sequence[tuple[str, int]], ends: tuple[str, str], prefix: str
) -> Iterator[None]:
    """Write loops over rows, the other indices being counted on from row to row.

    A division by an open size takes long.
    """
    *outer, (name, size) = walked
    flat, end, first, last = (f"{word}_{prefix}" for word in ("flat", "end", "first", "last"))
    out.line(f"{flat} = {ends[0]}")
    out.line(f"{end} = {ends[1]}")
    _split(out, flat, [*outer, (first, size)])
    with out.block(f"while {flat} < {end}:"):
        out.line(f"{last} = min({size}, {first} + {end} - {flat})")
        with out.block(f"for {name} in range({first}, {last}):"):
            yield
        out.line(f"{flat} = {flat} + {last} - {first}")
        out.line(f"{first} = 0")
        _count_on(out, outer)


def _split(out: SourceWriter, flat: str, walked: Sequence[tuple[str, int]]) -> None:
    """Write the indices that make up the flat index of a row-major walk."""
    for number, (name, size) in enumerate(walked):
        below = prod(size for _, size in walked[number + 1 :])
        quotient = flat if below == 1 else f"{flat} // {below}"
        out.line(f"{name} = {quotient}" if number == 0 else f"{name} = {quotient} % {size}")


def _count_on(out: SourceWriter, walked: Sequence[tuple[str, int]]) -> None:
    """Write that the innermost index grows by one, and the one before it where it began anew."""
    *outer, (name, size) = walked
    out.line(f"{name} = {name} + 1")
    if outer:
        with out.block(f"if {name} == {size}:"):
            out.line(f"{name} = 0")
            _count_on(out, outer)


@contextmanager
def _blocks(out: SourceWriter, headers: Sequence[str]) -> Iterator[None]:
    if not headers:
        yield
        return
    with out.block(headers[0]), _blocks(out, headers[1:]):
        yield
