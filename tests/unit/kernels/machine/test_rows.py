"""Rows of machines: which one a processor has, and that each number says where it comes from."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from glow_nb.base.errors import OptionError
from glow_nb.kernels.machine.choose import choose_row
from glow_nb.kernels.machine.machine import GROUPS, Machine
from glow_nb.kernels.machine.rows import AVX2, AVX512, MEASURED, ROWS, SIMD128, ZEN3, ZEN4
from glow_nb.kernels.target import LANE_COUNTS, OWN_SIZE, Target

LINUX = "x86_64-unknown-linux-gnu"


@pytest.mark.parametrize("row", MEASURED)
def test_a_processor_that_a_row_is_for_has_it(row: Machine) -> None:
    for cpu in row.cpus:
        target = Target(LINUX, cpu, row.features, row.vector_bytes // 4)
        assert target.machine == row
        assert cpu in target.chosen_row.reason


@pytest.mark.parametrize(
    ("triple", "cpu", "features", "row"),
    [
        (LINUX, "znver2", "+avx,+avx2,+fma", AVX2),
        (LINUX, "haswell", "+avx,+avx2,+fma", AVX2),
        (LINUX, "sandybridge", "+avx", AVX2),
        (LINUX, "skylake-avx512", "+avx,+avx2,+avx512f", AVX512),
        (LINUX, "no such processor", "", SIMD128),
        ("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon", SIMD128),
        ("arm64-apple-macosx11.0.0", "apple-m1", "", SIMD128),
    ],
)
def test_other_processors_have_the_conservative_row_of_their_vectors(
    triple: str, cpu: str, features: str, row: Machine
) -> None:
    target = Target(triple, cpu, features, 4)
    assert target.machine == row
    assert "conservative" in target.chosen_row.reason


def test_the_lanes_of_a_target_choose_no_row() -> None:
    rows = {Target(LINUX, "haswell", "+avx,+avx2", lanes).machine.name for lanes in LANE_COUNTS}
    assert rows == {"avx2"}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_row_makes_a_target_of_its_own_vectors_and_caches(row: Machine) -> None:
    target = Target.of(row)
    assert (target.lanes, target.native_lanes) == (row.vector_bytes // 4,) * 2
    assert target.machine is row
    assert row.fma_bytes <= row.vector_bytes
    assert 0 < row.l1_bytes < row.l2_bytes < row.l3_bytes


def test_names_of_processors_belong_to_one_row() -> None:
    cpus = [cpu for row in ROWS.values() for cpu in row.cpus]
    assert len(cpus) == len(set(cpus))
    assert choose_row("x86-64", 32).machine is AVX2  # a generic name tells nothing


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_each_number_has_a_meaning_and_a_provenance(row: Machine) -> None:
    numbers = list(row.numbers)
    named = {"name", "title", "cpus", "features", "vector_bytes", "triple", "provenance"}
    assert {number.name for number in numbers} == {f.name for f in fields(Machine)} - named
    assert set(row.provenance) <= {number.name for number in numbers}
    for number in numbers:
        assert number.fact.meaning.endswith("."), number.name
        assert number.fact.provenance.endswith("."), number.name
    assert {number.group for number in numbers} == {group.__name__ for group in GROUPS}


def test_a_number_that_a_row_sets_has_the_provenance_of_the_row() -> None:
    (penalty,) = (number for number in ZEN4.numbers if number.name == "dram_filter_penalty")
    assert penalty.value == 1.5
    assert penalty.fact.provenance.startswith("Zen 4")


def test_own_caches_stand_in_place_of_those_of_the_row() -> None:
    target = replace(Target.of(ZEN3), l2_bytes=1 << 18)
    assert target.machine == replace(ZEN3, l2_bytes=1 << 18)
    provenance = {number.name: number.fact.provenance for number in target.machine.numbers}
    assert provenance["l2_bytes"] == OWN_SIZE
    assert provenance["l1_bytes"] != OWN_SIZE


def test_single_numbers_can_be_others() -> None:
    target = replace(Target.of(ZEN3), l2_bytes=1 << 18).with_machine(dram_latency_cycles=300)
    assert target.machine == replace(ZEN3, l2_bytes=1 << 18, dram_latency_cycles=300)
    with pytest.raises(OptionError, match="no number is called 'dram_latency'"):
        target.with_machine(dram_latency=300)
