"""A graph as a picture: a box for each node and constant, in layers from top to bottom.

The picture needs matplotlib alone. Edges carry the shapes of the activations; those that never get
into memory, because one kernel makes and reads them, are dashed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, PathPatch, Rectangle
from matplotlib.path import Path as Curve
from matplotlib.textpath import TextPath

from glow_nb.base.literals import format_literal
from glow_nb.base.schema import attributes_of, operand_specs
from glow_nb.base.text import format_name
from glow_nb.hlir.graph import Constant, Function, Node, Placeholder, Value, producer_of
from glow_nb.hlir.save import Save, is_update
from glow_nb.network.pictures.memory_map import BACKGROUND, FAINT, INK, PALETTE
from glow_nb.system.replaced_files import replace_file
from glow_nb.tools.plots.layered import Layout, Point, lay_out

TITLE_SIZE, LINE_SIZE, LABEL_SIZE = 10.0, 8.0, 7.5
LINE_HEIGHT, TITLE_HEIGHT = 11.5, 19.0
PADDING = 9.0
MARGIN = 26.0
HEADLINE = 56.0
CONSTANT = "#e9e7e1"
ENDPOINT = "#4d4f54"

Describe = Callable[[Node], Sequence[str]]
"""What is written below the opcode of a node."""


@dataclass(frozen=True)
class Box:
    """One box: a title and lines of text, on a colour; constants have no bar of colour."""

    title: str
    lines: tuple[str, ...]
    colour: str
    is_constant: bool = False

    @property
    def size(self) -> Point:
        """Width and height in points."""
        texts = [(self.title, TITLE_SIZE, "bold"), *((t, LINE_SIZE, "normal") for t in self.lines)]
        width = max(_width(*text) for text in texts) + 2 * PADDING
        below = LINE_HEIGHT * len(self.lines) + (6.0 if self.lines else 0.0)
        return width, TITLE_HEIGHT + below


@dataclass
class Drawing:
    """Boxes and the edges between them.

    Attributes:
        boxes: By key; each after those that it has edges from.
        edges: Pairs of keys, with what is written beside the edge.
        dashed: The edges that are drawn so.
    """

    boxes: dict[Any, Box] = field(default_factory=dict)
    edges: dict[tuple[Any, Any], str] = field(default_factory=dict)
    dashed: set[tuple[Any, Any]] = field(default_factory=set)


def attribute_lines(node: Node) -> list[str]:
    """Return every attribute of *node*, a line for each."""
    return [f"{key} = {format_literal(value)}" for key, value in attributes_of(node).items()]


def drawing_of(
    function: Function,
    *,
    describe: Describe = attribute_lines,
    describe_constant: Callable[[Node, str, Constant], Sequence[str]] | None = None,
    in_registers: Collection[str] = (),
) -> Drawing:
    """Return the boxes and edges of *function*.

    Args:
        function: The graph; not of thousands of nodes.
        describe: Gives the lines below a node's opcode.
        describe_constant: Gives those below a constant, for the node that reads it and the name of
            its operand; by default its shape.
        in_registers: Names of nodes whose result never gets into memory.
    """
    colours = _colours(function)
    drawing = Drawing()
    for placeholder in (*function.inputs, *function.state):
        drawing.boxes[placeholder] = Box(_words(placeholder.name), (_shape(placeholder),), ENDPOINT)
    for node in function.nodes:
        if isinstance(node, Save):
            below = ("for the next run",) if is_update(node) else ()
            drawing.boxes[node] = Box(_words(node.output.name), below, ENDPOINT)
            _connect(drawing, node.input, node, in_registers)
            continue
        reads: list[Value] = []
        for name, value in _operands(node):
            if isinstance(value, Constant):
                lines = describe_constant(node, name, value) if describe_constant else ()
                key = (node, name, value)
                shown = tuple(lines) or (_shape(value),)
                drawing.boxes[key] = Box(name, shown, CONSTANT, is_constant=True)
                drawing.edges[key, node] = ""
            else:
                reads.append(value)
        drawing.boxes[node] = Box(_words(node.opcode), tuple(describe(node)), colours[node.opcode])
        for value in reads:
            _connect(drawing, value, node, in_registers)
    return drawing


def _connect(drawing: Drawing, value: Value, target: Value, in_registers: Collection[str]) -> None:
    edge = (producer_of(value) or value, target)
    drawing.edges[edge] = "" if isinstance(value, Placeholder) else _shape(value)
    if edge[0].name in in_registers:
        drawing.dashed.add(edge)


def _operands(node: Node) -> Iterable[tuple[str, Value]]:
    for spec in operand_specs(type(node)):
        operand = getattr(node, spec.name)
        for value in operand if spec.is_variadic else (operand,):
            if value is not None:
                yield spec.name, value


def _shape(value: Value) -> str:
    return " × ".join(map(str, value.type.shape)) or "one number"


def _words(name: str) -> str:
    return format_name(name).replace("_", " ")


def _colours(function: Function) -> dict[str, str]:
    """Return a colour for each opcode, in order of appearance."""
    opcodes = dict.fromkeys(node.opcode for node in function.nodes)
    return {opcode: PALETTE[number % len(PALETTE)] for number, opcode in enumerate(opcodes)}


def draw(drawing: Drawing, path: Path, *, title: str, subtitle: str = "", note: str = "") -> None:
    """Draw to the PNG file *path*; *note* is written below.

    Raises:
        GlowError: The file cannot be written.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # the picture is the same whatever the user's own settings are
        matplotlib.rcParams["text.parse_math"] = False  # a name may hold dollar signs
        figure = _make_figure(drawing, title, subtitle, note)
        replace_file(path, lambda place: figure.savefig(place, format="png", dpi=160))


def _make_figure(drawing: Drawing, title: str, subtitle: str, note: str) -> Figure:
    sizes = {key: box.size for key, box in drawing.boxes.items()}
    layout = lay_out(sizes, list(drawing.edges))
    least = max(_width(title, 15.0, "bold"), _width(subtitle, 9.0, "normal"))
    least = max(least, _width(note, 8.0, "normal"))
    width = max(layout.width, least) + 2 * MARGIN
    height = layout.height + HEADLINE + 2 * MARGIN + (20.0 if note else 0.0)
    figure = Figure(figsize=(width / 72, height / 72), facecolor=BACKGROUND)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    left = -(width - layout.width) / 2
    axes.set_xlim(left, left + width)
    axes.set_ylim(height - MARGIN - HEADLINE, -MARGIN - HEADLINE)
    inner = left + MARGIN
    axes.text(inner, -HEADLINE + 6, title, fontsize=15, fontweight="bold", color=INK)
    axes.text(inner, -HEADLINE + 24, subtitle, fontsize=9, color="#55585e")
    if note:
        axes.text(inner, layout.height + 26, note, fontsize=8, color=FAINT)
    for edge in drawing.edges:
        _draw_edge(axes, drawing, layout, sizes, edge)
    for key, box in drawing.boxes.items():
        _draw_box(axes, box, layout.centres[key], sizes[key])
    return figure


def _draw_box(axes: Any, box: Box, centre: Point, size: Point) -> None:
    x, y = centre[0] - size[0] / 2, centre[1] - size[1] / 2
    face = CONSTANT if box.is_constant else "white"
    outline = FancyBboxPatch(
        (x, y),
        *size,
        boxstyle="round,pad=0,rounding_size=3",
        facecolor=face,
        edgecolor="#b9b6ad" if box.is_constant else box.colour,
        linewidth=0.8,
        zorder=3,
    )
    axes.add_patch(outline)
    if not box.is_constant:
        bar = Rectangle((x, y), size[0], TITLE_HEIGHT, color=box.colour, linewidth=0, zorder=4)
        axes.add_patch(bar)
        bar.set_clip_path(outline)
    axes.text(
        centre[0],
        y + TITLE_HEIGHT / 2 + 0.5,
        box.title,
        fontsize=TITLE_SIZE if not box.is_constant else LINE_SIZE + 0.5,
        fontweight="bold",
        color=INK if box.is_constant else "white",
        ha="center",
        va="center",
        zorder=5,
    )
    for number, line in enumerate(box.lines):
        place = y + TITLE_HEIGHT + LINE_HEIGHT * (number + 0.5) + (1.0 if box.is_constant else 4.0)
        style = {"fontsize": LINE_SIZE, "color": INK, "ha": "center", "va": "center"}
        axes.text(centre[0], place, line, zorder=5, **style)


def _draw_edge(
    axes: Any,
    drawing: Drawing,
    layout: Layout,
    sizes: dict[Any, Point],
    edge: tuple[Any, Any],
) -> None:
    """Draw *edge* from the bottom of its source through its bends to the top of its target."""
    source, target = edge
    (x, y), (to_x, to_y) = layout.centres[source], layout.centres[target]
    begin = (x, y + sizes[source][1] / 2)
    end = (to_x + _port(drawing, layout, sizes, edge), to_y - sizes[target][1] / 2)
    is_dashed = edge in drawing.dashed
    is_constant = drawing.boxes[source].is_constant
    colour = "#b9b6ad" if is_constant else ("#8d9096" if is_dashed else INK)
    curve = _curve([begin, *layout.bends[edge], (end[0], end[1] - 4)])
    line = {"linestyle": (0, (3, 2)) if is_dashed else "solid", "linewidth": 1.1}
    axes.add_patch(PathPatch(curve, facecolor="none", edgecolor=colour, zorder=1, **line))
    arrow = FancyArrowPatch(
        (end[0], end[1] - 5),
        (end[0], end[1] + 1),
        arrowstyle="-|>",
        mutation_scale=8,
        color=colour,
        linewidth=0,
        zorder=2,
    )
    axes.add_patch(arrow)
    others = [key for key in drawing.edges if key[0] is source]
    if others[0] == edge:  # what several read is written once
        goes_right = (layout.bends[edge] or [end])[0][0] > x + 6
        axes.text(
            x - 6 if goes_right else x + 6,
            begin[1] + 10,
            drawing.edges[edge],
            fontsize=LABEL_SIZE,
            color=colour,
            ha="right" if goes_right else "left",
            bbox={"facecolor": BACKGROUND, "edgecolor": "none", "pad": 0.8},
            zorder=2,
        )


def _port(
    drawing: Drawing, layout: Layout, sizes: dict[Any, Point], edge: tuple[Any, Any]
) -> float:
    """Return how far from the middle of its target *edge* arrives: arrows do not share a place."""
    source, target = edge

    def comes_from(key: tuple[Any, Any]) -> float:
        return (layout.bends[key] or [layout.centres[key[0]]])[-1][0]

    arriving = sorted((key for key in drawing.edges if key[1] is target), key=comes_from)
    step = min(26.0, sizes[target][0] * 0.8 / max(len(arriving), 1))
    return (arriving.index((source, target)) - (len(arriving) - 1) / 2) * step


def _curve(points: Sequence[Point]) -> Curve:
    """Return a smooth line through *points* that leaves and arrives upright."""
    vertices: list[Point] = [points[0]]
    codes = [Curve.MOVETO]
    for (x, y), (to_x, to_y) in pairwise(points):
        middle = (y + to_y) / 2
        vertices += [(x, middle), (to_x, middle), (to_x, to_y)]
        codes += [Curve.CURVE4] * 3
    return Curve(vertices, codes)


def _width(text: str, size: float, weight: str) -> float:
    if not text:
        return 0.0
    shape = TextPath((0, 0), text, size=size, prop=FontProperties(weight=weight))
    return float(shape.get_extents().width)
