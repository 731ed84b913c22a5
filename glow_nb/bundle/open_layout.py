"""What a bundle with open sizes works with for those that it is given: lines of LLVM text.

The layout of a set of sizes stands in the block of tensors (:class:`glow_nb.bundle.area.Area`).
"""

from __future__ import annotations

from collections.abc import Sequence

from glow_nb.base.alignment import ALIGNMENT
from glow_nb.base.size import Guard
from glow_nb.bundle.area import Area
from glow_nb.bundle.codes import NO_SUCH_SIZE, OTHER_SIZES, TOO_LARGE
from glow_nb.bundle.places import Places
from glow_nb.bundle.plan import Bundle, BundledFunction
from glow_nb.bundle.size_values import SizeValues
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.codegen.open_sizes import OpenSizes, Window
from glow_nb.codegen.run_layout import LARGEST_RUN_BYTES

_ROW_OFFSET, _ROW_BYTES, _ROW_SHAPE, _ROW_END = 3, 4, 6, 7
"""Words of a row of a table of tensors, as the header declares it; it ends after the shape."""


def range_lines(bundle: Bundle) -> str:
    """Return the lines that answer whether ``%sizes`` are in their ranges."""
    values = _values(bundle)
    found = _all(
        values,
        [
            values.line(f"icmp {relation} i64 {_size(n)}, {end}")
            for n, symbol in enumerate(bundle.sizes)
            for relation, end in (("sge", symbol.low), ("sle", symbol.high))
        ],
    )
    return "\n".join([*values.lines, f"  ret i1 {found}"])


def same_lines(bundle: Bundle) -> str:
    """Return the lines that answer whether ``%area`` is laid out for ``%sizes``."""
    values, found = _values(bundle), []
    for n in range(len(bundle.sizes)):
        place = values.line(f"getelementptr i64, ptr %area, i64 {n}")
        kept = values.line(f"load i64, ptr {place}")
        found.append(values.line(f"icmp eq i64 {_size(n)}, {kept}"))
    found.append(values.line(f"icmp ne i64 {_size(0)}, -1"))  # as where nothing is laid out
    answer = _all(values, found)
    return "\n".join([*values.lines, f"  ret i1 {answer}"])


def _values(bundle: Bundle) -> SizeValues:
    """Return the sizes that ``%sizes`` has, in a function that has done nothing with them."""
    values = SizeValues(
        bundle.name, {symbol.name: _size(n) for n, symbol in enumerate(bundle.sizes)}
    )
    for n in range(len(bundle.sizes)):
        values.lines += [
            f"  %place{n} = getelementptr i64, ptr %sizes, i64 {n}",
            f"  {_size(n)} = load i64, ptr %place{n}",
        ]
    return values


def _size(number: int) -> str:
    return f"%size{number}"


def _all(values: SizeValues, answers: Sequence[str]) -> str:
    """Return whether all of *answers* are true."""
    found = "true"
    for answer in answers:
        found = values.line(f"and i1 {found}, {answer}")
    return found


def _checked_values(bundle: Bundle) -> SizeValues:
    """Return the sizes that ``%sizes`` has after the label ``aligned``, checked."""
    values = _values(bundle)
    values.lines[:0] = [
        "aligned:",
        f"  %are_in_ranges = call i1 @{bundle.name}.are_in_ranges(ptr %sizes)",
        "  br i1 %are_in_ranges, label %compute, label %outside",
        "outside:",
        f"  ret i32 {NO_SUCH_SIZE}",
        "compute:",
    ]
    return values


def _refuse_large(values: SizeValues) -> None:
    """Go on after the label ``fitting`` if no number was too large."""
    values.lines += [
        "  %is_over = load i1, ptr %over",
        "  br i1 %is_over, label %large, label %fitting",
        "large:",
        f"  ret i32 {TOO_LARGE}",
        "fitting:",
    ]


def _places(
    bundle: Bundle, function: BundledFunction, values: SizeValues
) -> tuple[list[tuple[str, str]], str]:
    """Return offset and bytes of each input and output, and the bytes of the block of tensors."""
    places, offset = [], str(bundle.tensors_bytes)
    for tensor in (*function.inputs, *function.outputs):
        size_bytes = values.of(tensor.type.size_bytes)
        places.append((offset, size_bytes))
        offset = values.call("plus", offset, values.call("bytes", size_bytes))
    return places, values.call("bytes", offset)


def tensor_lines(bundle: Bundle, function: BundledFunction) -> list[str]:
    """Return the lines that write places and shapes of inputs and outputs to their tables."""
    values = _checked_values(bundle)
    places, _ = _places(bundle, function, values)
    tensors = (*function.inputs, *function.outputs)
    shapes = [[values.of(size) for size in tensor.type.shape] for tensor in tensors]
    _refuse_large(values)
    tables = [("%inputs", n) for n in range(len(function.inputs))]
    tables += [("%outputs", n) for n in range(len(function.outputs))]
    for (table, row), (offset, size_bytes), shape in zip(tables, places, shapes, strict=True):
        first = row * (_ROW_END + bundle.most_dimensions)
        values.store(offset, table, first + _ROW_OFFSET)
        values.store(size_bytes, table, first + _ROW_BYTES)
        for axis, size in enumerate(shape):
            values.store(size, table, first + _ROW_SHAPE + axis)
    return values.lines


def layout_lines(
    bundle: Bundle, function: BundledFunction, native: NativeProgram, order: str
) -> list[str]:
    """Return the lines that write to ``%area`` what a run with ``%sizes`` works with."""
    opened, area = native.open, Area.of(native)
    assert opened is not None
    values = _checked_values(bundle)
    places, tensors_bytes = _places(bundle, function, values)
    lengths = [values.call("bytes", values.of(size)) for size in opened.placement.sizes]
    scratch = _scratch(opened, native.layout.thread_scratch_bytes, values)
    bound = Places(bundle, function, native).bound[: -len(places)]
    bases = [*(str(place.offset) for place in bound), *(offset for offset, _ in places)]
    starts = [_start(bundle, native, window, bases, values) for window in opened.windows]
    holds = _all(values, [_holds(guard, values) for guard in opened.guards])
    _refuse_large(values)
    values.lines += [
        f"  br i1 {holds}, label %hold, label %other",
        "other:",
        f"  ret i32 {OTHER_SIZES}",
        "hold:",
    ]
    for n, length in enumerate(lengths):
        values.store(length, "%area", area.lengths + n)
    end = _placed(bundle, values, area, len(opened.placement.order), order)
    total = _total(bundle, values, end, scratch)
    for n, (window, start) in enumerate(zip(opened.windows, starts, strict=True)):
        if window.space == "activation":
            start = values.line(f"add i64 {_activation(values, area, window.number)}, {start}")
        values.store(start, "%area", area.windows + n)
    values.store(tensors_bytes, "%area", area.tensors_bytes)
    values.store(total, "%area", area.arena_bytes)
    values.store(end, "%area", area.scratch)
    words = [values.of(symbol.size) for symbol in opened.words]
    flat = [number for place in places for number in place]
    for first, numbers in ((area.words, [*words, scratch]), (area.tensors, flat)):
        for n, number in enumerate(numbers):
            values.store(number, "%area", first + n)
    for n in range(len(bundle.sizes)):
        values.store(_size(n), "%area", n)
    return values.lines


def _scratch(opened: OpenSizes, least: int, values: SizeValues) -> str:
    """Return the working memory of one thread."""
    found = str(least)
    for size in opened.scratch_bytes:
        need = values.of(size)
        is_more = values.line(f"icmp sgt i64 {need}, {found}")
        found = values.line(f"select i1 {is_more}, i64 {need}, i64 {found}")
    return values.call("bytes", found)


def _start(
    bundle: Bundle, native: NativeProgram, window: Window, bases: Sequence[str], values: SizeValues
) -> str:
    """Return where *window* begins: in its activation, or in its block.

    What the program is bound to, begins at *bases* in its blocks.
    """
    offset = values.of(window.offset_bytes)
    if window.space == "activation":
        return offset
    own = str(bundle.constants.offset_of(native.memory.constants))
    base = own if window.space == "constants" else bases[window.number]
    return values.call("plus", base, offset)


def _holds(guard: Guard, values: SizeValues) -> str:
    """Return whether *guard* holds."""
    relation = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}
    sides = values.of(guard.left), values.of(guard.right)
    return values.line(f"icmp {relation[guard.relation]} i64 {sides[0]}, {sides[1]}")


def _placed(bundle: Bundle, values: SizeValues, area: Area, count: int, order: str) -> str:
    """Place the activations; return the bytes that they take."""
    lengths = values.line(f"getelementptr i64, ptr %area, i64 {area.lengths}")
    offsets = values.line(f"getelementptr i64, ptr %area, i64 {area.offsets}")
    end = values.line(
        f"call i64 @{bundle.name}.place(ptr @{order}, i64 {count}, ptr {lengths}, ptr {offsets})"
    )
    values.lines += [
        f"  %is_placed = icmp sge i64 {end}, 0",
        "  br i1 %is_placed, label %placed, label %large",
        "placed:",
    ]
    return end


def _total(bundle: Bundle, values: SizeValues, end: str, scratch: str) -> str:
    """Return the bytes of the arena, with scratch for all threads; a block has some bytes."""
    all_scratch = values.line(f"mul i64 {scratch}, {bundle.threads}")
    total = values.line(f"add i64 {end}, {all_scratch}")
    values.lines += [
        f"  %is_possible = icmp ule i64 {total}, {LARGEST_RUN_BYTES}",
        "  br i1 %is_possible, label %possible, label %large",
        "possible:",
    ]
    is_none = values.line(f"icmp eq i64 {total}, 0")
    return values.line(f"select i1 {is_none}, i64 {ALIGNMENT}, i64 {total}")


def _activation(values: SizeValues, area: Area, number: int) -> str:
    """Return where an activation was placed."""
    place = values.line(f"getelementptr i64, ptr %area, i64 {area.offsets + number}")
    return values.line(f"load i64, ptr {place}")
