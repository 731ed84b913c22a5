"""A processor to plan for that is the same wherever tests run."""

from __future__ import annotations

from dataclasses import replace

from glow_nb.kernels import target
from glow_nb.kernels.machine.rows import ROWS
from glow_nb.kernels.target import Target

SMALL_CORE = replace(
    Target.host(8),
    cpu="x86-64",
    features="+sse2,+avx,+avx2,+fma",
    l1_bytes=32 << 10,
    l2_bytes=512 << 10,
    l3_bytes=32 << 20,
)
"""One with AVX2, sixteen vector registers, and small caches."""

HOST_CACHES = target._host_caches
"""What asks this machine for its caches."""

CORES = {row.name: (row.l1_bytes, row.l2_bytes, row.l3_bytes) for row in ROWS.values()}
"""Bytes of the three data caches of processors, by the names of their rows.

Tests see those of one, whatever the processor is that runs them: ``pytest --core NAME``.
"""
