"""The arena of a program as a picture: time to the right, addresses upwards.

Every activation is a rectangle: as wide as the instructions it lives through, as high as the bytes
it takes. Its colour says which instruction wrote it. Above it, the sum of live bytes over time;
its peak is the lower bound that no placement can beat, the line in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from glow_nb.base.errors import OptionError
from glow_nb.llir.in_place import tenancies
from glow_nb.llir.lives import Life, arena_of, lives_of
from glow_nb.llir.program import Arena, Program
from glow_nb.network.pictures.style import (
    INK,
    PALETTE,
    REST,
    SUBTITLE,
    ByteUnit,
    byte_unit,
    frame,
    ink_on,
    own_style,
    towards_white,
)
from glow_nb.system.replaced_files import replace_file

EXPLANATION = (
    "Each rectangle is an activation: as wide as the instructions it lives through, as high as its "
    "bytes, coloured by the instruction that writes it (the stronger, the larger). The legend "
    "counts them."
)
LABEL_SIZES = (9.0, 8.0, 7.0, 6.0)
MOST_RULED = 40
"""With more activations than this, rectangles get thinner outlines."""

ROW_OF_LEGEND = 130
"""Letters that fit into one row of the legend."""


def draw_memory_map(program: Program, path: Path, title: str = "") -> None:
    """Draw the arena of an allocated *program* to the PNG file *path*.

    Raises:
        OptionError: The program is not allocated, or uses no arena.
        GlowError: The file cannot be written.
    """
    arena = arena_of(program)
    lives = lives_of(program)
    if not lives:
        raise OptionError(f"{program!r}: it has no activations in memory; there is nothing to draw")
    figure = _make_figure(program, arena, lives, title)
    replace_file(path, lambda place: figure.savefig(place, format="png", dpi=160))


def _make_figure(program: Program, arena: Arena, lives: list[Life], title: str) -> Figure:
    with own_style():
        figure = Figure(figsize=(15, 9))
        FigureCanvasAgg(figure)
        live_axes, map_axes = figure.subplots(
            2, 1, sharex=True, height_ratios=(1, 5), gridspec_kw={"hspace": 0.06}
        )
        figure.subplots_adjust(left=0.055, right=0.985, top=0.88, bottom=0.115)
        steps = len(program.work)
        unit = byte_unit([arena.size_bytes, arena.lower_bound_bytes])
        colours = _colours(lives)
        _draw_map(map_axes, arena, lives, steps, colours, unit)
        _draw_live_bytes(live_axes, arena, lives, steps, unit)
        _write_title(figure, program, arena, title or f"Memory map of {program.name}", unit)
        _draw_legend(figure, lives, colours)
        _label(figure, map_axes, lives, colours, unit)
    return figure


def _colours(lives: Sequence[Life]) -> dict[str, str]:
    """Return the colour of each kind, the palette going to those that write most bytes."""
    written: dict[str, int] = {}
    for life in lives:
        written[life.kind] = written.get(life.kind, 0) + life.size_bytes
    ranked = sorted(written, key=lambda kind: (-written[kind], kind))
    return {kind: PALETTE[i] if i < len(PALETTE) else REST for i, kind in enumerate(ranked)}


def _draw_map(
    axes: Axes,
    arena: Arena,
    lives: Sequence[Life],
    steps: int,
    colours: dict[str, str],
    unit: ByteUnit,
) -> None:
    largest = max(life.size_bytes for life in lives)
    for life in lives:
        axes.add_patch(
            Rectangle(
                (life.begin, life.offset / unit.size),
                life.end - life.begin,
                life.size_bytes / unit.size,
                facecolor=_shade(life, colours, largest),
                edgecolor="white",
                linewidth=0.8 if len(lives) <= MOST_RULED else 0.5,
            )
        )
    top = max(arena.size_bytes, arena.lower_bound_bytes) / unit.size
    axes.set_xlim(0, steps)
    axes.set_ylim(0, top * 1.035)
    _draw_bound(axes, arena, unit)
    axes.set_xlabel("instruction")
    axes.set_ylabel(f"address, {unit.name}")
    frame(axes, size=8)


def _shade(life: Life, colours: dict[str, str], largest: int) -> tuple[float, float, float]:
    """Return the colour of a rectangle: stronger, the nearer its bytes are to the *largest*."""
    return towards_white(colours[life.kind], 0.55 + 0.45 * (life.size_bytes / largest) ** 0.5)


def _draw_bound(axes: Axes, arena: Arena, unit: ByteUnit) -> None:
    bound = arena.lower_bound_bytes / unit.size
    axes.axhline(bound, color=INK, linewidth=1.2, linestyle=(0, (6, 3)))


def _draw_live_bytes(
    axes: Axes, arena: Arena, lives: Sequence[Life], steps: int, unit: ByteUnit
) -> None:
    live = [0] * steps
    for life in lives:
        for step in range(life.begin, min(life.end, steps)):
            live[step] += life.size_bytes
    heights = [size / unit.size for size in live]
    axes.stairs(heights, range(steps + 1), fill=True, color="#c9ccd1")
    axes.stairs(heights, range(steps + 1), color="#6a6e75", linewidth=0.9)
    axes.set_ylim(0, arena.lower_bound_bytes / unit.size * 1.18)
    _draw_bound(axes, arena, unit)
    axes.annotate(
        f"lower bound {unit.text(arena.lower_bound_bytes)}",
        (steps, arena.lower_bound_bytes / unit.size),
        xytext=(-4, -3),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=8,
    )
    axes.set_ylabel(f"live, {unit.name}")
    axes.tick_params(labelbottom=False)
    frame(axes, size=8)


def _write_title(
    figure: Figure, program: Program, arena: Arena, title: str, unit: ByteUnit
) -> None:
    """Write what the picture shows, in the words of ``net.memory`` and ``glow-nb info``."""
    unshared = sum(value.size_bytes for value in tenancies(program))
    size, bound = arena.size_bytes, arena.lower_bound_bytes
    figure.text(0.055, 0.965, title, fontsize=16, fontweight="bold", va="center")
    figure.text(0.055, 0.901, EXPLANATION, fontsize=8.5, color=SUBTITLE, va="center")
    figure.text(
        0.055,
        0.93,
        f"arena {unit.text(size)}, {size / bound:.3f} of its lower bound; unshared "
        f"{unit.text(unshared)}, if no memory were used twice",
        fontsize=10,
        color=SUBTITLE,
        va="center",
    )


def _draw_legend(figure: Figure, lives: Sequence[Life], colours: dict[str, str]) -> None:
    counts: dict[str, int] = {}
    for life in lives:
        named = life.kind if colours[life.kind] != REST else "other"
        counts[named] = counts.get(named, 0) + 1
    patches = [
        Patch(facecolor=colours.get(kind, REST), label=f"{kind.replace('_', ' ')}: {counts[kind]}")
        for kind in [*(kind for kind in colours if kind in counts), *({"other"} & counts.keys())]
    ]
    letters = sum(len(str(patch.get_label())) for patch in patches)
    figure.legend(
        handles=patches,
        loc="lower left",
        ncols=-(-len(patches) // (1 if letters < ROW_OF_LEGEND else 2)),
        frameon=False,
        handlelength=1.1,
        handleheight=1.1,
        columnspacing=1.6,
        bbox_to_anchor=(0.047, 0.005),
    )


def _label(
    figure: Figure,
    axes: Axes,
    lives: Sequence[Life],
    colours: dict[str, str],
    unit: ByteUnit,
) -> None:
    """Write into each rectangle the largest of its labels that fits, lying or upright."""
    canvas: Any = figure.canvas
    renderer = canvas.get_renderer()
    largest = max(life.size_bytes for life in lives)
    for life in lives:
        low = axes.transData.transform((life.begin, life.offset / unit.size))
        high = axes.transData.transform((life.end, (life.offset + life.size_bytes) / unit.size))
        width, height = high - low
        for text, size, rotation in _label_choices(
            life, unit.text(life.size_bytes), width, height, figure.dpi / 72
        ):
            label = axes.text(
                (life.begin + life.end) / 2,
                (life.offset + life.size_bytes / 2) / unit.size,
                text,
                ha="center",
                va="center",
                multialignment="center",
                fontsize=size,
                rotation=rotation,
                color=ink_on(_shade(life, colours, largest)),
            )
            extent = label.get_window_extent(renderer)
            if extent.width <= 0.94 * width and extent.height <= 0.92 * height:
                break
            label.remove()


def _label_choices(
    life: Life, size: str, width: float, height: float, pixels_per_point: float
) -> Iterator[tuple[str, float, int]]:
    """Yield text, size and rotation, the most wanted first, leaving out what is surely too big."""
    for lines in ((life.name, life.shape, size), (life.name, size), (life.name,), (size,)):
        for font_size in LABEL_SIZES:
            along = max(map(len, lines)) * 0.4 * font_size * pixels_per_point
            across = len(lines) * font_size * pixels_per_point
            for rotation in (0, 90):
                room = (width, height) if rotation == 0 else (height, width)
                if along <= room[0] and across <= room[1]:
                    yield "\n".join(lines), font_size, rotation
