"""Loops of dot instructions: which processors have them, and that the assembler takes them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glow_nb.base.machine_limits import DOT_MEANINGS
from glow_nb.codegen.dot_loops import DOT_LOOPS, DotLoop
from glow_nb.codegen.symbols import read_symbols
from glow_nb.kernels.machine.rows import SAPPHIRE_RAPIDS, ZEN4
from glow_nb.kernels.target import Target

AVX512 = "+avx,+avx2,+avx512f,+avx512vl,+avx512vnni,+avx512bf16"
TILES = f"{AVX512},+amx-tile,+amx-bf16,+amx-int8"


@pytest.mark.parametrize(
    ("features", "lanes", "found"),
    [
        ("+avx,+avx2", 8, []),
        ("+avx,+avx2,+avxvnni", 8, ["vpdpwssd", "vpdpbusd"]),
        ("+avx,+avx2,+avxvnni", 16, []),  # a vector of two registers
        (AVX512, 4, ["vpdpwssd", "vpdpbusd", "vdpbf16ps"]),
        (TILES, 16, ["vpdpwssd", "vpdpbusd", "vdpbf16ps", "tdpbf16ps", "tdpbusd"]),
    ],
)
def test_a_processor_is_measured_with_what_it_has(
    features: str, lanes: int, found: list[str]
) -> None:
    target = Target("x86_64-unknown-linux-gnu", "x86-64", features, lanes)
    assert [loop.instruction for loop in DOT_LOOPS if loop.is_there(target)] == found


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("loop", DOT_LOOPS, ids=lambda loop: loop.instruction)
def test_the_assembler_takes_each_loop(loop: DotLoop, lanes: int) -> None:
    target = replace(Target.of(SAPPHIRE_RAPIDS), features=TILES, lanes=lanes)
    symbols = read_symbols(loop.object_code("loop", target))
    assert symbols is not None
    assert "loop" in symbols.defined


def test_operations_are_multiplications_and_additions() -> None:
    found = {loop.instruction: loop.operations(Target.of(ZEN4)) for loop in DOT_LOOPS}
    assert found["vpdpbusd"] == 12 * 16 * 4 * 2  # sums, lanes, bytes
    assert found["tdpbusd"] == 6 * 16 * 16 * 64 * 2
    assert found["tdpbf16ps"] == 6 * 16 * 16 * 32 * 2


def test_each_loop_has_a_meaning() -> None:
    assert {loop.dot for loop in DOT_LOOPS} == set(DOT_MEANINGS)
