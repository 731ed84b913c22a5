"""The kernels of a network under the machine's limits: the roofline picture.

To the right goes the intensity, executed operations for each byte that must move; upwards the rate
of executed operations; both logarithmic. The slanted roofs are what each memory level delivers, the
flat ones are the peaks of arithmetic: of multiply-adds, and of the other instructions that kernels
in the picture multiply with. Each dot is a kernel: its colour says of which family, its area
the share of the time. A dot on the roof cannot be faster. A label is the name of the layer: the
first of the model's nodes that the kernel computes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from glow_nb.base.errors import OptionError
from glow_nb.base.machine_limits import MachineLimits
from glow_nb.base.quantities import count_of
from glow_nb.base.text import format_name
from glow_nb.network.pictures.labels import Dot, write_labels
from glow_nb.network.pictures.style import (
    BACKGROUND,
    INK,
    PALETTE,
    REST,
    SUBTITLE,
    frame,
    own_style,
    plain_numbers,
)
from glow_nb.network.profile import KernelTime, Profile
from glow_nb.system.replaced_files import replace_file

GIGA = 1e9
LARGEST_DOT = 150.0
"""Area of the dot of the kernel that takes most of the time, in square points."""

SMALLEST_DOT = 14.0
LONGEST_LABEL = 28
HALO = [withStroke(linewidth=2.5, foreground=BACKGROUND)]
"""Around a text, so that no line behind it shows through."""

MOST_LABELS = 20
"""Dots that have a label: those that take most of the time."""

MULTIPLY_ADDS = "fused multiply-adds"
SMALLEST_SHARE = 0.001
"""A kernel that takes less of the time is not drawn."""


def draw_roofline(profile: Profile, path: Path, title: str = "") -> None:
    """Draw the kernels of *profile* to the PNG file *path*.

    Raises:
        OptionError: The profile has no limits to draw, or no kernel with arithmetic.
        GlowError: The file cannot be written.
    """
    if profile.limits is None:
        raise OptionError("roofline: the profile was made without the machine's limits")
    kernels = drawn_kernels(profile)
    if not kernels:
        raise OptionError("roofline: no kernel of the network computes anything")
    figure = _make_figure(profile, profile.limits, kernels, title)
    replace_file(path, lambda place: figure.savefig(place, format="png", dpi=160))


def drawn_kernels(profile: Profile) -> list[KernelTime]:
    """Return the kernels that have a place in the picture, those with the largest share first."""
    drawn = [k for k in profile.kernels if k.cost.executed.flops and k.cost.bytes and k.min_seconds]
    notable = [kernel for kernel in drawn if kernel.share >= SMALLEST_SHARE]
    return sorted(notable, key=lambda kernel: -kernel.share)


def _make_figure(
    profile: Profile, limits: MachineLimits, kernels: Sequence[KernelTime], title: str
) -> Figure:
    with own_style():
        figure = Figure(figsize=(12, 8))
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        figure.subplots_adjust(left=0.075, right=0.975, top=0.875, bottom=0.085)
        colours = _colours(kernels)
        _set_scales(axes, limits, kernels)
        roofs = _draw_roofs(axes, limits, peaks_of(limits, kernels), raised_names(profile))
        for kernel in kernels:
            axes.scatter(
                kernel.cost.intensity,
                kernel.executed_flop_rate / GIGA,
                s=_area(kernel, kernels),
                color=colours[kernel.report.family],
                edgecolor="white",
                linewidth=0.6,
                alpha=0.9,
                zorder=3,
            )
        _draw_legend(axes, kernels, colours)
        _write_title(figure, profile, kernels, title or f"Roofline of {profile.network}")
        _write_labels(axes, kernels, roofs)
    return figure


def peaks_of(limits: MachineLimits, kernels: Sequence[KernelTime]) -> dict[str, float]:
    """Return the peaks that *kernels* are compared with, in operations a second, by their names."""
    used = {kernel.peak for kernel in kernels}
    others = {r.instruction: r.operation_rate for r in limits.dots if r.instruction in used}
    return {MULTIPLY_ADDS: limits.flop_rate, **others}


def raised_names(profile: Profile) -> set[str]:
    """Return the names of the peaks that a kernel of *profile* exceeded, and so raised."""
    rates = () if profile.limits is None else profile.limits.dots
    others = {rate.instruction for rate in rates if rate.dot in profile.raised}
    return {MULTIPLY_ADDS, *others} if "" in profile.raised else others


def _colours(kernels: Sequence[KernelTime]) -> dict[str, str]:
    """Return the colour of each family, the palette going to those that take most time."""
    shares: dict[str, float] = {}
    for kernel in kernels:
        shares[kernel.report.family] = shares.get(kernel.report.family, 0.0) + kernel.share
    ranked = sorted(shares, key=lambda family: (-shares[family], family))
    return {family: PALETTE[i] if i < len(PALETTE) else REST for i, family in enumerate(ranked)}


def _set_scales(axes: Axes, limits: MachineLimits, kernels: Sequence[KernelTime]) -> None:
    intensities = [kernel.cost.intensity for kernel in kernels]
    rates = [kernel.executed_flop_rate for kernel in kernels]
    peak = max(peaks_of(limits, kernels).values())
    ridge = peak / limits.levels[-1].read_rate
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(min(0.5, min(intensities) / 2), max(4 * ridge, max(intensities) * 2))
    axes.set_ylim(min(rates) / GIGA / 2.5, max(peak, *rates) / GIGA * 1.6)
    frame(axes)
    axes.set_xlabel("intensity: executed operations for each byte that must move, FLOP/B")
    axes.set_ylabel("executed operations, GFLOP/s")
    axes.grid(which="major", color="white", linewidth=1.2)
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)


def _draw_roofs(
    axes: Axes, limits: MachineLimits, peaks: Mapping[str, float], raised: Collection[str]
) -> list[Any]:
    """Draw the limits; return their texts, which labels of dots must not cover."""
    peak = max(peaks.values()) / GIGA
    left, right = axes.get_xlim()
    bottom = axes.get_ylim()[0]
    texts: list[Any] = []
    for index, level in enumerate(limits.levels):
        rate = level.read_rate / GIGA
        xs = np.array([left, min(peak / rate, right)])
        is_last = index == len(limits.levels) - 1
        axes.plot(
            xs,
            xs * rate,
            color=INK,
            linewidth=1.6 if is_last else 0.9,
            linestyle="-" if is_last else (0, (5, 3)),
            zorder=2,
        )
        start, end = max(left, bottom / rate), min(peak / rate, right)
        if start < end:
            text = f"{level.name}: reads {rate:.0f} GB/s"
            texts.append(_roof_text(axes, text, (start * end) ** 0.5, rate, below=is_last))
    nearest = limits.levels[0].read_rate / GIGA
    for name, rate in peaks.items():
        unit = "GFLOP/s" if name == MULTIPLY_ADDS else "Gop/s"
        text = f"peak of {name}{', raised' * (name in raised)}: {rate / GIGA:.1f} {unit}"
        texts.append(_draw_peak(axes, text, rate / GIGA, nearest))
    return texts


def _draw_peak(axes: Axes, text: str, peak: float, read_rate: float) -> Any:
    """Draw the flat roof of one *peak*, called *text*; it begins at that of the nearest memory."""
    right = axes.get_xlim()[1]
    axes.plot([peak / read_rate, right], [peak, peak], color=INK, linewidth=1.6, zorder=2)
    return axes.annotate(
        text,
        (right, peak),
        xytext=(-4, 5),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=9,
        fontweight="bold",
    )


def _roof_text(axes: Axes, text: str, x: float, rate: float, *, below: bool) -> Any:
    """Write *text* along the slanted roof of *rate*, around the intensity *x*.

    That of the slowest memory is *below*: the roof of the next one may be close above it.
    """
    low, high = axes.transData.transform([(x, x * rate), (2 * x, 2 * x * rate)])
    angle = float(np.degrees(np.arctan2(high[1] - low[1], high[0] - low[0])))
    return axes.annotate(
        text,
        (x, x * rate),
        xytext=(3, -3) if below else (-3, 3),
        textcoords="offset points",
        rotation=angle,
        rotation_mode="anchor",
        path_effects=HALO,
        ha="center",
        va="top" if below else "bottom",
        fontsize=8.5,
    )


def _draw_legend(axes: Axes, kernels: Sequence[KernelTime], colours: dict[str, str]) -> None:
    shares: dict[str, float] = {}
    for kernel in kernels:
        shares[kernel.report.family] = shares.get(kernel.report.family, 0.0) + kernel.share
    counts = {f: sum(k.report.family == f for k in kernels) for f in shares}
    handles = [
        Line2D(
            [],
            [],
            marker="o",
            linestyle="",
            color=colours[family],
            markersize=8,
            label=f"{family.replace('_', ' ')}: {count_of(counts[family], 'kernel')}, "
            f"{100 * shares[family]:.1f} % of the time",
        )
        for family in colours
    ]
    legend = axes.legend(
        handles=handles,
        loc="lower right",
        fontsize=9,
        frameon=True,
        facecolor="white",
        edgecolor="none",
        framealpha=0.9,
    )
    legend.set_zorder(1)


def _write_title(
    figure: Figure, profile: Profile, kernels: Sequence[KernelTime], title: str
) -> None:
    bound = sum(kernel.bound_seconds for kernel in profile.kernels)
    taken = sum(kernel.min_seconds for kernel in profile.kernels) or 1.0
    left_out = len(profile.kernels) - len(kernels)
    drawn = f"{len(kernels)} of {count_of(len(profile.kernels), 'kernel')}"
    if left_out:
        rest = f"without arithmetic or below {100 * SMALLEST_SHARE:g} % of the time"
        drawn = f"{drawn} ({left_out} {'is' if left_out == 1 else 'are'} {rest})"
    threads = count_of(profile.threads, "thread")
    lines = (
        f"{drawn}, {threads}; the area of a dot is the share of the time",
        f"At their limits, all kernels together would take {100 * bound / taken:.0f} % of the time",
    )
    figure.text(0.075, 0.96, title, fontsize=16, fontweight="bold", va="center")
    for place, line in enumerate(lines):
        figure.text(0.075, 0.925 - 0.025 * place, line, fontsize=10, color=SUBTITLE, va="center")


def _write_labels(axes: Axes, kernels: Sequence[KernelTime], roofs: Sequence[Any]) -> None:
    """Label the kernels that take most time with the names of their layers."""
    canvas: Any = axes.figure.canvas
    renderer = canvas.get_renderer()
    texts = [*roofs, *filter(None, [axes.get_legend()])]
    dots = [
        Dot(
            kernel.cost.intensity,
            kernel.executed_flop_rate / GIGA,
            (_area(kernel, kernels) / np.pi) ** 0.5,
            _short(_layer(kernel)),
        )
        for kernel in kernels
    ]
    taken = [text.get_window_extent(renderer) for text in texts]
    roof_lines = [line.get_path().transformed(line.get_transform()) for line in axes.lines]
    write_labels(axes, dots, taken, MOST_LABELS, roof_lines, fontsize=7.5, path_effects=HALO)


def _area(kernel: KernelTime, kernels: Sequence[KernelTime]) -> float:
    """Return the area of the dot of *kernel* among *kernels*, in square points."""
    return max(SMALLEST_DOT, LARGEST_DOT * kernel.share / kernels[0].share)


def _layer(kernel: KernelTime) -> str:
    """Return the first of the model's nodes that *kernel* computes."""
    names = kernel.report.origins or (kernel.report.origin,)
    return format_name(names[0] or kernel.report.family)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"
