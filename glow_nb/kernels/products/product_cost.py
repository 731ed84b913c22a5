"""Shared estimates of all products: multiply-adds, sums that wait, weights from memory."""

from __future__ import annotations

from glow_nb.base.dot_instruction import SINGLE, DotInstruction, groups_at_once
from glow_nb.base.types import ElementKind
from glow_nb.kernels.products.blocking import Columns, Cut, line_cycles, most_rows
from glow_nb.kernels.products.matrix_cost import MatrixSums, matrix_line_cycles
from glow_nb.kernels.target import Target


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
    columns: Columns,
    pixels: int,
    steps: int,
    target: Target,
    dot: DotInstruction = SINGLE,
    at_once: int = 0,
) -> float:
    """Estimate a product of *pixels* rows and *steps* products each.

    A step of matrix registers takes *at_once* groups at once, by default as many as it can.
    """
    steps = -(-steps // dot.group)
    if dot.is_matrix:
        sums = MatrixSums(steps, at_once or groups_at_once(steps))
        return matrix_line_cycles(columns.depth, columns.block, pixels, sums, target)
    vector_bytes = target.lanes * ElementKind.FLOAT32.size_bytes
    cut = Cut.balanced(max(1, pixels), most_rows(columns.vectors, target, dot))
    panel_bytes = columns.vectors * vector_bytes * steps
    cycles = columns.full * line_cycles(cut, columns.vectors, panel_bytes, target, dot)
    if columns.tail:
        cycles += line_cycles(cut, columns.tail_vectors, panel_bytes, target, dot)
    return steps * cycles
