"""Shared objects: what is linked computes the same, and what cannot be linked is refused."""

from __future__ import annotations

import ctypes
import math
import os
import struct
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from glow_nb.base.errors import CompileError
from glow_nb.codegen.linked_code import LinkedCode
from glow_nb.codegen.shared_object import link_shared_object
from glow_nb.codegen.target_machine import target_machine
from glow_nb.kernels.target import Target
from tests.unit.network.saved.models import needs_loader

pytestmark = needs_loader

CALLER = """
declare double @exp(double)
declare double @callee(double)
@table = internal constant [4 x double] [double 1.0, double 2.0, double 3.0, double 4.0]
define double @caller(double %x, i64 %i) {
  %e = call double @exp(double %x)
  %place = getelementptr [4 x double], ptr @table, i64 0, i64 %i
  %t = load double, ptr %place
  %c = call double @callee(double %t)
  %s = fadd double %e, %c
  ret double %s
}
"""
CALLEE = """
define double @callee(double %x) {
  %y = fmul double %x, 10.0
  ret double %y
}
"""
DATA = """
@elsewhere = external hidden global i64
define i64 @reader() {
  %x = load i64, ptr @elsewhere
  ret i64 %x
}
"""


def compiled(text: str) -> bytes:
    machine = target_machine(Target.host())
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = Target.host().triple, str(machine.target_data)
    payload: bytes = machine.emit_object(module)
    return payload


def called(path: Path) -> float:
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int64)
    result: float = function(LinkedCode(path).address("caller"))(0.5, 2)
    return result


def test_objects_call_each_other_and_the_c_library(tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(link_shared_object([compiled(CALLER), compiled(CALLEE)]))
    assert called(tmp_path / "a.so") == math.exp(0.5) + 30.0
    (tmp_path / "b.so").write_bytes(link_shared_object([compiled(CALLEE), compiled(CALLER)]))
    assert called(tmp_path / "b.so") == math.exp(0.5) + 30.0


def test_a_folder_without_the_right_to_run_code_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.so"
    path.write_bytes(link_shared_object([compiled(CALLER), compiled(CALLEE)]))
    real = ctypes.CDLL

    def refuse(name: str | None) -> ctypes.CDLL:
        if name == os.fspath(path):
            raise OSError("failed to map segment from shared object")
        return real(name)

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    assert called(path) == math.exp(0.5) + 30.0


def test_every_symbol_is_found_by_name(tmp_path: Path) -> None:
    texts = [f"define i64 @f{n}() {{\n  ret i64 {n}\n}}" for n in range(100)]
    (tmp_path / "a.so").write_bytes(link_shared_object(map(compiled, texts)))
    code = LinkedCode(tmp_path / "a.so")
    results = [ctypes.CFUNCTYPE(ctypes.c_int64)(code.address(f"f{n}"))() for n in range(100)]
    assert results == list(range(100))


def test_what_nothing_defines_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(link_shared_object([compiled(CALLER)]))
    with pytest.raises(CompileError, match="symbol callee: no library defines it"):
        LinkedCode(tmp_path / "a.so")
    (tmp_path / "b.so").write_bytes(link_shared_object([compiled(CALLEE)]))
    with pytest.raises(CompileError, match="symbol caller: no library defines it"):
        LinkedCode(tmp_path / "b.so").address("caller")


def test_what_is_no_shared_object_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(b"no code")
    with pytest.raises(CompileError, match="the system does not map it"):
        LinkedCode(tmp_path / "a.so")


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        ([CALLEE, CALLEE], "symbol callee: two objects define it"),
        ([DATA], "symbol elsewhere: data from outside"),
        (["@x = global i64 1\ndefine ptr @f() {\n  ret ptr @x\n}"], "which is written"),
    ],
)
def test_what_cannot_be_linked_is_refused(objects: list[str], problem: str) -> None:
    with pytest.raises(CompileError, match=problem):
        link_shared_object(map(compiled, objects))


def test_broken_objects_are_refused() -> None:
    payload = compiled(CALLER)
    for length in range(0, len(payload), 16):
        with pytest.raises(CompileError, match="ELF object"):
            link_shared_object([payload[:length]])


def test_profilers_find_the_functions_by_sections() -> None:
    linked = link_shared_object([compiled(CALLER), compiled(CALLEE)])
    (table,) = struct.unpack_from("<Q", linked, 40)
    entry_bytes, count, names = struct.unpack_from("<HHH", linked, 58)
    rows = [
        struct.unpack_from("<IIQQQQIIQQ", linked, table + number * entry_bytes)
        for number in range(count)
    ]
    strings = rows[names][4]
    found = {
        linked[strings + row[0] : linked.index(b"\0", strings + row[0])].decode(): row
        for row in rows[1:]
    }
    _, kind, flags, address, place, size, *_ = found[".text"]
    assert (kind, flags, address) == (1, 6, place)
    (caller,) = [v for n, v, _ in dynamic_symbols(linked, found) if n == "caller"]
    assert place <= caller < place + size
    assert all(row[4] + row[5] <= len(linked) for row in rows)


def dynamic_symbols(
    linked: bytes, sections: dict[str, tuple[int, ...]]
) -> list[tuple[str, int, int]]:
    """Return name, address and size of each exported symbol."""
    begin, size = sections[".dynsym"][4:6]
    strings = sections[".dynstr"][4]
    rows = struct.iter_unpack("<IBBHQQ", linked[begin : begin + size])
    return [
        (linked[strings + n : linked.index(b"\0", strings + n)].decode(), value, length)
        for n, _, _, _, value, length in rows
    ]
