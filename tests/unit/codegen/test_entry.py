"""The generated entry: its text, what it becomes, and that both make the same calls."""

import ctypes
from typing import Any

import llvmlite.binding as llvm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glow_nb.codegen.entry import Call, EntrySource, Region, generate_entry
from glow_nb.codegen.hazards import AccessMode
from glow_nb.codegen.loaded_code import LoadedCode
from glow_nb.codegen.runtime import compile_runtime
from glow_nb.codegen.symbols import read_symbols
from glow_nb.codegen.translate import PARAMETERS, compile_entry
from glow_nb.errors import CompileError
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.types import ElementKind
from tests.unit.codegen.samples import FLOAT32, source

HOST = Target.host()
KINDS = (ElementKind.FLOAT32, ElementKind.INT64, ElementKind.BOOL)
KERNELS = [
    KernelSource(f"family_{'abc'[count]}", f"# {count}", KINDS[:count], 100 * count)
    for count in range(1, 3)
]


def test_text_of_a_small_program() -> None:
    kernel = source("", arguments=2, scratch_bytes=100)
    calls = [
        Call(kernel, (Region("arena", FLOAT32, 64, "out"), Region("binding", FLOAT32, 64, "in"))),
        Call(
            kernel,
            (
                Region("binding", FLOAT32, 64, "out", binding=1),
                Region("constants", FLOAT32, 64, "in", offset_bytes=128),
            ),
        ),
        Call(kernel, (Region("arena", FLOAT32, 64, "inout"), Region("arena", FLOAT32, 64, "in"))),
    ]
    name = kernel.symbol
    assert (
        generate_entry(calls).text
        == f"""\
def entry(constants, arena, bindings, scratch, thread, threads, sync):
    own = scratch_at(scratch, thread, 128)
    bound0 = bound(bindings, 0)
    bound1 = bound(bindings, 1)
    # 0: sample
    {name}(
        float32_at(arena, 0), float32_at(bound0, 0), own, thread, threads
    )
    # 1: sample
    {name}(
        float32_at(bound1, 0), float32_at(constants, 128), own, thread, threads
    )
    barrier(sync, threads)  # 2 reads arena[0:64], which 0 wrote
    # 2: sample
    {name}(
        float32_at(arena, 0), float32_at(arena, 0), own, thread, threads
    )
    barrier(sync, threads)  # every share is done
"""
    )


def test_empty_program() -> None:
    entry = generate_entry([])
    assert entry.scratch_bytes == 0
    assert compile_entry(entry, HOST)


def test_long_calls_are_wrapped() -> None:
    kernel = KernelSource("wide", "", (FLOAT32,) * 20)
    region = Region("arena", FLOAT32, 4, "in", offset_bytes=10**12)
    entry = generate_entry([Call(kernel, (region,) * 20)])
    assert max(map(len, entry.text.splitlines())) <= 100
    assert compile_entry(entry, HOST)


regions = st.builds(
    Region,
    st.sampled_from(["constants", "arena", "binding"]),
    st.just(FLOAT32),
    st.integers(0, 100),
    st.just("in"),
    st.integers(0, 1 << 40),
    st.integers(0, 3),
)


@st.composite
def programs(draw: st.DrawFn) -> list[Call]:
    calls = []
    for kernel in draw(st.lists(st.sampled_from(KERNELS), max_size=6)):
        operands = []
        for kind in kernel.arguments:
            drawn = draw(regions)
            modes: tuple[AccessMode, ...] = ("in", "out", "inout")
            mode = "in" if drawn.space == "constants" else draw(st.sampled_from(modes))
            operands.append(
                Region(drawn.space, kind, drawn.size_bytes, mode, drawn.offset_bytes, drawn.binding)
            )
        calls.append(Call(kernel, tuple(operands)))
    return calls


BASES = {"constants": 1 << 41, "arena": 1 << 42, "scratch": 1 << 43}
BOUND = [(1 << 44) + (index << 41) for index in range(4)]


def interpreted(entry: EntrySource, thread: int, threads: int) -> list[tuple[object, ...]]:
    """Run the text as the Python that it is; return the calls with their arguments."""
    made: list[tuple[object, ...]] = []
    names: dict[str, Any] = {
        **{f"{kind.value}_at": lambda base, offset: base + offset for kind in ElementKind},
        "bound": lambda bindings, index: bindings[index],
        "scratch_at": lambda scratch, thread, size: scratch + thread * size,
        "barrier": lambda sync, threads: made.append(("barrier", sync, threads)),
    }
    for kernel in KERNELS:
        names[kernel.symbol] = lambda *args, symbol=kernel.symbol: made.append((symbol, *args))
    exec(entry.text, names)
    names["entry"](BASES["constants"], BASES["arena"], BOUND, BASES["scratch"], thread, threads, 77)
    return made


def executed(entry: EntrySource, thread: int, threads: int) -> list[tuple[object, ...]]:
    """Run the machine code with kernels that record; return the calls with their arguments."""
    made: list[tuple[object, ...]] = []
    keep = []
    widths = {kernel.symbol: len(kernel.arguments) + 1 for kernel in KERNELS} | {"glow_barrier": 1}
    for symbol, pointers in widths.items():
        integers = 1 if symbol == "glow_barrier" else 2
        kinds = [ctypes.c_void_p] * pointers + [ctypes.c_int64] * integers
        name = symbol.removeprefix("glow_") if symbol == "glow_barrier" else symbol

        def record(*args: object, name: str = name) -> None:
            made.append((name, *args))

        function = ctypes.CFUNCTYPE(None, *kinds)(record)
        keep.append(function)
        llvm.add_symbol(symbol, ctypes.cast(function, ctypes.c_void_p).value)
    code = LoadedCode([compile_entry(entry, HOST)], HOST)
    types = [ctypes.c_void_p if kind == "ptr" else ctypes.c_int64 for kind in PARAMETERS.values()]
    bindings = (ctypes.c_void_p * 4)(*BOUND)
    ctypes.CFUNCTYPE(None, *types)(code.address(entry.symbol))(
        BASES["constants"],
        BASES["arena"],
        ctypes.addressof(bindings),
        BASES["scratch"],
        thread,
        threads,
        77,
    )
    return made


@settings(max_examples=30)
@given(programs(), st.integers(0, 3))
def test_machine_code_and_text_make_the_same_calls(calls: list[Call], thread: int) -> None:
    entry = generate_entry(calls)
    made = executed(entry, thread, 4)
    assert made == interpreted(entry, thread, 4)
    assert [name for name, *_ in made if name != "barrier"] == [c.source.symbol for c in calls]


def test_object_has_one_symbol() -> None:
    entry = generate_entry([Call(KERNELS[0], (Region("arena", FLOAT32, 4, "in"),))])
    symbols = read_symbols(compile_entry(entry, HOST))
    assert symbols is not None
    assert symbols.defined == {entry.symbol}
    assert symbols.undefined == {KERNELS[0].symbol, "glow_barrier"}


@pytest.mark.parametrize(
    "line",
    [
        "import os",
        "x = 1.5",
        "x = unknown(arena)",
        "barrier(sync, [threads])",
        "float32_at(arena, 1 + 2)",
        "for i in range(3): barrier(sync, threads)",
        "f(bound(arena, nowhere))",
    ],
)
def test_what_is_not_part_of_an_entry(line: str) -> None:
    entry = EntrySource(f"def entry(arena, sync, threads):\n    {line}\n", 0)
    with pytest.raises(CompileError, match="is not part of an entry"):
        compile_entry(entry, HOST)


def test_text_that_is_no_function() -> None:
    with pytest.raises(CompileError, match="not one function"):
        compile_entry(EntrySource("x = 1\n", 0), HOST)


def test_symbol_called_in_two_ways() -> None:
    entry = EntrySource("def entry(arena):\n    glow_f(arena)\n    glow_f(1)\n", 0)
    with pytest.raises(CompileError, match="called with different operands"):
        compile_entry(entry, HOST)


def test_operands_must_fit_the_kernel() -> None:
    with pytest.raises(CompileError, match="the kernel takes"):
        Call(source("", 1), (Region("arena", ElementKind.INT8, 4, "in"),))


def test_constants_are_not_written() -> None:
    with pytest.raises(CompileError, match="only read"):
        Region("constants", FLOAT32, 4, "out")


def test_negative_offset() -> None:
    with pytest.raises(CompileError, match="negative"):
        Region("arena", FLOAT32, 4, "in", offset_bytes=-64)


def test_runtime_object_is_made_once() -> None:
    assert compile_runtime(HOST) is compile_runtime(HOST)
