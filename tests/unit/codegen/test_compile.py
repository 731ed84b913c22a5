"""One source to one object: what comes out, and how faults of a generator are reported."""

import contextlib
import gc
import sys

import numpy as np
import pytest

from glow_nb.base.errors import CompileError
from glow_nb.base.types import ElementKind
from glow_nb.codegen.compile import compile_kernel
from glow_nb.codegen.loaded_code import LoadedCode
from glow_nb.codegen.symbols import read_symbols
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.kernels.writing.source import KernelSource
from tests.unit.codegen.samples import FLOAT32, source

pytestmark = pytest.mark.jit
HOST = Target.host()


def kernel(*lines: str) -> KernelSource:
    body = "\n".join(f"    {line}" for line in lines)
    return source(f"def kernel(dest, scratch, thread, threads):\n{body}\n", arguments=1)


def test_object_has_one_symbol_and_needs_nothing() -> None:
    sample = source()
    symbols = read_symbols(compile_kernel(sample, HOST))
    assert symbols is not None
    assert symbols.defined == {sample.symbol}
    assert not symbols.undefined


def test_the_same_source_gives_the_same_bytes() -> None:
    assert compile_kernel(source(), HOST) == compile_kernel(source(), HOST)


def test_helper_functions_and_names_do_not_collide() -> None:
    first, second = kernel("put(dest, 0, 1.0)"), kernel("put(dest, 0, 2.0)")
    code = LoadedCode([compile_kernel(each, HOST) for each in (first, second)], HOST)
    assert code.address(first.symbol) != code.address(second.symbol)


def test_mathematical_library_is_found_when_loaded() -> None:
    sample = kernel("store(dest, 0, sin(load(dest, 0, 4)))")
    symbols = read_symbols(compile_kernel(sample, HOST))
    assert symbols is not None
    assert symbols.undefined - {"fma"} == {"sinf"}  # fma, if the processor has no such instruction
    LoadedCode([compile_kernel(sample, HOST)], HOST)


def test_a_call_with_many_arguments_is_put_together() -> None:
    """Python passes more than 30 of them in a list; ``max``, which takes two, sees each of them."""
    largest = f"max({', '.join(f'thread + {number}' for number in range(40))})"
    with pytest.raises(CompileError, match="max has 40 arguments"):
        compile_kernel(kernel(f"put(dest, {largest}, 1.0)"), HOST)


@pytest.mark.parametrize("lanes", LANE_COUNTS)
def test_vectors_wider_than_the_machine_compile(lanes: int) -> None:
    sample = kernel(f"store(dest, 0, add(load(dest, 0, {lanes}), load(dest, 0, {lanes})))")
    symbols = read_symbols(compile_kernel(sample, Target.host(lanes)))
    assert symbols is not None and symbols.defined == {sample.symbol}


@pytest.mark.parametrize("kind", ElementKind)
def test_every_kind_can_be_an_argument(kind: ElementKind) -> None:
    text = "def kernel(dest, x, scratch, thread, threads):\n    put(dest, 0, get(x, 0))\n"
    sample = KernelSource("copy", text, (kind, kind))
    symbols = read_symbols(compile_kernel(sample, HOST))
    assert symbols is not None and symbols.defined == {sample.symbol}


@pytest.mark.parametrize(
    "line",
    [
        "this is not Python",
        "unknown_function(dest)",
        "load(dest)",
        "put(dest, 0, 'text')",
        "import os",
        "dest = [1.0]",
        "1 / 0 if undefined_name else 0",
    ],
)
def test_faulty_text_is_an_error_that_shows_it(line: str) -> None:
    with pytest.raises(CompileError) as raised:
        compile_kernel(kernel("put(dest, 0, 1.0)", line), HOST)
    assert f"3 |     {line}" in str(raised.value)
    assert "glow_sample_" in str(raised.value)
    assert raised.value.__cause__ is not None


def test_text_without_a_kernel() -> None:
    with pytest.raises(CompileError, match="does not compile"):
        compile_kernel(source("x = 1\n"), HOST)


def test_wrong_number_of_arguments() -> None:
    with pytest.raises(CompileError, match="does not compile"):
        compile_kernel(KernelSource("sample", source().text, (FLOAT32,)), HOST)


def test_object_that_needs_more_than_the_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba import types

    from glow_nb.simd.namespace import NAMESPACE

    foreign = types.ExternalFunction("PyErr_Clear", types.void())
    monkeypatch.setitem(NAMESPACE, "foreign", foreign)
    with pytest.raises(CompileError, match=r"needs PyErr_Clear.*generator of sample"):
        compile_kernel(kernel("foreign()"), HOST)


def test_nan_and_infinity_keep_their_meaning() -> None:
    import ctypes

    sample = kernel(
        "x = get(dest, 0)",
        "put(dest, 1, 1.0 if x != x else 0.0)",
        "put(dest, 2, x - x)",
        "put(dest, 3, get(dest, 4) * 0.0)",
    )
    code = LoadedCode([compile_kernel(sample, HOST)], HOST)
    data = np.array([np.nan, 0, 0, 0, np.inf], np.float32)
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, ctypes.c_int64, ctypes.c_int64)
    prototype(code.address(sample.symbol))(data.ctypes.data, 0, 0, 1)
    assert data[1] == 1
    assert np.isnan(data[2:4]).all()


def test_numba_switched_off_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert compile_kernel(source(), HOST)
    assert "numba" in sys.modules


@pytest.mark.parametrize("line", ["put(dest, 0, 1.0)", "put(dest, 0, unknown)"])
def test_garbage_is_looked_for_again_behind_a_kernel(line: str) -> None:
    with contextlib.suppress(CompileError):
        compile_kernel(kernel(line), HOST)
    assert gc.isenabled()
    gc.disable()
    try:
        with contextlib.suppress(CompileError):
            compile_kernel(kernel(line), HOST)
        assert not gc.isenabled()
    finally:
        gc.enable()
