"""Where the products of a bilinear algorithm find the weights of a panel.

They come transformed, and are read as they lie: panel after panel, and in it the matrices of one
element of a tile after the other. :mod:`glow_nb.kernels.winograd.weights` has those of integers,
which the kernel transforms.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from glow_nb.kernels.bilinear.plan import BilinearNest, BilinearPlan, Scratch
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.source import SourceWriter


class ReadWeights:
    """Weights that are read where they lie.

    Attributes:
        nest: The loops that multiply the weights.
        plan: The sizes of blocks.
        scratch: Where loops keep intermediate results.
        pointer: Name of the pointer to those that are multiplied.
        plane: Elements from the weights of one element of a tile to those of the next.
        planes: Elements of a tile whose weights lie there, of each plane of the input.
        row: Weights of a panel that lie side by side.
    """

    def __init__(
        self, nest: BilinearNest, plan: BilinearPlan, scratch: Scratch, pointer: str
    ) -> None:
        """Read the weights that the argument *pointer* points at."""
        self.nest, self.plan, self.scratch, self.pointer = nest, plan, scratch, pointer
        self.row = nest.block * plan.kinds.factors
        self.plane, self.planes = plan.groups * self.row, nest.sums

    def write_pointer(self, out: SourceWriter) -> None:
        """Write the pointer, unless it is an argument."""

    @contextmanager
    def elements(self, out: SourceWriter) -> Iterator[str]:
        """Write loops over the ``element`` of a tile and inner blocks; yield where one begins."""
        with out.block(f"for element in range({self.nest.sums}):"), self.blocks(out) as part:
            place = f"(panel * {self.nest.elements} + element) * {self.plane}"
            out.line(f"weights = {plus(place, times(part, self.row))}")
            yield part

    @contextmanager
    def blocks(self, out: SourceWriter) -> Iterator[str]:
        """Write a loop over the inner blocks of the sums; yield the group where one begins."""
        if self.plan.dot == self.plan.groups:
            yield "0"
            return
        with out.block(f"for part in range(0, {self.plan.groups}, {self.plan.dot}):"):
            yield "part"

    @property
    def count(self) -> str:
        """Groups of the inner block that begins at ``part``."""
        dot, groups = self.plan.dot, self.plan.groups
        return str(dot) if groups % dot == 0 else f"min({dot}, {groups} - part)"

    @property
    def pace(self) -> int:
        """Weights of the next element to fetch ahead in each step of a register tile."""
        units = self.plan.block_units  # a single one is as fast as memory in any case
        return -(-self.row // units) if units > 1 else 0
