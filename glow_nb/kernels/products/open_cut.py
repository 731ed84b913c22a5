"""A line of pixels in balanced tiles where only the run knows how many pixels there are.

The kernel has code for tiles of every height up to the most rows. A line has tiles of two heights
at most, so that loops over the others take no step.
"""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from glow_nb.base.size import Size
from glow_nb.kernels.products.blocking import Cut, TileLoop
from glow_nb.kernels.writing.source import SourceWriter


@dataclass(frozen=True)
class OpenCut:
    """What :class:`~glow_nb.kernels.products.blocking.Cut` is, of *pixels* of an open size.

    The text names ``tiles``, of which the first ``tall`` have ``height`` pixels and the others one
    less. Tiles of 6 pixels are those from ``begin6`` to ``end6``.

    Attributes:
        pixels: Pixels of a line.
        rows: The most pixels of a tile.
        fewest: A line has at least this number of pixels.
    """

    pixels: int
    rows: int
    fewest: int = 0

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return (self.pixels + (self.rows - 1)) // self.rows

    @property
    def loops(self) -> tuple[TileLoop, ...]:
        """The loops over tiles of equal rows, of which some take no step."""
        return tuple(
            TileLoop(
                n,
                f"begin{n}",
                f"end{n}",
                f"range(max(first, begin{n}), min(first + count, end{n}))",
                f"begin{n}",  # the tiles before, if there are any, have a pixel more
            )
            for n in self.heights
        )

    @property
    def heights(self) -> range:
        """The heights that tiles may have, the largest first."""
        # the lowest of several tiles are those of two, which have one pixel more than a tile
        lowest = min(max(1, self.fewest), (self.rows + 1) // 2)
        return range(self.rows, lowest - 1, -1)

    def write(self, out: SourceWriter) -> None:
        """Write the heights of the tiles, and which tiles have which, for :attr:`loops`."""
        self.write_heights(out)
        for n in self.heights:
            out.line(f"begin{n} = tall if height == {n + 1} else 0")
            out.line(f"end{n} = tall if height == {n} else tiles if height == {n + 1} else 0")

    def write_heights(self, out: SourceWriter) -> None:
        """Write the heights of the tiles."""
        out.line(f"tiles = {self.tiles}")
        out.line(f"height = ({self.pixels} + tiles - 1) // max(1, tiles)")
        out.line(f"tall = {self.pixels} - tiles * (height - 1)")

    def start(self, tile: str) -> str:
        """Return an expression for the first pixel of tile number *tile*."""
        return f"{tile} * (height - 1) + min({tile}, tall)"


class OpenTile(OpenCut):
    """A line of so few pixels, of an open size, that one tile has them all."""

    @property
    @override
    def tiles(self) -> int:
        return 1


AnyCut = Cut | OpenCut


def cut_line(pixels: int, limit: int, fewest: int = 0) -> AnyCut:
    """Cut *pixels*, or one if there is none, into as few tiles of at most *limit* as possible.

    There are surely at least so many as *fewest* says.
    """
    if isinstance(pixels, Size):
        return OpenCut(pixels, limit, max(fewest, pixels.bounds[0]))
    return Cut.balanced(max(1, pixels), limit)
