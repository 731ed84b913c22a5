"""The driver of named steps: both levels, stopping, observing, and what it refuses."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import DefinitionError, OptionError, PassError, VerifyError
from glow_nb.base.passes import STEP_NAMES, PassRun
from glow_nb.base.steps import Entries, Repeat, Step
from glow_nb.compiler.driver import STEPS, check, run, run_to, runs_of
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import FullyConnected, Relu
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Rewriter, rewrite
from glow_nb.llir.program import Program
from glow_nb.network.files import parse_text

LOWERING = ("verify", "lower", "eliminate_dead_nodes", "schedule", "generate")


def dense() -> Function:
    b = Builder()
    x, w = b.input("x", "float32<2 x 3>"), b.constant("w", np.ones((3, 4), np.float32))
    product = b.emit(FullyConnected(x, w, b.constant("b", np.ones(4, np.float32))))
    b.save(b.emit(Relu(product)), "y")
    return b.function()


def test_an_order_goes_through_both_levels_and_every_step_is_told() -> None:
    told: list[PassRun] = []
    order = (*LOWERING, "peephole", "allocate", "check_placement")
    program = run_to(Program, dense(), order, told.append)
    assert program.arena is not None
    assert tuple(run.name for run in told) == order
    assert told[-1].after is program
    assert all(one.after is next.before for one, next in pairwise(told))


def test_a_program_from_text_starts_in_the_middle() -> None:
    text = str(run(dense(), LOWERING))
    placed = run(parse_text(text), ("eliminate_dead_stores", "allocate"))
    assert isinstance(placed, Program) and placed.arena is not None


def test_a_step_has_options() -> None:
    kept = run(dense(), (Step("lower", {"should_lower": lambda _: False}),))
    assert isinstance(kept, Function) and "= fully_connected(" in str(kept)
    assert "= fully_connected(" not in str(run(dense(), ("lower",)))


def test_a_pass_that_changes_a_program_takes_its_placement_away() -> None:
    placed = run_to(Program, dense(), (*LOWERING, "allocate"))
    assert run(placed, ("eliminate_dead_stores",)) is placed
    shrunk = run_to(Program, placed, ("stack_instructions",))
    assert shrunk is not placed and shrunk.arena is None


def test_all_runs_of_a_step_up_to_the_last() -> None:
    def boom(function: Function) -> Function:
        raise AssertionError("comes after the last run")

    twice: Entries = ("fold_constants", Repeat(("fold_constants", "eliminate_dead_nodes")), boom)
    runs = runs_of("fold_constants", dense(), twice)
    assert [run.name for run in runs] == ["fold_constants"] * len(runs) and len(runs) >= 2
    with pytest.raises(OptionError, match="unknown step 'fold_constant'; did you mean 'fold_cons"):
        runs_of("fold_constant", dense(), twice)
    with pytest.raises(OptionError, match=r"unknown step 'nothing'\n  steps: fold_constants, elim"):
        runs_of("nothing", dense(), twice)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (("lowr",), "unknown graph pass 'lowr'; did you mean 'lower'?"),
        (("generate", "peephol"), "unknown instruction pass 'peephol'; did you mean 'peephole'"),
        (("peephole",), "instruction pass 'peephole': it takes a program, but would get a graph"),
        (("allocate",), "step 'allocate': it takes a program, but would get a graph; generate"),
        (("generate", "lower"), "step 'lower': it takes a graph, but would get a program"),
        (("generate", "fold_constants"), "graph pass 'fold_constants': it takes a graph"),
        ((Step("lower", {"should": 1}),), "step 'lower' has no option 'should'; did you mean"),
        ((Step("generate", {"x": 1}),), "step 'generate' has no option 'x'"),
        ((Repeat(("lower",)),), "unknown graph pass 'lower'"),
        (("nothing",), "unknown graph pass 'nothing'\n  steps: verify, "),
    ],
)
def test_a_wrong_order_is_refused_before_anything_runs(order: Entries, message: str) -> None:
    told: list[PassRun] = []
    with pytest.raises(OptionError, match=message.replace("?", r"\?")):
        run(dense(), ("verify", *order), told.append)
    assert not told
    with pytest.raises(OptionError):
        check(Function, order)


def test_verify_knows_both_levels() -> None:
    function = dense()
    with pytest.raises(VerifyError):
        run(function.with_nodes(list(function.nodes)[::-1]), ("verify",))
    program = run_to(Program, function, LOWERING)
    assert run(program, ("verify",)) is program


def test_every_step_is_one_that_observers_know() -> None:
    assert [name for name in STEP_NAMES if name in STEPS] == list(STEPS)


def test_a_step_that_needs_an_option_says_so() -> None:
    with pytest.raises(OptionError, match="step 'differentiate' needs the option 'wrt'"):
        check(Function, ("differentiate",))
    check(Function, (Step("differentiate", {"wrt": ["w"]}),))


def test_no_pass_takes_the_name_of_a_step() -> None:
    def lower(function: Function) -> Function:
        return function

    with pytest.raises(DefinitionError, match="'lower': the compiler has a step of this name"):
        register_pass(lower)


def test_functions_stand_in_both_pipelines_of_compile() -> None:
    told: list[PassRun] = []

    def drop_relu(function: Function) -> Function:
        def rule(node: Node, rewriter: Rewriter) -> Value | None:
            return node.input if isinstance(node, Relu) else None

        return rewrite(function, rule)

    def leave_alone(program: Program, *, really: bool = False) -> Program:
        assert really
        return program

    net = glow_nb.compile(
        dense(),
        backend="interpreter",
        pipeline=(drop_relu, "eliminate_dead_nodes"),
        program_pipeline=(Step(leave_alone, {"really": True}), *glow_nb.INSTRUCTIONS),
        observer=told.append,
    )
    assert (net.run(np.full((2, 3), -1, np.float32))["y"] == -2).all()
    names = [run.name for run in told]
    assert names.count("drop_relu") == 2 and names.count("leave_alone") == 1


@pytest.mark.parametrize("level", ["pipeline", "program_pipeline"])
def test_what_a_pass_of_a_user_does_wrong_names_it(level: str) -> None:
    def forgets_to_return(ir: object) -> None:
        return None

    def has_a_mistake(ir: object) -> None:
        raise IndexError("list index out of range")

    kind = "Function" if level == "pipeline" else "Program"
    advice = {"pipeline": "function.with_nodes", "program_pipeline": "program.with_instructions"}
    options: dict[str, Any] = {level: (forgets_to_return,)}
    with pytest.raises(
        PassError,
        match=f"'forgets_to_return'.* returned None and not a {kind}; return {advice[level]}",
    ):
        glow_nb.compile(dense(), backend="interpreter", **options)
    options = {level: (has_a_mistake,)}
    with pytest.raises(PassError, match="pass 'has_a_mistake'.*: IndexError: list") as caught:
        glow_nb.compile(dense(), backend="interpreter", **options)
    assert isinstance(caught.value.__cause__, IndexError)
