"""What the estimates of all products share: multiply-adds, sums that wait, weights from memory."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.kernels.products.blocking import Columns, Cut, line_cycles, most_rows
from glow_nb.kernels.products.caches import LEVEL_3_SHARE
from glow_nb.kernels.products.dot_form import SINGLE, DotForm
from glow_nb.kernels.target import Target
from glow_nb.types import ElementKind

DIRECT_FACTOR = 1.13
"""Measured over estimated time of the multiply-adds."""

WEIGHT_CYCLES = 0.01
"""Of each byte of the weights, which are mostly fetched in time."""

WAITING_CYCLES = 2.0
"""Of a vector of sums that waits from one inner block to the next: it is stored, and what the next
block makes is added to it. Panels of 64 columns, whose inner blocks are longer, are up to 1.05
times as fast as those of 96 on one Zen 4 core with 16 lanes."""

MEMORY_BYTES_PER_CYCLE, SHARED_BYTES_PER_CYCLE = 7.0, 11.0
"""Main memory to one core, and to all of them together, when that is all there is to do. A Zen 4
core reads 10.5 bytes a cycle, and 14 come to all of them. If that is assumed on a Zen 3 core, which
reads less, picks of 35 layers take 1.09 times as long as the best; with these numbers, 1.02."""

BEYOND_FACTOR, BEYOND_FACTORS = 2.6, {"znver4": 1.5}
"""How much longer a byte of a filter takes beyond our share of the last-level cache, and on which
processors, by LLVM's names, it is otherwise: it comes from memory in each run, whatever else the
network does. One Zen 3 core reads 3 to 3.5 bytes a cycle so, one Zen 4 core 7; there the picks of
three networks with large filters take 1.01 to 1.05 of the time of the best with two threads, where
they took 1.02 to 1.09. Matrices that few rows multiply come faster, from several places at a time.
"""


@dataclass(frozen=True)
class Candidate:
    """A way to compute a convolution or a matrix product.

    Attributes:
        tile: Outputs of a Winograd tile in each dimension; None for other ways.
        block: Output channels of one panel of the filter.
        cycles: Estimated time of one run: of the largest share of a convolution, if several threads
            work, and of all work of a matrix product.
        factors: Neighbouring factors that are multiplied at once.
        is_paired: Weights lie in pairs that do not saturate.
        levels: How often Strassen's algorithm is applied, one in the other.
    """

    tile: tuple[int, ...] | None
    block: int
    cycles: float
    factors: int = 1
    is_paired: bool = False
    levels: int = 0

    @property
    def is_strassen(self) -> bool:
        """True if the product is done by Strassen's algorithm."""
        return self.levels > 0

    @property
    def is_direct(self) -> bool:
        """True if it sums up all products as they are."""
        return self.tile is None and not self.is_strassen

    @property
    def name(self) -> str:
        """What measurements call it."""
        form = f"strassen {self.levels}" if self.is_strassen else f"tile {self.tile}"
        return f"{form} block {self.block}"


def filter_cycles(filter_bytes: float, part: float, target: Target) -> float:
    """Return the least time to fetch a filter of which each thread reads this *part*."""
    beyond = max(0.0, filter_bytes - LEVEL_3_SHARE * target.l3_bytes)
    factor = BEYOND_FACTORS.get(target.cpu, BEYOND_FACTOR)
    return weight_fetch_cycles(filter_bytes + (factor - 1) * beyond, part)


def weight_fetch_cycles(weight_bytes: float, part: float = 1.0) -> float:
    """Return the least time to fetch weights of which each thread reads this *part*."""
    return weight_bytes * max(part / MEMORY_BYTES_PER_CYCLE, 1 / SHARED_BYTES_PER_CYCLE)


def waiting_cycles(columns: Columns, pixels: int, inner_blocks: int, target: Target) -> float:
    """Estimate what the sums of *pixels* rows take that wait between inner blocks."""
    vectors = columns.full * columns.vectors + columns.tail_vectors
    return WAITING_CYCLES * target.passes * (inner_blocks - 1) * pixels * vectors


def product_cycles(
    columns: Columns, pixels: int, steps: int, target: Target, form: DotForm = SINGLE
) -> float:
    """Estimate a product of *pixels* rows and *steps* products each."""
    steps = -(-steps // form.factors)
    vector_bytes = target.lanes * ElementKind.FLOAT32.size_bytes
    cut = Cut.balanced(max(1, pixels), most_rows(columns.vectors, target, form))
    panel_bytes = columns.vectors * vector_bytes * steps
    cycles = columns.full * line_cycles(cut, columns.vectors, panel_bytes, form, target.passes)
    if columns.tail:
        cycles += line_cycles(cut, columns.tail_vectors, panel_bytes, form, target.passes)
    return steps * cycles
