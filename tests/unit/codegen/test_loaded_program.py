"""Programs run: the right numbers on any number of threads, in any number at once."""

import _thread
import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glow_nb.base.alignment import Bytes, aligned_empty
from glow_nb.base.errors import CompileError, FeedError, GlowError, OptionError
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.codegen import threads
from glow_nb.codegen.cache import ObjectCache
from glow_nb.codegen.entry import Call, Region
from glow_nb.codegen.load_native import load
from glow_nb.codegen.make_native_program import make_native_program
from glow_nb.codegen.program_memory import ProgramMemory
from glow_nb.codegen.run_layout import Binding, OutputBinding
from glow_nb.kernels.writing.source import KernelSource
from tests.in_turn import one_in
from tests.unit.codegen.samples import FLOAT32, SIZE, Chain, region, source

pytestmark = [
    pytest.mark.jit,
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # which is what we test
]


@pytest.fixture(autouse=True)
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let teams be as large as they are asked for, on machines of few cores, too."""
    monkeypatch.setattr(threads, "available_cores", lambda: 8)


def feed(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(seed).integers(0, 9, SIZE).astype(np.float32)
    return x, np.full(SIZE, np.nan, np.float32)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("depth", [1, 2, 9])
def test_chain(depth: int, count: int) -> None:
    chain = Chain(depth)
    program = chain.load(threads=count)
    for seed in range(5):
        x, y = feed(seed)
        program.run_into([x], [y])
        assert (y == chain.expected(x)).all()


def test_barriers_hold_under_stress() -> None:
    chain = Chain(50)
    program = chain.load(threads=4)
    x, y = feed()
    for _ in range(50):
        y[:] = np.nan
        program.run_into([x], [y])
        assert (y == chain.expected(x)).all()


@pytest.mark.parametrize("lone", [{0}, {8}, {3, 4, 5}, {0, 2, 4, 6, 8}, set(range(9))])
def test_calls_of_one_thread_among_shared_ones(lone: set[int]) -> None:
    chain = Chain(9)
    chain.calls = [replace(call, alone=n in lone) for n, call in enumerate(chain.calls)]
    program = chain.load(threads=3)
    for seed in range(20):
        x, y = feed(seed)
        program.run_into([x], [y])
        assert (y == chain.expected(x)).all()


def test_nobody_waits_for_threads_that_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads.Team, "_start", lambda *_: None)
    chain = Chain(9)
    program = chain.load(threads=4)
    for seed in range(5):
        x, y = feed(seed)
        program.run_into([x], [y])
        assert (y == chain.expected(x)).all()


def test_there_are_no_more_threads_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "available_cores", lambda: 2)
    chain = Chain(9)
    program = chain.load(threads=5)
    for seed in range(20):
        x, y = feed(seed)
        program.run_into([x], [y])
        assert (y == chain.expected(x)).all()
    assert workers(id(program.code), 1) == 1


def test_threads_that_come_late_find_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers sleep at once when they have nothing to do, and miss phases or whole jobs."""
    monkeypatch.setattr(threads, "PATIENCE", 0)
    monkeypatch.setattr(threads, "GRACE", 0)
    chain = Chain(9)
    program = chain.load(threads=4)
    for seed in range(300):
        x, y = feed(seed)
        program.run_into([x], [y])
        assert (y == chain.expected(x)).all()
        time.sleep(1e-4 if seed % 3 == 0 else 0)


@pytest.mark.parametrize("count", [1, 2])
def test_many_python_threads_at_once(count: int) -> None:
    chain = Chain(9)
    program = chain.load(threads=count)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for repeat in range(20):
            x, y = feed(seed + repeat)
            program.run_into([x], [y])
            if not (y == chain.expected(x)).all():
                wrong.append(seed)

    runs = [threading.Thread(target=work, args=(100 * number,)) for number in range(8)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert not wrong


def workers(code: int, expected: int) -> int:
    """Count the workers of the loaded code with id *code*; wait until they are *expected*."""
    deadline = time.monotonic() + 10
    while (count := _count(code)) != expected and time.monotonic() < deadline:
        time.sleep(0.001)
    return count


def _count(code: int) -> int:
    frames = [f for f in sys._current_frames().values() if f.f_code is threads._serve.__code__]
    return sum(id(frame.f_locals["keep"][0]) == code for frame in frames)


def test_contexts_are_reused_and_go_with_the_program() -> None:
    program = Chain(2).load(threads=3)
    code = id(program.code)
    assert workers(code, 0) == 0, "threads are started by the first run"
    for _ in range(3):
        program.run(feed()[:1])
    assert workers(code, 2) == 2
    del program
    assert workers(code, 0) == 0


def test_idle_contexts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glow_nb.codegen.loaded_program.available_cores", lambda: 2)
    program = Chain(2).load(threads=2)
    code = id(program.code)
    taken = [program._take_context() for _ in range(5)]
    assert workers(code, 5) == 5
    program._idle.extend(taken)
    last = taken[-1]
    taken.clear()
    assert workers(code, 2) == 2
    assert program._take_context() is last, "the last used is the warmest"


def test_the_child_of_a_fork_leaves_the_contexts_to_its_parent() -> None:
    program = Chain(2).load(threads=2)
    program.run(feed()[:1])
    assert len(program._idle) == 1
    child = os.fork()
    if child == 0:
        os._exit(len(program._idle))
    assert os.waitpid(child, 0)[1] == 0
    assert len(program._idle) == 1


def test_an_output_that_is_an_input_begins_as_a_copy_of_it() -> None:
    vector = TensorType(FLOAT32, (5,))
    outputs = [OutputBinding(vector, fed_by=0)]
    memory = ProgramMemory(0, aligned_empty(0))
    program = load(make_native_program([], memory, [Binding(vector)], outputs))
    x = np.arange(5, dtype=np.float32)
    (y,) = program.run([x])
    assert y is not x
    np.testing.assert_array_equal(y, x)


def test_scratch_is_private_to_a_thread_and_aligned() -> None:
    text = """
def kernel(dest, scratch, thread, threads):
    own = as_float32(scratch)
    for i in range(25):
        put(own, i, thread * 100.0 + i)
    for i in range(25):
        put(dest, thread * 25 + i, get(own, i))
"""
    kernel = KernelSource("scratch", text, (FLOAT32,), scratch_bytes=100)
    whole = TensorType(FLOAT32, (4, 25))
    call = Call(kernel, (Region("binding", FLOAT32, 400, "out"),))
    native = make_native_program(
        [call], ProgramMemory(0, aligned_empty(0)), [], [OutputBinding(whole)], threads=4
    )
    assert native.entry.scratch_bytes == 128
    assert native.scratch_bytes == 4 * 128
    y = np.zeros((4, 25), np.float32)
    load(native).run_into([], [y])
    assert (y == 100 * np.arange(4)[:, None] + np.arange(25)).all()


@pytest.mark.parametrize("kind", one_in(4, ElementKind, first=1, always=[ElementKind.FLOAT32]))
def test_every_element_kind_is_bound(kind: ElementKind) -> None:
    text = """
def kernel(dest, x, scratch, thread, threads):
    for i in range(thread, 5, threads):
        put(dest, i, get(x, i))
"""
    kernel = KernelSource("copy", text, (kind, kind))
    vector = TensorType(kind, (5,))
    size = vector.size_bytes
    operands = (
        Region("binding", kind, size, "out", binding=1),
        Region("constants", kind, size, "in"),
    )
    constants = aligned_empty(size)
    values = np.array([0, 1, 1, 0, 1]).astype(kind.dtype)
    constants[:] = np.frombuffer(values.tobytes(), np.uint8)
    memory, call = ProgramMemory(0, constants), Call(kernel, operands)
    program = load(make_native_program([call], memory, [Binding(vector)], [OutputBinding(vector)]))
    y = np.full(5, 9).astype(kind.dtype)
    program.run_into([values], [y])
    assert y.tobytes() == values.tobytes()


def test_empty_program_and_empty_tensors() -> None:
    empty = TensorType(FLOAT32, (0, 3))
    memory = ProgramMemory(0, aligned_empty(0))
    program = load(make_native_program([], memory, [Binding(empty)], [], threads=2))
    assert program.run([np.zeros((0, 3), np.float32)]) == []


def test_read_only_input_and_any_alignment_of_elements() -> None:
    chain = Chain(2)
    program = chain.load()
    x, _ = feed()
    shifted = np.zeros(SIZE + 1, np.float32)[1:]
    x.flags.writeable = False
    program.run_into([x], [shifted])
    assert (shifted == chain.expected(x)).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, _: ([x], []), "0 outputs, the program has 1"),
        (lambda x, y: ([x, x], [y]), "2 inputs, the program has 1"),
        (lambda x, y: ([x.astype(np.float64)], [y]), "input 0: float64 .* float32<1003>"),
        (lambda x, y: ([x.astype(">f4")], [y]), "input 0: >f4"),
        (lambda x, y: ([x[:-1]], [y]), r"input 0: float32 of shape \(1002,\)"),
        (lambda x, _: ([x], [np.zeros(2 * SIZE, np.float32)[::2]]), "output 0: not contiguous"),
        (lambda x, _: ([x], [np.zeros(4 * SIZE + 1, np.uint8)[1:].view(np.float32)]), "aligned"),
        (lambda x, y: ([x], [read_only(y)]), "output 0: .* read-only"),
    ],
)
def test_arrays_that_do_not_fit(change: Any, message: str) -> None:
    program = Chain(2).load()
    with pytest.raises(FeedError, match=message):
        program.run_into(*change(*feed()))


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (region("binding", "in", 2), "there are 2 bindings"),
        (region("binding", "out", 0), "writes to an input"),
        (region("arena", "in", 2), "reaches beyond 8192 bytes"),
        (region("constants", "in", 1), "reaches beyond 4012 bytes"),
    ],
)
def test_regions_outside_their_memory(place: Region, message: str) -> None:
    chain = Chain(2)
    chain.calls.append(Call(chain.calls[0].source, (place, *chain.calls[0].operands[1:])))
    with pytest.raises(CompileError, match=message):
        chain.load()


def test_constants_must_be_aligned() -> None:
    chain = Chain(2)
    memory: Bytes = aligned_empty(chain.constants.size + 8)
    chain.constants = memory[8:]
    with pytest.raises(CompileError, match="not aligned"):
        chain.load()


def test_no_threads() -> None:
    with pytest.raises(OptionError, match="threads=0"):
        Chain(2).load(threads=0)


def test_system_that_gives_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Chain(2).load(threads=3)
    code = id(program.code)
    start = _thread.start_new_thread

    def refuse_the_second(function: Any, arguments: Any) -> int:
        if arguments[2] == 2:
            raise RuntimeError("can't start new thread")
        return start(function, arguments)

    with monkeypatch.context() as patch:
        patch.setattr(_thread, "start_new_thread", refuse_the_second)
        with pytest.raises(GlowError, match="threads=3: the system cannot start that many"):
            program.run(feed()[:1])
    assert workers(code, 0) == 0
    program.run(feed()[:1])


def test_entry_comes_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Chain(2).load(cache=ObjectCache(tmp_path))

    def fail(*_: object) -> bytes:
        raise AssertionError("compiled again")

    monkeypatch.setattr("glow_nb.codegen.make_native_program.compile_entry", fail)
    monkeypatch.setattr("glow_nb.codegen.pool._compile_all", fail)
    Chain(2).load(cache=ObjectCache(tmp_path))


def test_damaged_cache_is_repaired(tmp_path: Path) -> None:
    chain = Chain(3)
    for damage in (lambda b: b[:50], lambda _: b"", lambda b: b[:-1] + b"?", lambda b: b[::-1]):
        chain.load(cache=ObjectCache(tmp_path))
        for path in tmp_path.iterdir():
            path.write_bytes(damage(path.read_bytes()))
        program = chain.load(cache=ObjectCache(tmp_path))
        x, y = feed()
        program.run_into([x], [y])
        assert (y == chain.expected(x)).all()


def test_source_scratch_does_not_change_the_symbol() -> None:
    assert source().symbol == source(scratch_bytes=64).symbol
