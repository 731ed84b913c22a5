"""What all pictures have in common: colours, frames, and text in the same unit.

Colours are those of Paul Tol's scheme *bright*, which readers who cannot tell red from green tell
apart, too. In one picture a colour has one meaning, and a legend names it. An engine has the same
colour in all pictures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import matplotlib
import matplotlib.colors
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, NullFormatter

BLUE, RED, GREEN, PURPLE = "#4477aa", "#ee6677", "#228833", "#aa3377"
YELLOW, CYAN = "#ccbb44", "#66ccee"
PALETTE = (BLUE, RED, GREEN, YELLOW, PURPLE, CYAN)
"""Colours of kinds, in the order of their weight in the picture; the rest are grey."""

REST = "#9a9a9a"
BACKGROUND, INK, FAINT = "#f6f5f2", "#26292e", "#8a8d92"
SUBTITLE = "#55585e"

ENGINES = {
    "glow_nb": BLUE,
    "onnxruntime": "#c9ccd1",
    "openvino": "#8a8d92",
    "torch": "#5f6268",
}
"""Engines by the names that ``glow-nb bench`` has for them: ours in blue, the others in greys."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@contextmanager
def own_style() -> Iterator[None]:
    """Draw in the body of the statement: the picture is the same whatever the user's settings are.

    A name may hold dollar signs, which would begin a formula.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "text.color": INK,
                "axes.labelcolor": INK,
                "text.parse_math": False,
                "figure.constrained_layout.h_pad": 0.1,  # inches
                "figure.constrained_layout.w_pad": 0.15,
            }
        )
        yield


def frame(axes: Axes, sides: Iterable[str] = ("left", "bottom"), size: float = 9) -> None:
    """Leave the faint *sides* of the frame, and the background; write ticks in *size* points."""
    axes.set_facecolor(BACKGROUND)
    axes.set_axisbelow(True)
    for name, spine in axes.spines.items():
        spine.set_visible(name in sides)
        spine.set_color(FAINT)
    axes.tick_params(which="both", color=FAINT, labelsize=size)


def plain_numbers(axis: Axis) -> None:
    """Write the numbers of a logarithmic *axis* as they are: ``0.3``, not a power of ten.

    Powers are formulas, which :func:`own_style` turns off. Ticks between the powers have numbers
    where the axis shows no more than a power of ten; its limits must not change any more.
    """
    low, high = sorted(axis.get_view_interval())
    number = FuncFormatter(lambda value, _: f"{value:g}")
    axis.set_major_formatter(number)
    axis.set_minor_formatter(number if high <= 10 * low else NullFormatter())


def towards_white(colour: str, strength: float) -> tuple[float, float, float]:
    """Return *colour* mixed with white; a *strength* of 1 leaves it as it is."""
    red, green, blue = matplotlib.colors.to_rgb(colour)
    return (
        1 - strength * (1 - red),
        1 - strength * (1 - green),
        1 - strength * (1 - blue),
    )


def ink_on(colour: str | tuple[float, float, float]) -> str:
    """Return the colour of text on *colour*, white or dark, whichever has more contrast.

    The relative luminance is ``L = 0.2126 R + 0.7152 G + 0.0722 B`` of linear components, and the
    contrast of two colours ``(L1 + 0.05) / (L2 + 0.05)``, as in the accessibility guidelines WCAG.
    """
    own = _luminance(colour) + 0.05
    return "white" if 1.05 / own > own / (_luminance(INK) + 0.05) else INK


def _luminance(colour: str | tuple[float, float, float]) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in matplotlib.colors.to_rgb(colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


class ByteUnit(NamedTuple):
    """The one unit that a picture has for bytes.

    Attributes:
        name: ``KiB``, ``MiB`` and so on.
        size: Its bytes.
    """

    name: str
    size: int

    def text(self, size_bytes: int) -> str:
        """Return *size_bytes* in this unit, with two decimals: ``1.48 MiB``."""
        return f"{size_bytes / self.size:,.2f} {self.name}"


def byte_unit(sizes: Iterable[float]) -> ByteUnit:
    """Return one unit for all *sizes*: that of the largest."""
    largest, place = max(sizes, default=0.0), 0
    while largest >= 1024 and place < len(_UNITS) - 1:
        largest, place = largest / 1024, place + 1
    return ByteUnit(_UNITS[place], 1024**place)


def time_unit(seconds: float) -> tuple[str, float]:
    """Return the unit that suits a span of *seconds*, and its seconds: ``("ms", 1e-3)``."""
    for name, unit in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= unit:
            return name, unit
    return "µs", 1e-6


def three_digits(number: float) -> str:
    """Return *number* with three significant digits, zeros at the end included: ``10.0``."""
    if number == 0:
        return "0"
    text = f"{number:#.3g}".rstrip(".")
    return f"{number:.0f}" if "e+" in text else text
