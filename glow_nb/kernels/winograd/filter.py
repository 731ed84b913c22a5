"""Kernels that transform filters for Winograd convolutions, where weights come at run time.

Elements that lie side by side in the lanes, of channels and of the columns of a panel, are
transformed alike. A run of them is transformed into scratch first: to write each result at its
place at once would be as many streams of memory, far apart, as a tile has products.
"""

from __future__ import annotations

from itertools import product
from math import prod

from glow_nb.base.types import Array, ElementKind
from glow_nb.fuse.vector_code import number_text
from glow_nb.kernels.operators.winograd_instructions import WinogradFilterInst
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.loops import write_shares
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import native_lanes
from glow_nb.numerics.cook_toom import short_convolution


@kernel_for(WinogradFilterInst)
def winograd_filter_source(instruction: WinogradFilterInst, target: Target) -> KernelSource:
    """Return the kernel ``(dest, filter)`` of the transform of a packed filter."""
    type = instruction.filter.type
    kind = type.kind
    group, panels, *taps, channels, block = type.shape
    sizes = instruction.dest.type.shape[2:-2]
    matrices = [
        short_convolution(*sizes).filter
        for sizes in zip(instruction.tile, taps, instruction.stride, strict=True)
    ]
    lanes, columns = native_lanes(target, kind), channels * block
    run = min(target.machine.winograd_run_vectors * lanes, -(-columns // lanes) * lanes)
    out = SourceWriter()
    sizes_text = f"{group * panels} x {list(taps)} x {columns}"
    out.line(f"# transform of the filter of {kind.value}<{sizes_text}>")
    with out.block("def kernel(dest, filter, scratch, thread, threads):"):
        if not type.size:
            out.line("return")
            return KernelSource("winograd_filter", out.text, (kind, kind))
        write_shares(out, group * panels, -(-columns // run), panels_first=False)
        out.line(f"made = as_{kind.value}(scratch)")
        with (
            out.block("for panel in range(unit, unit_end):"),
            out.block("for number in range(panel_begin, panel_end):"),
        ):
            out.line(f"begin = number * {run}\ncount = min({run}, {columns} - begin)")
            out.line(f"source = panel * {prod(taps) * columns} + begin")
            with out.block(f"for i in range(0, count, {lanes}):"):
                is_whole = columns % lanes == 0
                load, end = ("load", ")") if is_whole else ("load_masked", ", count - i)")
                values = {
                    tap: f"{load}(filter, source + {number * columns} + i, {lanes}{end}"
                    for number, tap in enumerate(product(*map(range, taps)))
                }
                results = _write_transform(out, values, matrices, kind, lanes)
                for number, place in enumerate(product(*map(range, sizes))):
                    out.line(f"store(made, {number * run} + i, {results[place]})")
            out.line(f"to = panel * {prod(sizes) * columns} + begin")
            with out.block(f"for place in range({prod(sizes)}):"):
                out.line(f"copy(dest, to + place * {columns}, made, place * {run}, count)")
    size = prod(sizes) * run * kind.size_bytes
    return KernelSource("winograd_filter", out.text, (kind, kind), size)


def _write_transform(
    out: SourceWriter,
    values: dict[tuple[int, ...], str],
    matrices: list[Array],
    kind: ElementKind,
    lanes: int,
) -> dict[tuple[int, ...], str]:
    """Write the transform of *values*, by their taps, along each axis; return the names by place.

    The last axis is transformed first, which leaves the fewest values waiting.
    """
    for axis in reversed(range(len(matrices))):
        made: dict[tuple[int, ...], str] = {}
        others = sorted({(*place[:axis], -1, *place[axis + 1 :]) for place in values})
        for other in others:
            taps = []
            for tap in range(matrices[axis].shape[1]):
                name = f"x{axis}_{tap}"
                out.line(f"{name} = {values[(*other[:axis], tap, *other[axis + 1 :])]}")
                taps.append(name)
            for row, factors in enumerate(matrices[axis]):
                place = (*other[:axis], row, *other[axis + 1 :])
                name = "_".join(["u", str(axis), *map(str, place)])
                out.line(f"{name} = {_sum(taps, factors, kind, lanes)}")
                made[place] = name
        values = made
    return values


def _sum(names: list[str], factors: Array, kind: ElementKind, lanes: int) -> str:
    """Return the sum of vectors times numbers, of which some are 0 or 1."""
    text = ""
    for name, factor in zip(names, map(float, factors), strict=True):
        if factor == 0:
            continue
        number = f"splat_{kind.value}({number_text(factor)}, {lanes})"
        if not text:
            text = name if factor == 1 else f"mul({name}, {number})"
        else:
            text = f"add({text}, {name})" if factor == 1 else f"fma({name}, {number}, {text})"
    return text or f"splat_{kind.value}(0, {lanes})"
