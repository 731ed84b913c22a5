"""Networks with state: what runs leave behind, who may look at it, and its files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from typing_extensions import override

import glow_nb
from glow_nb.backends import Backend
from glow_nb.backends.interpreter import Interpreter
from glow_nb.base.errors import FeedError, GlowError, OptionError, StateError, UnsupportedError
from glow_nb.base.types import Array
from glow_nb.codegen.load_native import load
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, State
from glow_nb.hlir.module import Module
from glow_nb.llir.program import Program
from glow_nb.network.state_files import load_state, save_state
from glow_nb.observers import PrintDiff, WriteIR, each
from glow_nb.system.state_store import StateStore
from tests.interrupts import interrupted_at_each_line

ONES = np.ones(3, np.float32)
BACKENDS = ["interpreter", pytest.param("cpu", marks=pytest.mark.jit)]


def counter(total: State, name: str = "count") -> Function:
    """Return ``y = total``, ``total = total + x``."""
    b = Builder(name)
    x = b.input("x", "float32<3>")
    b.save(b.emit(ops.Relu(total)), "y")
    b.update(total, b.emit(ops.Add(total, x)))
    return b.function()


def twice(total: State, name: str = "twice") -> Function:
    """Return ``y = 2 total``."""
    b = Builder(name)
    b.save(b.emit(ops.Add(total, total)), "y")
    return b.function()


RUN_FILES = (
    "glow_nb/system/claims.py",
    "glow_nb/system/state_store.py",
    "glow_nb/backends/interpreter.py",
    "glow_nb/backends/cpu/executable.py",
    "glow_nb/codegen/loaded_program.py",
    "glow_nb/codegen/threads.py",
)


def new_total() -> State:
    return State.of("total", np.zeros(3, np.float32))


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_run_finds_what_the_last_one_has_left(backend: str) -> None:
    total = new_total()
    net = glow_nb.compile(counter(total), backend=backend, threads=1)
    assert [net.run(ONES)["y"][0] for _ in range(3)] == [0, 1, 2]
    np.testing.assert_array_equal(net.state["total"], 3 * ONES)
    np.testing.assert_array_equal(total.array, 0 * ONES)  # the graph keeps the first value
    again = glow_nb.compile(counter(total), backend=backend, threads=1)
    np.testing.assert_array_equal(again.state["total"], 0 * ONES)


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_of_a_module_share_their_state(backend: str) -> None:
    total = new_total()
    net = glow_nb.compile(Module((counter(total), twice(total))), backend=backend, threads=1)
    for _ in range(2):
        net["count"].run(ONES)
    np.testing.assert_array_equal(net["twice"].run({})["y"], 4 * ONES)
    net.state["total"] = 5 * ONES
    np.testing.assert_array_equal(net["count"].run(ONES)["y"], 5 * ONES)
    assert list(net) == ["count", "twice"]
    assert net["count"].state is net.state
    assert repr(net) == "<ModuleNetwork count, twice; <StateStore total: float32<3>>>"


def test_an_observer_sees_the_steps_of_all_functions(tmp_path: Path) -> None:
    total, runs = new_total(), []
    observer = each(WriteIR(tmp_path), PrintDiff(), lambda run: runs.append(run.name))
    module = Module((counter(total), twice(total)))
    glow_nb.compile(module, backend="interpreter", observer=observer)
    assert (runs.count("import"), runs.count("generate")) == (1, 2)


def test_a_program_with_state_is_compiled_from_its_text(tmp_path: Path) -> None:
    net = glow_nb.compile(counter(new_total()), backend="interpreter")
    glow_nb.save_text(net.program, tmp_path / "net.glow")
    again = glow_nb.compile(tmp_path / "net.glow", backend="interpreter")
    assert [again.run(ONES)["y"][0] for _ in range(2)] == [0, 1]
    assert "state 12 B" in str(again.memory)


def test_text_of_several_functions_is_a_module(tmp_path: Path) -> None:
    big = State.of("total", np.arange(3, dtype=np.float32))
    path = tmp_path / "two.glow"
    glow_nb.save_text(Module((counter(big), twice(big))), path)
    assert [f.name for f in glow_nb.load_module(path).functions] == ["count", "twice"]
    net = glow_nb.compile(path, backend="interpreter")
    np.testing.assert_array_equal(net["twice"].run({})["y"], [0, 2, 4])
    with pytest.raises(OptionError, match=r"the functions \['count', 'twice'\], and load"):
        glow_nb.load(path)
    with pytest.raises(OptionError, match="not IR text of graphs, in a file named .*use load"):
        glow_nb.load_module(tmp_path / "model.onnx")


def test_a_state_that_nothing_reads_any_more_stays() -> None:
    total = new_total()
    b = Builder()
    b.emit(ops.Relu(total))  # which nothing reads
    b.save(b.input("x", "float32<3>"), "y")
    net = glow_nb.compile(b.function(), backend="interpreter")
    assert list(net.state) == ["total"]


def test_what_a_network_of_several_functions_has_not() -> None:
    total = new_total()
    net = glow_nb.compile(Module((counter(total), twice(total))), backend="interpreter")
    with pytest.raises(OptionError, match=r"choose one of them: net\['count'\].run"):
        net.run(ONES)
    for what in ("inputs", "outputs", "program", "function", "memory", "kernels", "source"):
        with pytest.raises(OptionError, match=rf"net\['count'\].{what}"):
            getattr(net, what)
    with pytest.raises(OptionError, match="no function 'cont'; did you mean 'count'"):
        net["cont"]
    with pytest.raises(OptionError, match="net\\['count'\\].prepare"):
        net.prepare({})
    with pytest.raises(OptionError, match="net\\['count'\\].profile"):
        net.profile(ONES)
    assert net.threads >= 1


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ((), "module of 0 functions: .*: it has no function"),
        (("f", "f"), "several functions are called"),
    ],
)
def test_a_module_that_names_no_function_is_refused(functions: Sequence[str], message: str) -> None:
    total = new_total()
    module = Module(tuple(counter(total, name) for name in functions))
    with pytest.raises(OptionError, match=message):
        glow_nb.compile(module, backend="interpreter")


def test_two_states_of_one_name_are_refused() -> None:
    module = Module((counter(new_total()), twice(new_total())))
    with pytest.raises(StateError, match="state 'total': two states have this name"):
        glow_nb.compile(module, backend="interpreter")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_that_fails_leaves_the_state_as_it_was(backend: str) -> None:
    net = glow_nb.compile(counter(new_total()), backend=backend, threads=1)
    net.run(ONES)
    with pytest.raises(FeedError):
        net.run(np.ones(4, np.float32))
    np.testing.assert_array_equal(net.state["total"], ONES)
    np.testing.assert_array_equal(net.run(ONES)["y"], ONES)


def test_a_failure_on_the_way_leaves_the_state_as_it_was() -> None:
    total = new_total()
    b = Builder()
    x = b.input("x", "float32<3>")
    b.update(total, b.emit(ops.Add(total, x)))
    b.save(b.emit(ops.CumSum(x, axis=0, exclusive=False, reverse=False)), "y")
    net = glow_nb.compile(b.function(), backend="interpreter")

    def fail(*_: object) -> None:
        raise MemoryError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ops.CumSum, "evaluate", fail)
        with pytest.raises(GlowError):
            net.run(ONES)
    np.testing.assert_array_equal(net.state["total"], 0 * ONES)
    net.run(ONES)
    np.testing.assert_array_equal(net.state["total"], ONES)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_second_run_at_a_time_is_refused(backend: str) -> None:
    total = new_total()
    net = glow_nb.compile(Module((counter(total), twice(total))), backend=backend, threads=1)
    with net.state.for_a_run():
        for name, feeds in (("count", {"x": ONES}), ("twice", {})):
            with pytest.raises(StateError, match="in use by another run"):
                net[name].run(feeds)
        with pytest.raises(StateError, match="in use by another run"):
            net.state["total"]
        with pytest.raises(StateError, match="in use by another run"):
            net.state["total"] = ONES
    net["count"].run(ONES)


@pytest.mark.jit
def test_no_run_of_many_threads_is_lost() -> None:
    state = State.of("total", np.zeros(1 << 16, np.float32))
    b = Builder()
    b.update(state, b.emit(ops.Add(state, b.input("x", "float32<65536>"))))
    net = glow_nb.compile(b.function(), threads=2)
    done, refused, ones = [], [], np.ones(1 << 16, np.float32)

    def run() -> None:
        for _ in range(200):
            try:
                net.run(ones)
                done.append(1)
            except StateError:
                refused.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) + len(refused) == 800
    assert set(net.state["total"].tolist()) == {len(done)}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_that_is_interrupted_at_any_line_locks_nothing(backend: str) -> None:
    """Tracebacks, which keep the variables of a run, are kept, as an interactive session does."""
    net = glow_nb.compile(counter(new_total()), backend=backend, threads=1)
    net.run(ONES)
    kept = []

    def run() -> None:
        try:
            net.run(ONES)
        except KeyboardInterrupt as error:
            kept.append(error)
            raise

    for _ in interrupted_at_each_line(run, "glow_nb/network/network.py", *RUN_FILES):
        before = net.state["total"]
        net.run(ONES)
        np.testing.assert_array_equal(net.state["total"], before + 1)
    assert len(kept) > 20


def test_an_assignment_that_is_interrupted_changes_all_states_or_none() -> None:
    store = StateStore([State.of(name, 0 * ONES) for name in "abc"])
    new = dict.fromkeys("abc", ONES)
    for _ in interrupted_at_each_line(lambda: store.put_all(new | {"d": ONES}), *RUN_FILES):
        assert {float(array[0]) for array in store.values()} in ({0.0}, {1.0})
        store.update_all(dict.fromkeys(store, 0 * ONES))
    assert list(store) == ["a", "b", "c", "d"]


def test_another_thread_goes_on_after_an_interrupted_run() -> None:
    store = StateStore([State.of("a", ONES)])
    begun = threading.Event()

    def interrupted() -> None:
        store.for_a_run().__enter__()  # and never gives it back
        begun.set()

    thread = threading.Thread(target=interrupted)
    thread.start()
    begun.wait()
    thread.join()
    store["a"] = 2 * ONES


def test_a_run_on_an_exit_stack_is_in_progress_until_its_end() -> None:
    store = StateStore([State.of("a", ONES)])
    with ExitStack() as stack:
        stack.enter_context(store.for_a_run())
        with pytest.raises(StateError, match="in use by another run"):
            store["a"] = ONES
    store["a"] = ONES


def test_who_reads_holds_up_a_run_and_nobody_else() -> None:
    net = glow_nb.compile(counter(new_total()), backend="interpreter")
    with net.state.for_reading() as arrays:
        run = threading.Thread(target=net.run, args=(ONES,))
        run.start()
        run.join(0.05)
        assert run.is_alive()
        np.testing.assert_array_equal(arrays["total"], 0 * ONES)
    run.join()
    np.testing.assert_array_equal(net.state["total"], ONES)


def test_states_may_be_empty_or_a_number() -> None:
    b = Builder()
    empty, number = b.state("empty", ONES[:0]), b.state("number", np.array(1, np.int64))
    b.update(empty, b.emit(ops.Neg(empty)))
    b.update(number, b.emit(ops.Add(number, number)))
    net = glow_nb.compile(b.function(), backend="interpreter")
    for _ in range(3):
        assert net.run({}) == {}
    assert net.state["number"] == 8


def test_what_does_not_fit_is_refused() -> None:
    net = glow_nb.compile(counter(new_total()), backend="interpreter")
    with pytest.raises(StateError, match="is float32<3>, the array is float64 of shape \\[3\\]"):
        net.state["total"] = np.ones(3)
    with pytest.raises(StateError, match="is float32<3>, the array is float32 of shape \\[2\\]"):
        net.state["total"] = ONES[:2]
    with pytest.raises(StateError, match="state 'total': None is no array of numbers"):
        net.state["total"] = None  # type: ignore[assignment]
    with pytest.raises(StateError, match="no state 'totl'; did you mean 'total'"):
        net.state["totl"] = ONES
    with pytest.raises(StateError, match="no state 'totl'"):
        net.state["totl"]
    with pytest.raises(StateError, match="cannot be deleted"):
        del net.state["total"]
    with pytest.raises(StateError, match="state 'a'.*; .*state 'b'"):
        net.state.update_all({"total": ONES, "a": ONES, "b": ONES})
    np.testing.assert_array_equal(net.state["total"], 0 * ONES)


def test_what_is_read_is_a_copy() -> None:
    net = glow_nb.compile(counter(new_total()), backend="interpreter")
    net.state["total"][...] = 7
    np.testing.assert_array_equal(net.state["total"], 0 * ONES)


class Forgetful(Interpreter, Backend):
    """A backend whose executables know nothing of state."""

    @override
    def compile(self, program: Program, *, threads: int = 1) -> object:  # type: ignore[override]
        inner = super().compile(program, threads=threads)

        class OnlyRuns:
            kernels, source = inner.kernels, inner.source
            constant_bytes, scratch_bytes = inner.constant_bytes, inner.scratch_bytes

            def run(self, inputs: Sequence[Array]) -> list[Array]:
                return inner.run(inputs)

        return OnlyRuns()


def test_a_backend_without_state_is_named() -> None:
    with pytest.raises(UnsupportedError, match="OnlyRuns runs no program with state; .*run_on"):
        glow_nb.compile(counter(new_total()), backend=Forgetful())


@pytest.mark.jit
def test_a_native_program_carries_the_first_value() -> None:
    net = glow_nb.compile(counter(State.of("total", 3 * ONES)), threads=1)
    again = NativeProgram.from_bytes(net.executable.native.to_bytes())  # type: ignore[attr-defined]
    assert [(s.name, str(s.type)) for s in again.state] == [("total", "float32<3>")]
    loaded, state = load(again), StateStore(again.state)
    for expected in (3, 4, 5):
        np.testing.assert_array_equal(loaded.run([ONES], state)[0], expected * ONES)
    np.testing.assert_array_equal(loaded.run([ONES])[0], 3 * ONES)  # a first run of its own
    with pytest.raises(StateError, match="state 'total' : float32<3>: the store holds none of"):
        loaded.run([ONES], StateStore())
    with pytest.raises(StateError, match="the store holds one of float32<2>"):
        loaded.run([ONES], StateStore([State.of("total", ONES[:2])]))


@pytest.mark.jit
def test_a_profile_leaves_the_state_as_it_is() -> None:
    net = glow_nb.compile(counter(new_total()), threads=1)
    net.run(ONES)
    net.profile(ONES, runs=3, limits=False)
    np.testing.assert_array_equal(net.state["total"], ONES)


def of_all_kinds() -> StateStore:
    rng = np.random.default_rng(0)
    kinds = ("bool", "uint8", "int8", "uint16", "int32", "uint64", "int64", "float16", "float64")
    states = [State.of(f"layer/{k} 1", rng.integers(0, 2, (2, 3)).astype(k)) for k in kinds]
    for kind in (
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
        ml_dtypes.int4,
    ):
        states.append(State.of(np.dtype(kind).name, rng.integers(-4, 4, (4,)).astype(kind)))
    states += [State.of("number", np.array(2.5, np.float32)), State.of("none", ONES[:0])]
    return StateStore(states)


def test_state_of_every_kind_comes_back_from_its_file(tmp_path: Path) -> None:
    state, other = of_all_kinds(), of_all_kinds()
    path = tmp_path / "state.safetensors"
    save_state(state, path)
    for name, array in other.items():
        other[name] = np.zeros_like(array)
    load_state(other, path)
    for name, array in state.items():
        assert other[name].dtype == array.dtype
        np.testing.assert_array_equal(other[name], array)
    assert os.listdir(tmp_path) == ["state.safetensors"]


def test_other_programs_read_the_file(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    net = glow_nb.compile(counter(State.of("total", 2 * ONES)), backend="interpreter")
    net.run(ONES)
    path = tmp_path / "total.safetensors"
    net.save_state(path)
    np.testing.assert_array_equal(load_file(path)["total"], 3 * ONES)
    net.run(ONES)
    net.load_state(path)
    np.testing.assert_array_equal(net.state["total"], 3 * ONES)


def test_a_file_of_another_network_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    save_state(StateStore([State.of("a", ONES), State.of("b", ONES)]), path)
    state = StateStore([State.of("a", ONES[:2]), State.of("c", ONES)])
    with pytest.raises(StateError) as caught:
        load_state(state, path)
    assert str(caught.value) == (
        f"{path}: not the state of this network: it lacks 'c' : float32<3>; it has "
        "'b' : float32<3>, which the network has not; 'a' is float32<3>, the network has "
        "float32<2>; give its own file"
    )
    np.testing.assert_array_equal(state["c"], ONES)


def test_files_that_are_no_state_are_refused(tmp_path: Path) -> None:
    state = StateStore([State.of("a", ONES)])
    path = tmp_path / "state.safetensors"
    with pytest.raises(StateError, match="cannot be read: No such file"):
        load_state(state, path)
    with pytest.raises(StateError, match="cannot be read: Is a directory"):
        load_state(state, tmp_path)
    save_state(state, path)
    content = path.read_bytes()
    for damaged in (b"", content[:7], content[:-1], b"\xff" * 40, content[:20] + b"\0" * 40):
        path.write_bytes(damaged)
        with pytest.raises(StateError, match="not a file of state"):
            load_state(state, path)
    with pytest.raises(GlowError, match="not a regular file"):
        save_state(state, tmp_path)
    with pytest.raises(GlowError, match="cannot be written"):
        save_state(state, tmp_path / "absent" / "state.safetensors")


SAVING = """
import itertools, sys
import numpy as np
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from glow_nb.hlir.graph import State
from glow_nb.network.state_files import save_state
from glow_nb.system.state_store import StateStore

store = StateStore([State.of("a", np.zeros(1 << 20, np.float32))])
for number in itertools.count():
    store["a"] = np.full(1 << 20, number, np.float32)
    save_state(store, Path(sys.argv[1]))
    print(number, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_process_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    state = StateStore([State.of("a", np.zeros(1 << 20, np.float32))])
    for wait_ms in (0, 3, 7, 12, 20):
        command = [sys.executable, "-c", SAVING, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            said = process.stdout.readline()
            time.sleep(wait_ms / 1000)
            process.send_signal(signal.SIGKILL)
            said += process.stdout.read()
        load_state(state, path)
        (number,) = set(state["a"].tolist())
        last = int(said.split()[-1])
        assert number in (last, last + 1)  # one more may be in place that was not told of


def test_networks_share_a_state_that_is_given() -> None:
    total, other = (State.of("total", np.zeros(3, np.float32)) for _ in range(2))
    first = glow_nb.compile(counter(total), backend="interpreter")
    second = glow_nb.compile(counter(other), backend="interpreter", state=first.state)
    for network in (first, second, first):
        network.run(ONES)
    np.testing.assert_array_equal(first.state["total"], 3 * ONES)
    wide = State.of("total", np.zeros((1, 3), np.float32))
    b = Builder("wide")
    b.update(wide, b.emit(ops.Relu(wide)))
    with pytest.raises(StateError, match=r"'total': the store holds one of float32<3>, the netw"):
        glow_nb.compile(b.function(), backend="interpreter", state=first.state)


@pytest.mark.parametrize("wrong", [{"total": np.zeros(3)}, 3])
def test_what_is_no_state_is_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="give the state of another network, net.state"):
        glow_nb.compile(counter(State.of("total", np.zeros(3, np.float32))), state=wrong)
