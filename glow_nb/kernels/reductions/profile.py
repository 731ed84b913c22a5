"""The kernel that counts the numbers of a tensor (paper 4.2)."""

from __future__ import annotations

import math

from glow_nb.base.types import ElementKind
from glow_nb.fuse.vector_code import number_text
from glow_nb.hlir.histogram import LEAST_WIDTH, MOST_BINS
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.instructions.profile import ProfileInst
from glow_nb.llir.traits import SERIAL

FLOAT32, INT64 = ElementKind.FLOAT32, ElementKind.INT64


@kernel_for(ProfileInst, traits=SERIAL)
def profile_source(instruction: ProfileInst, target: Target) -> KernelSource:
    """Return the kernel ``(counted, limits, input, counts, bounds)``.

    All widths are powers of two, so that nothing is rounded in float64. Of the shape of the input,
    only the number of elements stands in the text, so that inputs of as many elements share a
    kernel.
    """
    size, bins = instruction.input.type.size, instruction.counts.type.size
    nan = number_text(math.nan)
    out = SourceWriter()
    with out.block("def kernel(counted, limits, input, counts, bounds, scratch, thread, threads):"):
        with out.block("if thread == 0:"):
            _write_bounds(out, size)
            with out.block("if not is_finite:"):
                out.line(f"copy(counted, 0, counts, 0, {bins})")
                out.line(f"put(limits, 0, {nan})\nput(limits, 1, {nan})")
            with out.block("else:"):
                out.line(f"clear(counted, 0, {bins})")
                with out.block("if low <= high:"):
                    _write_width(out, "width", "low", "high", bins)
                    out.line(f"first = {_floor('low / width')}")
                    _write_old_counts(out, bins)
                    _write_count(out, size)
                out.line("put(limits, 0, low)\nput(limits, 1, high)")
    kinds = (INT64, FLOAT32, FLOAT32, INT64, FLOAT32)
    return KernelSource("profile", out.text, kinds)


def _write_bounds(out: SourceWriter, size: int) -> None:
    """Write the new bounds, and whether all numbers so far are finite.

    Where ``x`` is not finite, ``x - x`` is NaN, which differs from itself.
    """
    out.line("old_low = get(bounds, 0)\nold_high = get(bounds, 1)")
    out.line("low = old_low\nhigh = old_high")
    out.line("is_finite = old_low > old_high or old_low - old_low == old_high - old_high")
    with out.block(f"for i in range({size}):"):
        out.line("x = get(input, i)")
        out.line("low = x if x < low else low\nhigh = x if x > high else high")
        with out.block("if x - x != x - x:"):
            out.line("is_finite = False")


def _floor(number: str) -> str:
    """Return the text of the greatest whole number that is not above *number*, as an index."""
    return f"reduce_add(convert_int64(floor(splat_float64({number}, 1))))"


def _write_width(out: SourceWriter, width: str, low: str, high: str, bins: int) -> None:
    """Write the smallest width for which the bins reach from *low* to *high*."""
    out.line(f"{width} = {LEAST_WIDTH!r}\nis_wide = False")
    with out.block("while not is_wide:"):
        limit = f"{float(MOST_BINS)!r} * {width}"
        out.line(f"is_wide = {high} < {limit} and {low} > -{limit}")
        with out.block("if is_wide:"):
            last, first = _floor(f"{high} / {width}"), _floor(f"{low} / {width}")
            out.line(f"is_wide = {last} - {first} < {bins}")
        with out.block("if not is_wide:"):
            out.line(f"{width} = {width} * 2.0")


def _write_old_counts(out: SourceWriter, bins: int) -> None:
    """Write where the numbers that are counted already go: several old bins into one."""
    with out.block("if old_low <= old_high:"):
        _write_width(out, "old_width", "old_low", "old_high", bins)
        out.line(f"old_first = {_floor('old_low / old_width')}\nratio = width / old_width")
        with out.block(f"for i in range({bins}):"):
            out.line(f"place = {_floor('(old_first + i) / ratio')} - first")
            out.line(f"place = min(max(place, 0), {bins - 1})")
            out.line("put(counted, place, get(counted, place) + get(counts, i))")


def _write_count(out: SourceWriter, size: int) -> None:
    out.line("inverse = 1.0 / width")
    with out.block(f"for i in range({size}):"):
        out.line(f"place = {_floor('get(input, i) * inverse')} - first")
        out.line("put(counted, place, get(counted, place) + 1)")
