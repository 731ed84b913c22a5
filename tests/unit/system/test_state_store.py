"""The arrays of a state: runs and readers at a time, interrupts, and what does not fit."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import StateError
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import State
from glow_nb.hlir.module import Module
from glow_nb.system.state_store import StateStore
from tests.interrupts import interrupted_at_each_line
from tests.unit.network.stateful import BACKENDS, ONES, counter, new_total, twice

RUN_FILES = (
    "glow_nb/system/claims.py",
    "glow_nb/system/state_store.py",
    "glow_nb/backends/interpreter.py",
    "glow_nb/backends/interpreter_steps.py",
    "glow_nb/backends/cpu/executable.py",
    "glow_nb/codegen/loaded_program.py",
    "glow_nb/codegen/threads.py",
)


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
    assert net.state.get("totl") is None
    with pytest.raises(StateError, match="cannot be deleted"):
        del net.state["total"]
    with pytest.raises(StateError, match="state 'a'.*; .*state 'b'"):
        net.state.update_all({"total": ONES, "a": ONES, "b": ONES})
    np.testing.assert_array_equal(net.state["total"], 0 * ONES)


def test_what_is_read_is_a_copy() -> None:
    net = glow_nb.compile(counter(new_total()), backend="interpreter")
    net.state["total"][...] = 7
    np.testing.assert_array_equal(net.state["total"], 0 * ONES)
