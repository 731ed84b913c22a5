"""Networks with state: what runs leave behind, and what a module of several functions shares."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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
from glow_nb.hlir.graph import State
from glow_nb.hlir.module import Module
from glow_nb.llir.program import Program
from glow_nb.observers import PrintDiff, WriteIR, each
from glow_nb.system.state_store import StateStore
from tests.unit.network.stateful import BACKENDS, ONES, counter, new_total, twice


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


def test_states_may_be_empty_or_a_number() -> None:
    b = Builder()
    empty, number = b.state("empty", ONES[:0]), b.state("number", np.array(1, np.int64))
    b.update(empty, b.emit(ops.Neg(empty)))
    b.update(number, b.emit(ops.Add(number, number)))
    net = glow_nb.compile(b.function(), backend="interpreter")
    for _ in range(3):
        assert net.run({}) == {}
    assert net.state["number"] == 8


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


def _pickled(state: object) -> Any:
    return pickle.loads(pickle.dumps(state))


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, _pickled])
def test_a_copy_of_the_state_is_a_dict_of_arrays(copying: Callable[[Any], Any]) -> None:
    net = glow_nb.compile(counter(new_total()), backend="interpreter")
    net.run(ONES)
    kept = copying(net.state)
    net.run(ONES)
    assert type(kept) is dict
    np.testing.assert_array_equal(kept["total"], ONES)
    net.state.update(kept)
    np.testing.assert_array_equal(net.run(ONES)["y"], ONES)
