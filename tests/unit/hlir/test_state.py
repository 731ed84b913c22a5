"""States in graphs: read as they were at the beginning of a run, saved for the next one."""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import FeedError, GlowError, VerifyError
from glow_nb.base.types import Array
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, State
from glow_nb.hlir.module import Module
from glow_nb.hlir.parse import parse_module
from glow_nb.hlir.print import external_constants, print_module
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.hlir.save import Save
from glow_nb.hlir.schedule import schedule
from glow_nb.hlir.verify import verify, verify_module

ZEROS = np.zeros(3, np.float32)
ONES = np.ones(3, np.float32)


def running_sum() -> Function:
    """Return ``y = 2 total``, ``total = total + x``; the update is made before the read."""
    b = Builder()
    x, total = b.input("x", "float32<3>"), b.state("total", ZEROS)
    b.update(total, b.emit(ops.Add(total, x)))
    b.save(b.emit(ops.Add(total, total)), "y")
    return b.function()


def exchange() -> Function:
    """Return ``a, b = b, a``."""
    b = Builder()
    left, right = b.state("a", ZEROS), b.state("b", ONES)
    b.update(left, right)
    b.update(right, left)
    return b.function()


def test_a_read_gives_the_value_at_the_beginning_of_the_run() -> None:
    function = running_sum()
    verify(function)
    state: dict[str, Array] = {}
    found = [glow_nb.evaluate(function, {"x": ONES}, state)["y"][0] for _ in range(3)]
    assert found == [0, 2, 4]
    np.testing.assert_array_equal(state["total"], 3 * ONES)


def test_without_state_each_evaluation_is_a_first_run() -> None:
    function = running_sum()
    for _ in range(2):
        np.testing.assert_array_equal(glow_nb.evaluate(function, {"x": ONES})["y"], ZEROS)


def test_saves_take_place_together() -> None:
    function = exchange()
    verify(function)
    state: dict[str, Array] = {}
    assert glow_nb.evaluate(function, {}, state) == {}
    np.testing.assert_array_equal(state["a"], ONES)
    np.testing.assert_array_equal(state["b"], ZEROS)


def test_a_state_of_another_shape_is_refused() -> None:
    with pytest.raises(FeedError, match=r"state 'total': shape is \[2\], the network takes \[3\]"):
        glow_nb.evaluate(running_sum(), {"x": ONES}, {"total": ZEROS[:2]})


def test_a_second_update_is_refused() -> None:
    b = Builder("step")
    x, total = b.input("x", "float32<3>"), b.state("total", ZEROS)
    b.update(total, x)
    with pytest.raises(GlowError, match="'step': save %total_save updates it already"):
        b.update(total, x)


def test_an_update_must_fit_its_state() -> None:
    b = Builder()
    with pytest.raises(VerifyError, match="does not fit placeholder %total : float32<3>"):
        b.update(b.state("total", ZEROS), b.input("x", "float32<4>"))


def test_a_pass_may_read_an_old_value_anywhere() -> None:
    function = running_sum()

    def rule(node: object, rewriter: Rewriter) -> Replacement:
        if isinstance(node, Save) and isinstance(node.output, State):
            rewriter.emit(ops.Neg(node.output))  # lands right before the save of the next value
            rewriter.emit(Save(node.input, node.output), name="kept")
            return ()
        return None

    changed = rewrite(function, rule)
    verify(changed)
    assert isinstance(changed.nodes[-1], Save)


def test_functions_that_go_on_know_the_names_of_states() -> None:
    builder = Builder.continuing(running_sum())
    assert builder.unique_name("total") == "total_1"


def test_a_module_shares_states_and_reads_back() -> None:
    weight = State.of("w", np.arange(12, dtype=np.float32))
    train, infer = Builder("train"), Builder("infer")
    for builder, size in ((train, 2), (infer, 1)):
        x = builder.input("x", f"float32<{size} x 12>")  # its own, though it is called the same
        row = builder.emit(ops.Reshape(weight, (1, 12)))
        builder.save(builder.emit(ops.Add(x, row)), "y")
    train.update(weight, train.emit(ops.Neg(weight)))
    module = Module((train.function(), infer.function()))
    verify_module(module)
    assert module.state == (weight,)
    text = print_module(module)
    again = parse_module(text, constants=external_constants(module))
    assert print_module(again) == text
    (state,) = again.state
    assert again["train"].state == again["infer"].state == (state,)
    np.testing.assert_array_equal(state.array, weight.array)


def test_two_states_of_one_name_are_refused() -> None:
    functions = []
    for name in ("f", "g"):
        b = Builder(name)
        b.save(b.state("w", ZEROS), "y")
        functions.append(b.function())
    with pytest.raises(VerifyError, match="the name is not unique in the module"):
        verify_module(Module(tuple(functions)))


def test_numbers_that_were_not_supplied_are_missed() -> None:
    text = "state %w : float32<2> = external\nfunc @main() -> (%y : float32<2>) {\n"
    (function,) = parse_module(text + "  %s = save(%w, %y)\n}\n").functions
    with pytest.raises(GlowError, match="state %w : float32<2>: its numbers are external"):
        glow_nb.evaluate(function, {})


def test_gradients_are_made_for_states() -> None:
    b = Builder()
    w = b.state("w", ONES[:1])
    b.save(b.emit(ops.Mul(w, w)), "loss")
    function = glow_nb.differentiate(b.function(), ["w"], "loss")
    np.testing.assert_array_equal(glow_nb.evaluate(function, {})["d_w"], 2 * ONES[:1])


def test_what_overwrites_a_state_is_scheduled_behind_its_readers() -> None:
    b = Builder()
    x = b.input("x", "float32<3 x 3>")
    w, v = b.state("w", np.ones((3, 3), np.float32)), b.state("v", np.ones((3, 3), np.float32))
    new_w, new_v = b.emit(ops.Add(w, v)), b.emit(ops.Sub(w, v))  # each reads both
    flat = b.emit(ops.Reshape(w, (9,)))
    b.update(w, new_w)
    b.update(v, new_v)
    b.save(b.emit(ops.MatMul(x, v)), "y")
    b.save(b.emit(ops.Neg(flat)), "z")
    scheduled = schedule(b.function())
    verify(scheduled)
    order = [node.name for node in scheduled.nodes]
    assert order.index("neg") < order.index("add") < order.index("sub")
    assert order.index("mat_mul") < order.index("sub")
    assert schedule(scheduled) is scheduled


@pytest.mark.parametrize("backend", ["interpreter", pytest.param("cpu", marks=pytest.mark.jit)])
def test_a_pass_may_add_a_state(backend: str) -> None:
    def offset(function: Function) -> Function:
        def rule(node: ops.Relu, rewriter: Rewriter) -> Replacement:
            state = rewriter.state("offset", np.ones(4, np.float32))
            return rewriter.emit(ops.Add(node.input, state))

        return rewrite(function, rule, ops.Relu)

    builder = Builder()
    builder.save(builder.emit(ops.Relu(builder.input("x", "float32<4>"))), "y")
    network = glow_nb.compile(builder.function(), backend=backend, pipeline=(offset,))
    np.testing.assert_array_equal(network.run(np.ones(4, np.float32))["y"], np.full(4, 2.0))
    assert list(network.state) == ["offset"]
