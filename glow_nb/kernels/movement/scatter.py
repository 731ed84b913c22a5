"""Scatters: elements, or rows, written where an index says, in the order of the updates.

Each thread owns a range of the result along one dimension: it copies the data there, unless the
result lies on it, and then makes all updates that fall there, in their order. So no two threads
write to one place, and the result does not depend on how many there are. Where the owned dimension
is one that indices lead along, each thread looks at all indices and passes by those of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

from glow_nb.base.size import Size, hinted, surely
from glow_nb.kernels.movement.elements import write_place
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import index_text, plus
from glow_nb.kernels.writing.loops import Nest
from glow_nb.kernels.writing.source import INDENT, KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import floor_power_of_two, native_lanes
from glow_nb.llir.in_place import is_same_memory
from glow_nb.llir.instructions.scatter import ScatterElementsInst, ScatterNDInst
from glow_nb.llir.strides import contiguous_strides

ENOUGH_LINES = 16
"""Lines beside an axis that are worth sharing out; with fewer, threads share the axis itself."""

LONG_ROW = 512
"""Elements of a row that threads share rather than the rows, which may be few."""

_OPERATIONS = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}


@dataclass(frozen=True)
class _Owned:
    """The dimension of ``dest[before, size, after]`` of which each thread owns ``[low, high)``."""

    before: int
    size: int
    after: int

    def write(self, out: SourceWriter, *, copies: bool) -> None:
        """Write the range of the thread and, if it *copies*, the copy of the data there."""
        out.line(f"low = thread * {self.size} // threads")
        out.line(f"high = (thread + 1) * {self.size} // threads")
        if not copies:
            return
        start = index_text(["b", "low"], [self.size * self.after, self.after])
        count = index_text(["(high - low)"], [self.after])
        with out.block(f"for b in range({self.before}):"):
            out.line(f"copy(dest, {start}, data, {start}, {count})")


@kernel_for(ScatterElementsInst, ScatterNDInst)
def scatter_source(
    instruction: ScatterElementsInst | ScatterNDInst, target: Target
) -> KernelSource:
    """Return the kernel ``(dest, data, indices, updates)`` of a scatter."""
    dest, kind = instruction.dest, instruction.dest.type.kind
    copies = not is_same_memory(dest, instruction.data)
    out = SourceWriter()
    with out.block("def kernel(dest, data, indices, updates, scratch, thread, threads):"):
        if surely(dest.type.size, "==", 0):
            out.line("return")
        elif surely(instruction.updates.type.size, "==", 0):
            _Owned(1, dest.type.size, 1).write(out, copies=copies)
        else:
            if not surely(dest.type.size, ">", 0):  # there is no place to clamp an index to
                out.line(f"if {dest.type.size} == 0:\n{INDENT}return")
            if isinstance(instruction, ScatterElementsInst):
                _write_elements(out, instruction, copies=copies)
            else:
                _write_rows(out, instruction, native_lanes(target, kind), copies=copies)
    kinds = (kind, kind, instruction.indices.type.kind, kind)
    return KernelSource(instruction.opcode, out.text, kinds)


@dataclass(frozen=True)
class _Loop:
    """One loop over single updates.

    Attributes:
        size: Steps.
        entry: Elements of ``indices`` and ``updates`` from one step to the next.
        step: Elements of ``dest`` likewise.
        before: How often ``dest`` has room for ...
        extent: ... this number of such steps.
        is_axis: The index says where the step leads.
    """

    size: int
    entry: int
    step: int
    before: int
    extent: int
    is_axis: bool


def _loops_of(instruction: ScatterElementsInst) -> list[_Loop]:
    """Return the loops over the updates, as few as there can be, that along the axis included."""
    axis = instruction.axis
    shape, wanted = instruction.dest.type.shape, instruction.indices.type.shape
    steps, entries = contiguous_strides(shape), contiguous_strides(wanted)
    columns = []
    for part in (slice(axis), slice(axis, axis + 1), slice(axis + 1, None)):
        is_axis = part.start == axis
        nest = Nest(wanted[part], (entries[part], steps[part]))
        nest = nest if is_axis else nest.collapsed()
        columns += [(*column, is_axis) for column in zip(nest.sizes, *nest.strides, strict=True)]
    loops, first = [], 0
    for size, entry, step, is_axis in columns:
        if is_axis or size != 1:
            end = (axis if is_axis else steps.index(step, first)) + 1
            first = axis if is_axis else first
            before, extent = prod(shape[:first]), prod(shape[first:end])
            loops.append(_Loop(size, entry, step, before, extent, is_axis))
            first = end
    return loops


def _write_elements(out: SourceWriter, instruction: ScatterElementsInst, *, copies: bool) -> None:
    """Write the share of one thread: that of the first loop beside the axis with enough lines.

    How many lines an open size is, the run decides.
    """
    loops = _loops_of(instruction)
    with ExitStack() as stack:
        for loop in loops:
            if loop.is_axis or surely(loop.size, "<", ENOUGH_LINES):
                continue
            if surely(loop.size, ">=", ENOUGH_LINES):
                _write_updates(out, instruction, loops, loop, copies=copies)
                return
            with out.block(f"if {loop.size} >= {ENOUGH_LINES}:"):
                _write_updates(out, instruction, loops, loop, copies=copies)
            stack.enter_context(out.block("else:"))
        axis = next(loop for loop in loops if loop.is_axis)
        _write_updates(out, instruction, loops, axis, copies=copies)


def _write_updates(
    out: SourceWriter,
    instruction: ScatterElementsInst,
    loops: Sequence[_Loop],
    owned: _Loop,
    *,
    copies: bool,
) -> None:
    """Write loops over the updates, of one of which, *owned*, each thread has a part."""
    axis = next(loop for loop in loops if loop.is_axis)
    _Owned(owned.before, owned.extent, owned.step).write(out, copies=copies)
    names = [f"i{number}" if loop.size != 1 else "0" for number, loop in enumerate(loops)]
    with ExitStack() as stack:
        for name, loop in zip(names, loops, strict=True):
            span = f"{loop.size}"
            if loop is owned and not loop.is_axis:
                span = f"min(low, {loop.size}), min(high, {loop.size})"
            if name != "0":
                stack.enter_context(out.block(f"for {name} in range({span}):"))
        out.line(f"entry = {index_text(names, [loop.entry for loop in loops])}")
        write_place(out, "place", "entry", axis.extent)
        if owned is axis:
            stack.enter_context(out.block("if low <= place < high:"))
        names[loops.index(axis)] = "place"
        out.line(f"to = {index_text(names, [loop.step for loop in loops])}")
        if instruction.reduction == "none":
            out.line("copy(dest, to, updates, entry, 1)")
        else:
            _write_combined(out, instruction.reduction, "to", "entry", 1)


def _write_combined(
    out: SourceWriter, reduction: str, to: str, source: str, lanes: int, count: str | None = None
) -> None:
    """Write what combines *lanes* elements of the result, or the first *count*, with updates."""
    mask = f"_masked({{}}, {lanes}, {count})" if count else f"({{}}, {lanes})"
    old, new = "load" + mask.format(f"dest, {to}"), "load" + mask.format(f"updates, {source}")
    combined = f"{_OPERATIONS[reduction]}({old}, {new})"
    suffix, mask = ("_masked", f", {count}") if count else ("", "")
    out.line(f"store{suffix}(dest, {to}, {combined}{mask})")


def _write_rows(out: SourceWriter, instruction: ScatterNDInst, lanes: int, *, copies: bool) -> None:
    """Write the loop over all points; a thread owns rows, or columns of long rows."""
    shape = instruction.dest.type.shape
    *points, depth = instruction.indices.type.shape
    rows, length = prod(shape[:depth]), prod(shape[depth:])
    shares_columns = hinted(length) >= LONG_ROW
    owned = _Owned(rows, length, 1) if shares_columns else _Owned(1, rows, length)
    owned.write(out, copies=copies)
    with out.block(f"for i in range({prod(points)}):"):
        for k, size in enumerate(shape[:depth]):
            write_place(out, f"place{k}", index_text(["i"], [depth], k), size)
        places = [f"place{k}" for k in range(depth)]
        out.line(f"row = {index_text(places, contiguous_strides(shape[:depth]))}")
        if not isinstance(length, Size):
            lanes = min(lanes, floor_power_of_two(length))
        if shares_columns:
            _write_row(out, instruction.reduction, length, lanes, ("low", "high"))
        else:
            with out.block("if low <= row < high:"):
                _write_row(out, instruction.reduction, length, lanes, ("0", f"{length}"))


def _write_row(
    out: SourceWriter, reduction: str, length: int, lanes: int, columns: tuple[str, str]
) -> None:
    """Write what combines the *columns*, from and to, of row ``row`` with those of update ``i``."""
    begin, end = columns
    to, source = index_text(["row"], [length]), index_text(["i"], [length])
    if reduction == "none":
        begins = f"dest, {plus(to, begin)}, updates, {plus(source, begin)}"
        out.line(f"copy({begins}, {end if begin == '0' else f'{end} - {begin}'})")
        return
    out.line(f"c = {begin}")
    with out.block(f"while c <= {end} - {lanes}:"):
        _write_combined(out, reduction, f"{to} + c", f"{source} + c", lanes)
        out.line(f"c = c + {lanes}")
    if isinstance(length, Size):
        with out.block(f"if c < {end}:"):
            _write_combined(out, reduction, f"{to} + c", f"{source} + c", lanes, f"{end} - c")
    elif lanes > 1:
        with out.block(f"while c < {end}:"):
            _write_combined(out, reduction, f"{to} + c", f"{source} + c", 1)
            out.line("c = c + 1")
