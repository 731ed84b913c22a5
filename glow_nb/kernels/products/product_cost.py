"""What the estimates of all products share: multiply-adds, sums that wait, weights from memory."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.kernels.products.blocking import Columns, Cut, line_cycles, most_rows
from glow_nb.kernels.products.dot_form import SINGLE, DotForm
from glow_nb.kernels.target import Target
from glow_nb.types import ElementKind


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
        is_strassen: The product is done by Strassen's algorithm.
    """

    tile: tuple[int, ...] | None
    block: int
    cycles: float
    factors: int = 1
    is_paired: bool = False
    is_strassen: bool = False

    @property
    def is_direct(self) -> bool:
        """True if it sums up all products as they are."""
        return self.tile is None and not self.is_strassen

    @property
    def name(self) -> str:
        """What measurements call it."""
        form = "strassen" if self.is_strassen else f"tile {self.tile}"
        return f"{form} block {self.block}"


def filter_cycles(filter_bytes: float, part: float, target: Target) -> float:
    """Return the least time to fetch a filter of which each thread reads this *part*."""
    machine = target.machine
    beyond = max(0.0, filter_bytes - machine.l3_share * machine.l3_bytes)
    further = (machine.dram_filter_penalty - 1) * beyond
    return weight_fetch_cycles(filter_bytes + further, target, part)


def weight_fetch_cycles(weight_bytes: float, target: Target, part: float = 1.0) -> float:
    """Return the least time to fetch weights of which each thread reads this *part*."""
    machine = target.machine
    rates = part / machine.dram_bytes_per_cycle, 1 / machine.shared_dram_bytes_per_cycle
    return weight_bytes * max(rates)


def waiting_cycles(columns: Columns, pixels: int, inner_blocks: int, target: Target) -> float:
    """Estimate what the sums of *pixels* rows take that wait between inner blocks."""
    vectors = columns.full * columns.vectors + columns.tail_vectors
    return (
        target.machine.waiting_vector_cycles * target.passes * (inner_blocks - 1) * pixels * vectors
    )


def product_cycles(
    columns: Columns, pixels: int, steps: int, target: Target, form: DotForm = SINGLE
) -> float:
    """Estimate a product of *pixels* rows and *steps* products each."""
    steps = -(-steps // form.factors)
    vector_bytes = target.lanes * ElementKind.FLOAT32.size_bytes
    cut = Cut.balanced(max(1, pixels), most_rows(columns.vectors, target, form))
    panel_bytes = columns.vectors * vector_bytes * steps
    cycles = columns.full * line_cycles(cut, columns.vectors, panel_bytes, target, form)
    if columns.tail:
        cycles += line_cycles(cut, columns.tail_vectors, panel_bytes, target, form)
    return steps * cycles
