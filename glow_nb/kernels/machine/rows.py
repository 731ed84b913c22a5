"""The rows: one for each microarchitecture that was measured, and conservative ones for the rest.

Numbers that a row does not name are those of their facts, which say on which processor they were
measured.
"""

from __future__ import annotations

from collections.abc import Mapping

from glow_nb.kernels.machine.machine import Machine
from glow_nb.system.host_caches import KIBIBYTE

_AVX2 = "+sse2,+ssse3,+avx,+avx2,+fma,+f16c"
_AVX512 = f"{_AVX2},+avx512f,+avx512bw,+avx512vl"
_AMX = "+amx-tile,+amx-int8,+amx-bf16"
_MEBIBYTE = 1024 * KIBIBYTE
_MANUAL = "Manual of the vendor."
_SIZES = {"l1_bytes": _MANUAL, "l2_bytes": _MANUAL, "l3_bytes": "One complex of cores."}

ZEN3 = Machine(
    name="zen3",
    title="AMD Zen 3",
    cpus=("znver3",),
    features=_AVX2,
    vector_bytes=32,
    fma_bytes=32,
    l2_bytes=512 * KIBIBYTE,
    l3_bytes=32 * _MEBIBYTE,
    provenance=_SIZES,
)

ZEN4 = Machine(
    name="zen4",
    title="AMD Zen 4",
    cpus=("znver4",),
    features=f"{_AVX512},+avx512vnni,+avx512vbmi,+avx512bf16",
    vector_bytes=64,
    fma_bytes=32,
    l2_bytes=_MEBIBYTE,
    l3_bytes=32 * _MEBIBYTE,
    dram_filter_penalty=1.5,
    provenance={
        **_SIZES,
        "fma_bytes": "Manual of the vendor: two 256-bit vectors a cycle, one of 512.",
        "dram_filter_penalty": "Zen 4: 7 bytes a cycle. Picks of three networks with large filters "
        "take 1.01 to 1.05 of the time of the best with two threads; with 2.6, 1.02 to 1.09.",
    },
)

ZEN5 = Machine(
    name="zen5",
    title="AMD Zen 5",
    cpus=("znver5",),
    features=f"{_AVX512},+avx512vnni,+avx512vbmi,+avxvnni,+avx512bf16",
    vector_bytes=64,
    l1_bytes=48 * KIBIBYTE,
    l2_bytes=_MEBIBYTE,
    l3_bytes=32 * _MEBIBYTE,
    provenance=_SIZES,
)

SAPPHIRE_RAPIDS = Machine(
    name="sapphire_rapids",
    title="Intel Sapphire Rapids and Emerald Rapids",
    cpus=("sapphirerapids", "emeraldrapids"),
    features=f"{_AVX512},+avx512vnni,+avx512vbmi,+avxvnni,+avx512bf16,{_AMX}",
    vector_bytes=64,
    l1_bytes=48 * KIBIBYTE,
    l2_bytes=2 * _MEBIBYTE,
    l3_bytes=64 * _MEBIBYTE,
    bfloat16_dot_price=4.0,
    provenance={
        **_SIZES,
        "l3_bytes": "All of a processor with 32 cores or so, at least.",
        "bfloat16_dot_price": "Emerald Rapids: 85 GFLOP/s on a core where float32 has 169, with "
        "vectors of any length.",
    },
)

AVX512 = Machine(
    name="avx512",
    title="Any processor with AVX-512",
    cpus=("x86-64-v4",),
    features=_AVX512,
    vector_bytes=64,
    l2_bytes=_MEBIBYTE,
)

AVX2 = Machine(
    name="avx2",
    title="Any processor with AVX2",
    cpus=("x86-64-v3",),
    features=_AVX2,
    vector_bytes=32,
    fma_bytes=32,
)

SIMD128 = Machine(
    name="simd128",
    title="Any processor with 16-byte vectors",
    cpus=("x86-64",),
    features="+sse2",
    vector_bytes=16,
    fma_bytes=16,
    l3_bytes=4 * _MEBIBYTE,
)

MEASURED = (ZEN3, ZEN4, ZEN5, SAPPHIRE_RAPIDS)
"""Rows of one microarchitecture each."""

CONSERVATIVE: Mapping[int, Machine] = {row.vector_bytes: row for row in (AVX512, AVX2, SIMD128)}
"""Rows for processors that no other row is for, by the bytes of their vectors."""

ROWS: Mapping[str, Machine] = {row.name: row for row in (*MEASURED, *CONSERVATIVE.values())}
"""All rows, by name."""
