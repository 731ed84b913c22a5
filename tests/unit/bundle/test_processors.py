"""The machines that bundles are made for: names, features, and what kernels are planned by."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace

import llvmlite.binding as llvm
import pytest

from glow_nb.base.errors import OptionError, UnsupportedError
from glow_nb.bundle.processor_check import TILES_NOT_GIVEN, chooser
from glow_nb.bundle.processors import PLATFORMS, platform_like, targets_of
from glow_nb.codegen.loaded_code import LoadedCode
from glow_nb.codegen.target_machine import target_machine
from glow_nb.kernels.machine.rows import MEASURED
from glow_nb.kernels.target import Target

X86 = "x86_64-unknown-linux-gnu"
ARM = "aarch64-unknown-linux-gnu"


@pytest.mark.parametrize("triple", PLATFORMS)
def test_every_processor_is_planned_by_a_row_and_not_by_the_caches_of_this_one(triple: str) -> None:
    platform = PLATFORMS[triple]
    for cpu in platform.processors:
        target = platform.target(cpu)
        assert (target.l1_bytes, target.l2_bytes, target.l3_bytes) == (0, 0, 0)
        assert target.lanes == target.native_lanes, cpu
        assert platform_like(target) is platform


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: row.name)
def test_measured_processors_have_the_features_of_their_rows(row: object) -> None:
    of_row = Target.of(row)  # type: ignore[arg-type]
    target = PLATFORMS[X86].target(of_row.cpu)
    assert target.machine == of_row.machine
    assert of_row.enabled_features <= target.enabled_features


@pytest.mark.parametrize(("cpu", "lanes"), [("x86-64-v2", 4), ("x86-64-v3", 8), ("x86-64-v4", 16)])
def test_levels_have_vectors_of_their_length(cpu: str, lanes: int) -> None:
    (target,) = targets_of(X86, [cpu, cpu])
    assert (target.cpu, target.lanes) == (cpu, lanes)


def test_without_a_name_it_is_the_processor_that_can_do_the_least() -> None:
    assert [target.cpu for target in targets_of(ARM, [])] == ["generic"]
    assert [target.cpu for target in targets_of(X86, [])] == ["x86-64"]


@pytest.mark.parametrize(
    ("triple", "cpus", "problem"),
    [
        ("arm64-apple-darwin", [], "unknown"),
        ("x86_64-unknown-linux", [], "did you mean 'x86_64-unknown-linux-gnu'"),
        (X86, ["zen3"], "did you mean 'znver3'"),
        (ARM, ["haswell"], "no processor of aarch64"),
        (ARM, ["native"], "this machine is not"),
    ],
)
def test_unknown_names_are_refused(triple: str, cpus: list[str], problem: str) -> None:
    if cpus == ["native"] and Target.host().triple == triple:
        pytest.skip("this machine is one of these")
    with pytest.raises(OptionError, match=problem):
        targets_of(triple, cpus)


def test_several_processors_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="cannot ask which processor"):
        targets_of(ARM, ["generic", "neoverse-n1"])


def test_objects_of_other_formats_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="give target="):
        platform_like(Target("arm64-apple-darwin", "apple-m1", "+neon", 4))


def test_vectors_that_the_system_must_save_are_asked_of_the_system() -> None:
    wide, narrow = (chooser("choose", targets_of(X86, [cpu])) for cpu in ("znver4", "x86-64-v2"))
    assert "and i32 %xcr0, 230" in wide  # all of the registers of AVX-512
    assert "and i32 %xcr0" not in narrow
    assert "cpuid" not in chooser("choose", targets_of(ARM, []))


def test_tiles_are_asked_for_by_code_that_uses_them_alone() -> None:
    (target,) = targets_of(X86, ["sapphirerapids"])
    plain, tiled = (chooser("choose", [target], [uses]) for uses in (False, True))
    assert "syscall" in tiled
    assert "syscall" not in plain
    saved = [int(mask) for mask in re.findall(r"and i32 %xcr0, (\d+)", plain + tiled)]
    assert [mask & 0x60000 for mask in saved] == [0, 0x60000]  # the registers of AMX


@pytest.mark.skipif(not Target.host().triple.startswith("x86_64"), reason="cpuid is of x86-64")
@pytest.mark.parametrize("has_tiles", [False, True])
@pytest.mark.parametrize("more", [[], ["x86-64"]])
def test_without_the_right_to_tiles_the_best_of_the_others_is_chosen(
    has_tiles: bool, more: list[str]
) -> None:
    """The system is played by a number instead of the call, and the processor by this one."""
    host = replace(Target.host(), features="+sse2,+ssse3")
    targets = [host, *targets_of(X86, more)][: 1 + len(more)]
    text = chooser("choose", targets, [True, *[False] * len(more)])
    answer = f"%answer = add i64 0, {0 if has_tiles else -28}\n  %is_given"
    text, count = re.subn(r"%answer = call.*?%is_given", answer, text, flags=re.DOTALL)
    assert count == 1
    module = llvm.parse_assembly(text.replace("define internal", "define"))
    payload = target_machine(Target.host()).emit_object(module)
    code = LoadedCode([payload], Target.host())
    choose = ctypes.CFUNCTYPE(ctypes.c_int64)(code.address("choose"))
    assert choose() == (0 if has_tiles else 1 if more else TILES_NOT_GIVEN)
