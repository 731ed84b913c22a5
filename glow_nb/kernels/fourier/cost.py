"""About how many cycles a Fourier transform takes, by passes and as a product with roots."""

from __future__ import annotations

from math import prod
from typing import Any

from glow_nb.base.size import hinted
from glow_nb.kernels.fourier.plan import FourierPlan
from glow_nb.kernels.target import FLOAT_BYTES, Target


def pass_cycles(node: Any, plan: FourierPlan, target: Target) -> float:
    """Return the cycles of radix passes."""
    sequences = hinted(prod(node.input.type.shape[:-2]))
    once = plan.operations * target.passes / target.machine.fourier_operations_per_cycle
    return sequences * (once + target.machine.fourier_sequence_cycles)


def product_cycles(node: Any, target: Target) -> float:
    """Return the cycles of a product: of its arithmetic, or of reading its matrix."""
    machine, kind = target.machine, node.type.kind
    sequences = hinted(prod(node.input.type.shape[:-2]))
    roots: int = prod(node.input.type.shape[-2:]) * prod(node.type.shape[-2:])
    lanes: float = target.unit_lanes * FLOAT_BYTES / kind.size_bytes
    arithmetic = sequences * roots / (lanes * machine.fma_per_cycle)
    read: int = roots * kind.size_bytes
    rate = machine.dram_bytes_per_cycle
    if read <= machine.l2_bytes:
        rate = machine.l2_vectors_per_cycle * machine.vector_bytes
    return max(arithmetic, -(-sequences // machine.fourier_product_rows) * read / rate)
