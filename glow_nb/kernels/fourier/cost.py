"""About how many cycles a Fourier transform takes, by passes and as a product with roots."""

from __future__ import annotations

from math import prod
from typing import Any

from glow_nb.kernels.fourier.plan import FourierPlan
from glow_nb.kernels.target import FLOAT_BYTES, Target

OPERATIONS_PER_CYCLE = 1.5
"""Loads, stores and arithmetic of vectors that a core does in a cycle of these kernels."""
SEQUENCE_CYCLES = 60.0
"""Cycles of the loops around the passes, for each sequence."""
PRODUCT_ROWS = 6
"""Rows that a product reads its matrix of roots once for."""


def pass_cycles(node: Any, plan: FourierPlan, target: Target) -> float:
    """Return the cycles of radix passes."""
    sequences: int = prod(node.input.type.shape[:-2])
    once = plan.operations * target.passes / OPERATIONS_PER_CYCLE
    return sequences * (once + SEQUENCE_CYCLES)


def product_cycles(node: Any, target: Target) -> float:
    """Return the cycles of a product: of its arithmetic, or of reading its matrix."""
    machine, kind = target.machine, node.type.kind
    sequences: int = prod(node.input.type.shape[:-2])
    roots: int = prod(node.input.type.shape[-2:]) * prod(node.type.shape[-2:])
    lanes: float = target.unit_lanes * FLOAT_BYTES / kind.size_bytes
    arithmetic = sequences * roots / (lanes * machine.fma_per_cycle)
    read: int = roots * kind.size_bytes
    rate = machine.dram_bytes_per_cycle
    if read <= machine.l2_bytes:
        rate = machine.l2_vectors_per_cycle * machine.vector_bytes
    return max(arithmetic, -(-sequences // PRODUCT_ROWS) * read / rate)
