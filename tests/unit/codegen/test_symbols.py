"""Reading the symbol table of objects."""

import llvmlite.binding as llvm
import pytest

from glow_nb.codegen.machine import target_machine
from glow_nb.codegen.symbols import Symbols, read_symbols
from glow_nb.kernels.target import Target

TEXT = """
define void @visible(ptr %x) {
  call void @hidden(ptr %x)
  call void @missing(ptr %x)
  ret void
}
define internal void @hidden(ptr %x) noinline {
  store volatile i32 1, ptr %x
  ret void
}
declare void @missing(ptr)
"""


def test_symbols_of_an_object() -> None:
    payload = target_machine(Target.host()).emit_object(llvm.parse_assembly(TEXT))
    symbols = read_symbols(payload)
    if symbols is None:
        pytest.skip("this system's objects are not ELF")
    assert symbols == Symbols(frozenset({"visible"}), frozenset({"missing"}))


@pytest.mark.parametrize("payload", [b"", b"MZ", b"\xcf\xfa\xed\xfe" + bytes(100)])
def test_other_formats_are_not_read(payload: bytes) -> None:
    assert read_symbols(payload) is None
