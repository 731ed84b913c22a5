"""Objects in memory: linked with each other, and refused when something is missing or broken."""

import threading
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from glow_nb.base.errors import CompileError
from glow_nb.codegen.compile_runtime import compile_runtime
from glow_nb.codegen.loaded_code import LoadedCode
from glow_nb.codegen.target_machine import target_machine
from glow_nb.kernels.target import Target
from tests.unit.codegen.samples import run_python

HOST = Target.host()


def emit(text: str) -> bytes:
    payload: bytes = target_machine(HOST).emit_object(llvm.parse_assembly(text))
    return payload


def test_objects_see_each_other() -> None:
    caller = emit("declare i32 @f()\ndefine i32 @g() {\n %x = call i32 @f()\n ret i32 %x\n}")
    callee = emit("define i32 @f() {\n ret i32 42\n}")
    import ctypes

    code = LoadedCode([caller, callee], HOST)
    assert ctypes.CFUNCTYPE(ctypes.c_int32)(code.address("g"))() == 42


def test_missing_symbol_is_an_error_and_not_the_end_of_the_process() -> None:
    with pytest.raises(CompileError, match="no_such_function"):
        LoadedCode([emit("declare void @no_such_function()\ndefine void @g() {\n call void "
                         "@no_such_function()\n ret void\n}")], HOST)  # fmt: skip


def test_unknown_address() -> None:
    code = LoadedCode([compile_runtime(HOST)], HOST)
    assert code.address("glow_team_run")
    with pytest.raises(CompileError, match="glow_nothing: not defined"):
        code.address("glow_nothing")


def test_addresses_are_told_without_llvm_whose_lock_a_forked_child_may_never_get() -> None:
    code = LoadedCode([compile_runtime(HOST)], HOST)
    expected = code.address("glow_team_run")
    taken, done, found = threading.Event(), threading.Event(), list[int]()

    def hold() -> None:
        with llvm.ffi.lib._lock:
            taken.set()
            done.wait(60)

    holder = threading.Thread(target=hold)
    asker = threading.Thread(target=lambda: found.append(code.address("glow_team_run")))
    holder.start()
    assert taken.wait(60)
    asker.start()
    asker.join(5)
    done.set()
    was_told = list(found)
    asker.join()
    holder.join()
    assert was_told == [expected]


@pytest.mark.parametrize("length", [0, 3, 64, 200, 600])
def test_broken_object_is_refused(length: int) -> None:
    with pytest.raises(CompileError, match="empty the cache folder"):
        LoadedCode([compile_runtime(HOST)[:length]], HOST)


def test_loading_needs_no_numba(tmp_path: Path) -> None:
    script = """
        import numpy as np
        from tests.unit.codegen.samples import Chain, SIZE
        chain = Chain(3)
        x = np.ones(SIZE, np.float32)
        (y,) = chain.load().run([x])
        assert (y == chain.expected(x)).all()
        print("numba" in sys.modules)
    """
    for _ in ("compiled, by workers", "loaded from the cache"):
        assert run_python(script, tmp_path) == "False\n"
