"""A processor to plan for that is the same wherever tests run."""

from __future__ import annotations

from dataclasses import replace

from glow_nb.kernels import target
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

CORES = {
    "zen3": (32 << 10, 512 << 10, 32 << 20),
    "skylake": (32 << 10, 256 << 10, 8 << 20),
    "zen4": (32 << 10, 1 << 20, 32 << 20),
    "sapphire_rapids": (48 << 10, 2 << 20, 60 << 20),
}
"""Bytes of the three data caches of processors, by their names.

Tests see those of one, whatever the processor is that runs them: ``pytest --core NAME``.
"""
