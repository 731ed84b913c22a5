"""Reading the symbol table of objects."""

import struct

import llvmlite.binding as llvm
import pytest

from glow_nb.codegen.symbols import read_symbols
from glow_nb.codegen.target_machine import target_machine
from glow_nb.kernels.target import Target

TEXT = """
define void @visible(ptr %x) {
  call void @hidden(ptr %x)
  call void @missing_function_with_a_long_name(ptr %x)
  ret void
}
define internal void @hidden(ptr %x) noinline {
  store volatile i32 1, ptr %x
  ret void
}
declare void @missing_function_with_a_long_name(ptr)
"""


TARGETS = {
    "host": Target.host(),
    "elf": Target("aarch64-unknown-linux-gnu", "generic", "", lanes=4),
    "mach-o": Target("x86_64-apple-macosx11.0.0", "x86-64", "", lanes=4),
    "mach-o on arm": Target("arm64-apple-macosx11.0.0", "apple-m1", "", lanes=4),
    "coff": Target("x86_64-pc-windows-msvc", "x86-64", "", lanes=4),
    "coff on arm": Target("aarch64-pc-windows-msvc", "generic", "", lanes=4),
}
BEGINNINGS = {"elf": b"\x7fELF", "mach-o": b"\xcf\xfa\xed\xfe", "coff": b"\x64\x86"}


def object_of(target: Target) -> bytes:
    module = llvm.parse_assembly(TEXT)
    module.triple = target.triple
    payload: bytes = target_machine(target).emit_object(module)
    return payload


@pytest.mark.parametrize("name", TARGETS)
def test_symbols_of_an_object(name: str) -> None:
    payload = object_of(TARGETS[name])
    assert payload.startswith(BEGINNINGS.get(name, b""))
    symbols = read_symbols(payload)
    assert symbols is not None
    assert symbols.defined - {"@feat.00"} == {"visible"}
    assert symbols.undefined == {"missing_function_with_a_long_name"}


@pytest.mark.parametrize("name", TARGETS)
def test_an_object_that_is_cut_off_is_no_object(name: str) -> None:
    payload = object_of(TARGETS[name])
    with pytest.raises((struct.error, ValueError, IndexError)):
        read_symbols(payload[:64])


@pytest.mark.parametrize("payload", [b"", b"MZ", b"\x7fELF\x01\x01" + bytes(100)])
def test_other_formats_are_not_read(payload: bytes) -> None:
    assert read_symbols(payload) is None
