"""The generated entry: its text, what it becomes, and that both make the same calls."""

import ctypes
from dataclasses import replace
from typing import Any

import llvmlite.binding as llvm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glow_nb.base.errors import CompileError
from glow_nb.base.types import ElementKind
from glow_nb.codegen.compile_runtime import compile_runtime
from glow_nb.codegen.entry import Call, EntrySource, Region, generate_entry
from glow_nb.codegen.hazards import AccessMode
from glow_nb.codegen.loaded_code import LoadedCode
from glow_nb.codegen.symbols import read_symbols
from glow_nb.codegen.translate import compile_entry
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from tests.unit.codegen.samples import FLOAT32, Chain, source

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
            alone=True,
        ),
        Call(kernel, (Region("arena", FLOAT32, 64, "inout"), Region("arena", FLOAT32, 64, "in"))),
    ]
    name = kernel.symbol
    assert (
        generate_entry(calls, 2).text
        == f"""\
def entry(constants, arena, bindings, scratch, thread, phase, share, shares):
    own = scratch_at(scratch, thread, 128)
    bound0 = bound(bindings, 0)
    bound1 = bound(bindings, 1)
    match phase:
        case 0:
            # 0: sample
            {name}(
                float32_at(arena, 0), float32_at(bound0, 0), own, share, shares
            )
            if share == 0:  # to share this would cost more than it saves
                # 1: sample
                {name}(
                    float32_at(bound1, 0), float32_at(constants, 128), own, 0, 1
                )
        case 1:  # 2 reads arena[0:64], which 0 wrote
            # 2: sample
            {name}(
                float32_at(arena, 0), float32_at(arena, 0), own, share, shares
            )
"""
    )


def test_one_thread_needs_no_phases() -> None:
    chain = Chain(3)
    entry = generate_entry(chain.calls, 1)
    assert (entry.threads, entry.phases) == (1, 1)
    assert "match" not in entry.text and "if" not in entry.text


def test_calls_that_one_thread_makes_need_no_others() -> None:
    alone = [replace(call, alone=True) for call in Chain(3).calls]
    entry = generate_entry(alone, 4)
    assert (entry.threads, entry.phases) == (1, 1)
    assert entry.text.count("share, shares") == 1, "in the parameters alone"


def test_calls_of_one_thread_in_a_row_are_one_phase() -> None:
    calls = [replace(call, alone=number in (1, 2, 3)) for number, call in enumerate(Chain(6).calls)]
    entry = generate_entry(calls, 4)
    assert (entry.threads, entry.phases) == (4, 4)
    assert entry.text.count("if share == 0:") == 1


def test_empty_program() -> None:
    entry = generate_entry([], 2)
    assert entry.scratch_bytes == 0
    assert compile_entry(entry, HOST)


def test_long_calls_are_wrapped() -> None:
    kernel = KernelSource("wide", "", (FLOAT32,) * 20)
    region = Region("arena", FLOAT32, 4, "in", offset_bytes=10**12)
    entry = generate_entry([Call(kernel, (region,) * 20)], 2)
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
        calls.append(Call(kernel, tuple(operands), draw(st.booleans())))
    return calls


BASES = {"constants": 1 << 41, "arena": 1 << 42, "scratch": 1 << 43}
BOUND = [(1 << 44) + (index << 41) for index in range(4)]


def interpreted(entry: EntrySource, numbers: tuple[int, ...]) -> list[tuple[object, ...]]:
    """Run the text as the Python that it is; return the calls with their arguments."""
    made: list[tuple[object, ...]] = []
    names: dict[str, Any] = {
        **{f"{kind.value}_at": lambda base, offset: base + offset for kind in ElementKind},
        "bound": lambda bindings, index: bindings[index],
        "scratch_at": lambda scratch, thread, size: scratch + thread * size,
    }
    for kernel in KERNELS:
        names[kernel.symbol] = lambda *args, symbol=kernel.symbol: made.append((symbol, *args))
    exec(entry.text, names)
    names["entry"](BASES["constants"], BASES["arena"], BOUND, BASES["scratch"], *numbers)
    return made


def executed(entry: EntrySource, numbers: tuple[int, ...]) -> list[tuple[object, ...]]:
    """Run the machine code with kernels that record; return the calls with their arguments."""
    made: list[tuple[object, ...]] = []
    keep = []
    for kernel in KERNELS:
        pointers = len(kernel.arguments) + 1
        kinds = [ctypes.c_void_p] * pointers + [ctypes.c_int64] * 2

        def record(*args: object, symbol: str = kernel.symbol) -> None:
            made.append((symbol, *args))

        function = ctypes.CFUNCTYPE(None, *kinds)(record)
        keep.append(function)
        llvm.add_symbol(kernel.symbol, ctypes.cast(function, ctypes.c_void_p).value)
    code = LoadedCode([compile_entry(entry, HOST)], HOST)
    types = [ctypes.c_void_p] * 4 + [ctypes.c_int64] * 4
    bindings = (ctypes.c_void_p * 4)(*BOUND)
    memory = (BASES["constants"], BASES["arena"], ctypes.addressof(bindings), BASES["scratch"])
    ctypes.CFUNCTYPE(None, *types)(code.address(entry.symbol))(*memory, *numbers)
    return made


@settings(max_examples=30)
@given(programs(), st.integers(0, 3), st.integers(0, 3), st.integers(1, 4))
def test_machine_code_and_text_make_the_same_calls(
    calls: list[Call], thread: int, share: int, threads: int
) -> None:
    entry = generate_entry(calls, threads)
    share %= entry.threads
    names = []
    for phase in range(entry.phases):
        numbers = (thread, phase, share, entry.threads)
        made = executed(entry, numbers)
        assert made == interpreted(entry, numbers)
        names += [name for name, *_ in made]
    assert names == [c.source.symbol for c in calls if share == 0 or not c.alone]


def test_object_has_one_symbol() -> None:
    entry = generate_entry([Call(KERNELS[0], (Region("arena", FLOAT32, 4, "in"),))], 2)
    symbols = read_symbols(compile_entry(entry, HOST))
    assert symbols is not None
    assert symbols.defined == {entry.symbol}
    assert symbols.undefined == {KERNELS[0].symbol}


@pytest.mark.parametrize(
    "line",
    [
        "import os",
        "x = 1.5",
        "x = unknown(arena)",
        "f([threads])",
        "float32_at(arena, 1 + 2)",
        "for i in range(3): f(threads)",
        "if threads == 1.5: f(threads)",
        "if threads < 2: f(threads)",
        "if threads == 1:\n        f(threads)\n    else:\n        f(sync)",
        "match threads:\n        case 1 | 2: f(threads)",
        "match threads:\n        case 1 if sync: f(threads)",
        "match threads:\n        case 1: f(threads)\n        case 1: f(sync)",
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
