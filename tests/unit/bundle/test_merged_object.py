"""Objects merged into one: what stays visible, what calls what, and which objects are refused."""

from __future__ import annotations

import ctypes

import llvmlite.binding as llvm
import pytest

from glow_nb.base.errors import CompileError
from glow_nb.bundle.archive import archive_of
from glow_nb.bundle.merged_object import Part, data_object, merge_objects
from glow_nb.bundle.processors import PLATFORMS
from glow_nb.codegen.elf_objects import elf_symbols
from glow_nb.codegen.loaded_code import LoadedCode
from glow_nb.codegen.symbols import Symbols, read_symbols
from glow_nb.codegen.target_machine import target_machine
from glow_nb.kernels.target import Target
from tests.unit.bundle.bundles import needs_elf

KERNEL = """
@numbers = internal constant [2 x double] [double {number}.0, double 1.0]
define double @kernel(i64 %i) {{
  %place = getelementptr double, ptr @numbers, i64 %i
  %found = load double, ptr %place
  %result = call double @log1p(double %found)
  ret double %found
}}
declare double @log1p(double)
"""
JOINING = """
declare double @a_kernel(i64)
declare double @b_kernel(i64)
define double @difference() {
  %a = call double @a_kernel(i64 0)
  %b = call double @b_kernel(i64 0)
  %result = fsub double %a, %b
  ret double %result
}
"""


def compiled(text: str, target: Target) -> bytes:
    """Return the object of LLVM *text*."""
    machine = target_machine(target)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    payload: bytes = machine.emit_object(module)
    return payload


def merged_for(target: Target) -> bytes:
    """Return an object of two parts that define the same symbol with different numbers."""
    parts = [
        Part(prefix, [compiled(KERNEL.format(number=number), target)])
        for prefix, number in (("a_", 50), ("b_", 8))
    ]
    merged = merge_objects(parts, compiled(JOINING, target))
    assert merged.needed == ("log1p",)
    return merged.payload


@pytest.mark.parametrize("triple", PLATFORMS)
def test_only_what_the_joining_object_defines_is_seen_from_outside(triple: str) -> None:
    payload = merged_for(PLATFORMS[triple].baseline)
    found = read_symbols(payload)
    assert found == Symbols(frozenset({"difference"}), frozenset({"log1p"}))
    local = [name for name, is_global, _ in elf_symbols(payload) if not is_global]
    assert {"a_kernel", "b_kernel"} <= set(local)


@needs_elf
def test_each_part_calls_its_own_code() -> None:
    code = LoadedCode([merged_for(Target.host())], Target.host())
    assert ctypes.CFUNCTYPE(ctypes.c_double)(code.address("difference"))() == 42


def test_objects_that_are_cut_off_are_refused() -> None:
    target = PLATFORMS["x86_64-unknown-linux-gnu"].baseline
    whole = compiled(KERNEL.format(number=1), target)
    joining = compiled(JOINING, target)
    for size in (0, 10, 64, len(whole) // 2, len(whole) - 1):
        with pytest.raises(CompileError):
            merge_objects([Part("a_", [whole[:size]])], joining)


def test_objects_of_different_processors_are_refused() -> None:
    arm, x86 = (PLATFORMS[f"{name}-unknown-linux-gnu"].baseline for name in ("aarch64", "x86_64"))
    part = Part("a_", [compiled(KERNEL.format(number=1), arm)])
    with pytest.raises(CompileError, match="different processors"):
        merge_objects([part], compiled(JOINING, x86))


@pytest.mark.parametrize("definition", ["global i64 0", "global i64 7"])
def test_data_that_are_written_are_refused(definition: str) -> None:
    target = PLATFORMS["x86_64-unknown-linux-gnu"].baseline
    part = Part("a_", [compiled(f"@count = {definition}", target)])
    with pytest.raises(CompileError, match="written"):
        merge_objects([part], compiled(JOINING, target))


def test_a_symbol_that_two_objects_of_a_part_define_is_refused() -> None:
    target = PLATFORMS["x86_64-unknown-linux-gnu"].baseline
    payload = compiled(KERNEL.format(number=1), target)
    with pytest.raises(CompileError, match="two objects define it"):
        merge_objects([Part("a_", [payload, payload])], compiled(JOINING, target))


@needs_elf
def test_data_are_read_at_their_symbol() -> None:
    joining = """
    @net_constants = external constant i8
    define ptr @place() {
      ret ptr @net_constants
    }
    """
    host = Target.host()
    payload = compiled(joining, host)
    code = LoadedCode([payload, data_object("net_constants", b"some numbers", payload)], host)
    place: int = ctypes.CFUNCTYPE(ctypes.c_void_p)(code.address("place"))()
    assert ctypes.string_at(place, 12) == b"some numbers"


def test_an_archive_tells_where_each_symbol_is_defined() -> None:
    target = PLATFORMS["x86_64-unknown-linux-gnu"].baseline
    members = {"one.o": compiled(JOINING, target), "two.o": compiled("@x = constant i8 1", target)}
    content = archive_of(members)
    assert content.startswith(b"!<arch>\n/ ")
    table = content[68 : 68 + int(content[56:66])]
    count = int.from_bytes(table[:4], "big")
    offsets = [int.from_bytes(table[4 + 4 * n : 8 + 4 * n], "big") for n in range(count)]
    names = table[4 + 4 * count :].rstrip(b"\0").split(b"\0")
    assert names == [b"difference", b"x"]
    for offset, (name, payload) in zip(offsets, members.items(), strict=True):
        assert content[offset : offset + 16].decode().strip() == f"{name}/"
        assert content[offset + 60 : offset + 60 + len(payload)] == payload
