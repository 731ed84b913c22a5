"""A processor to plan for that is the same wherever tests run."""

from __future__ import annotations

from dataclasses import replace

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
