"""``bisect`` finds passes, instruction passes and kernels that were broken on purpose."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import glow_nb
from glow_nb import bisection
from glow_nb.backends import backend_named
from glow_nb.backends.backend import Backend, Executable
from glow_nb.backends.cpu import planned_calls
from glow_nb.backends.interpreter import InterpretedProgram, Interpreter
from glow_nb.base.errors import FeedError, ModelError, OptionError, PassError, VerifyError
from glow_nb.base.size import Symbol
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.bisection.kernels import cut_after, distance_of_written
from glow_nb.bisection.states import Evaluator, culprit_value
from glow_nb.compiler import pipelines
from glow_nb.compiler.program_passes import PROGRAM_PASSES
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.hlir.rewrite import Rewriter, rewrite
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Instruction, Program, mutated
from glow_nb.llir.stack import StackInst
from glow_nb.llir.verify import verify
from tests.unit.commands.samples import call, fails, write_dense, write_graph

AddInst = instruction_for(ops.Add)
SubInst = instruction_for(ops.Sub)

X = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)


def graph() -> Function:
    """Return two matrix products with elementwise work between and after them."""
    rng = np.random.default_rng(1)
    b = glow_nb.Builder("main")
    x = b.input("x", "float32<4 x 6>")
    w, v = (b.constant(n, rng.normal(size=(6, 6)).astype(np.float32)) for n in "wv")
    first = b.emit(ops.Tanh(b.emit(ops.MatMul(x, w), "first")), "squashed")
    second = b.emit(ops.MatMul(first, v), "second")
    total = b.emit(ops.Add(second, x), "total")
    b.save(b.emit(ops.Softmax(b.emit(ops.Relu(total), "positive"), axis=1), "scores"), "y")
    return b.function()


def break_tanh(function: Function) -> Function:
    """Replace tanh by sigmoid, which nobody asked for."""

    def rule(node: Node, rewriter: Rewriter) -> Value | None:
        return rewriter.emit(ops.Sigmoid(node.input)) if isinstance(node, ops.Tanh) else None

    return rewrite(function, rule)


def subtracting(instruction: Instruction) -> Instruction:
    """Return *instruction* with a subtraction for each addition."""
    if isinstance(instruction, StackInst):
        return StackInst.of(map(subtracting, instruction.body))
    if isinstance(instruction, AddInst):
        dest, lhs, rhs = instruction.dest, instruction.lhs, instruction.rhs
        subtraction: Instruction = SubInst(dest, lhs, rhs, name=instruction.name)
        return subtraction
    return instruction


def break_add(program: Program) -> Program:
    """Subtract where an addition stood."""
    found = [subtracting(instruction) for instruction in program.instructions]
    same = all(new is old for new, old in zip(found, program.instructions, strict=True))
    return program if same else program.with_instructions(found)


class BrokenKernels(Backend):
    """A backend whose kernel for one opcode adds one."""

    name = "broken"
    graph_pipeline = ()

    def __init__(self, opcode: str) -> None:
        self._opcode = opcode

    @override
    def compile(self, program: Program, *, threads: int) -> Executable:
        opcode = self._opcode

        class Broken(InterpretedProgram):
            @override
            def run(self, inputs: Sequence[Array], **options: Any) -> list[Array]:
                def spoil(instruction: Instruction, array: Array) -> None:
                    if instruction.opcode == opcode:
                        array += 1

                return super().run(inputs, **(options | {"watch": spoil}))

        return Broken(program)


@pytest.fixture
def broken_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GRAPH_PASSES.passes, "break_tanh", break_tanh)
    monkeypatch.setitem(PROGRAM_PASSES.passes, "break_add", break_add)


def test_a_sound_compiler_has_no_culprit() -> None:
    found = bisection.bisect(graph(), X, backend="interpreter")
    assert found.first_bad is None
    assert found.steps[0].step == "import"
    assert [step.number for step in found.steps] == list(range(len(found.steps)))
    assert [step.level for step in found.steps[-2:]] == ["program", "code"]
    assert max(step.distance for step in found.steps) < 1e-5
    assert str(found).startswith(f"all {len(found.steps)} states agree")


@pytest.mark.jit
def test_machine_code_is_the_last_step() -> None:
    found = bisection.bisect(graph(), {"x": X}, backend="cpu", threads=2)
    assert (found.first_bad, found.steps[-1].step) == (None, "cpu")


@pytest.mark.usefixtures("broken_passes")
@pytest.mark.parametrize("keep_going", [False, True])
def test_a_broken_graph_pass_is_named_with_its_node(keep_going: bool) -> None:
    pipeline = (*pipelines.INFERENCE, "break_tanh", "eliminate_dead_nodes")
    found = bisection.bisect(
        graph(), X, backend="interpreter", pipeline=pipeline, keep_going=keep_going
    )
    assert found.first_bad is not None
    assert (found.first_bad.step, found.first_bad.level) == ("break_tanh", "graph")
    assert found.value == "squashed"
    assert (found.steps[-1] == found.first_bad) is not keep_going
    assert "break_tanh, is the first that differs" in str(found)


@pytest.mark.usefixtures("broken_passes")
@pytest.mark.parametrize("place", [0, 2, len(pipelines.INSTRUCTIONS)])
def test_a_broken_instruction_pass_is_named_with_its_instruction(place: int) -> None:
    steps = list(pipelines.INSTRUCTIONS)
    steps.insert(place, "break_add")
    found = bisection.bisect(graph(), X, backend="interpreter", program_pipeline=tuple(steps))
    assert found.first_bad is not None
    assert (found.first_bad.step, found.first_bad.level) == ("break_add", "program")
    assert found.value == "total"
    assert found.nodes == ("total",)


def test_a_broken_kernel_is_named() -> None:
    for opcode, node in (("tanh", "squashed"), ("add", "total")):
        found = bisection.bisect(graph(), X, backend=BrokenKernels(opcode), program_pipeline=())
        assert found.first_bad is not None
        assert (found.first_bad.step, found.first_bad.level) == ("broken", "code")
        assert found.value == node
        assert found.instruction.startswith(f"{opcode} @out ")


@pytest.mark.jit
def test_broken_machine_code_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(instruction: Instruction, target: Target) -> KernelSource:
        return generate_kernel(subtracting(instruction), target)

    monkeypatch.setattr(planned_calls, "generate_kernel", broken)
    found = bisection.bisect(graph(), X, backend="cpu", threads=1)
    assert found.first_bad is not None
    assert (found.first_bad.step, found.first_bad.level) == ("cpu", "code")
    assert "add @out " in found.instruction


def step() -> Function:
    """Return a step whose only result is the next value of a state."""
    b = glow_nb.Builder("main")
    state, x = b.state("w", X), b.input("x", "float32<4 x 6>")
    squashed = b.emit(ops.Tanh(state), "squashed")
    b.update(state, b.emit(ops.Add(squashed, x), "total"))
    return b.function()


@pytest.mark.usefixtures("broken_passes")
def test_a_pass_that_breaks_the_next_value_of_a_state_is_named() -> None:
    pipeline = (*pipelines.INFERENCE, "break_tanh", "eliminate_dead_nodes")
    found = bisection.bisect(step(), X, backend="interpreter", pipeline=pipeline)
    assert found.first_bad is not None
    assert (found.first_bad.step, found.value) == ("break_tanh", "squashed")


def test_a_kernel_that_breaks_the_next_value_of_a_state_is_named() -> None:
    found = bisection.bisect(step(), X, backend=BrokenKernels("add"), program_pipeline=())
    assert found.first_bad is not None
    assert (found.first_bad.level, found.value) == ("code", "total")


def test_the_nodes_of_the_model_are_named() -> None:
    function = dataclasses.replace(graph(), origins={"squashed": ("a", "b")})
    found = bisection.bisect(function, X, backend=BrokenKernels("tanh"), program_pipeline=())
    assert found.nodes == ("a", "b")
    assert "first in %squashed of %a, %b" in str(found)


def test_a_value_that_only_moved_is_no_culprit() -> None:
    """A pass may give a name to something else on the way, if what comes out is the same."""

    def chain(scale: float, unscale: float, shift: float) -> Function:
        b = glow_nb.Builder("main")
        x = b.input("x", "float32<4 x 6>")
        one, other, third = (
            b.constant(name, np.full((1, 1), value, np.float32))
            for name, value in (("one", scale), ("other", unscale), ("third", shift))
        )
        scaled = b.emit(ops.Mul(x, one), "scaled")
        back = b.emit(ops.Mul(scaled, other), "back")
        b.save(b.emit(ops.Add(back, third), "shifted"), "y")
        return b.function()

    evaluate = Evaluator({"x": X})
    right = evaluate(chain(2, 0.5, 0))
    assert culprit_value(right, evaluate(chain(4, 0.25, 1)), 1e-4) == "shifted"
    assert culprit_value(right, evaluate(chain(4, 0.5, 0)), 1e-4) == "scaled"
    assert culprit_value(right, evaluate(chain(4, 0.25, 0)), 1e-4) == ""


@pytest.mark.usefixtures("broken_passes")
def test_a_pass_that_fails_is_reported_unless_an_earlier_one_is_wrong() -> None:
    def fail(function: Function) -> Function:
        raise VerifyError(function, "on purpose")

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(GRAPH_PASSES.passes, "fail", fail)
        with pytest.raises(PassError, match="on purpose"):
            bisection.bisect(graph(), X, backend="interpreter", pipeline=("fail",))
        found = bisection.bisect(graph(), X, backend="interpreter", pipeline=("break_tanh", "fail"))
    assert found.first_bad is not None
    assert found.first_bad.step == "break_tanh"


def test_wrong_arguments() -> None:
    wrong: tuple[Any, ...] = (-1.0, float("nan"), float("inf"), 10**400, "1e-4", True)
    for tolerance in wrong:
        with pytest.raises(OptionError, match="tolerance=.*: give a number of at least 0"):
            bisection.bisect(graph(), X, tolerance=tolerance)
    with pytest.raises(FeedError):
        bisection.bisect(graph(), X[:2])
    with pytest.raises(OptionError, match="unknown backend"):
        bisection.bisect(graph(), X, backend="gpu")
    with pytest.raises(ModelError):
        bisection.bisect("missing.onnx", X)


def test_a_program_is_tried_against_the_interpreter() -> None:
    program = glow_nb.compile(graph(), backend="interpreter").program
    unplaced = dataclasses.replace(program, arena=None)
    found = bisection.bisect(unplaced, X, backend="interpreter")
    assert [step.step for step in found.steps] == ["import", "allocate", "interpreter"]
    found = bisection.bisect(program, X, backend=BrokenKernels("tanh"))
    assert found.first_bad is not None
    assert found.value == "squashed"


def test_poisoned_memory_is_not_compared() -> None:
    poisoned = np.frombuffer(b"\xff" * 4 + np.float32(2).tobytes(), np.float32)
    assert distance_of_written(poisoned, np.array([7, 3], np.float32)) == 0.5


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_programs_are_cut_where_asked(backend: str) -> None:
    lowered = glow_nb.lower_for(graph(), backend_named(backend))
    program = glow_nb.compile(lowered, backend="interpreter").program
    for count in range(1, len(program.work) + 1):
        cut = cut_after(program, count)
        verify(cut)
        assert len(cut.work) >= count
        results = Interpreter().compile(cut).run([X])
        assert len(results) == len(cut.outputs)
        last = {buffer.root for buffer in mutated(program.work[count - 1])}
        assert last & {*cut.outputs, *(b for i in cut.work[count:] for b in (i.src.root,))}  # type: ignore[attr-defined]


class TestCommand:
    def test_all_is_well(self, tmp_path: Path) -> None:
        result = call("bisect", write_dense(tmp_path), "--backend", "interpreter")
        assert result.exit_code == 0, result.output
        title, head, first, *_ = result.output.splitlines()
        assert title == "states"
        assert head.split() == ["step", "made", "by", "level", "difference"]
        assert first.split() == ["0", "import", "graph", "0"]
        assert "states agree within 0.0001" in result.output.splitlines()[-1]
        assert result.stderr == ""

    @pytest.mark.usefixtures("broken_passes")
    def test_a_culprit_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "net.glow"
        glow_nb.save_text(graph(), path)
        monkeypatch.setattr(pipelines, "INFERENCE", (*pipelines.INFERENCE, "break_tanh"))
        result = call("bisect", path, "--backend", "interpreter")
        assert result.exit_code == 3
        row = result.output.splitlines()[-3].split()
        assert (row[1], row[-1]) == ("break_tanh", "differs")
        assert "break_tanh, is the first that differs" in result.output
        assert result.output.rstrip().endswith("first in %squashed")

    def test_wrong_use(self, tmp_path: Path) -> None:
        model = write_graph(tmp_path)
        fails("bisect", model, "--tolerance", "-1", code=2)
        fails("bisect", model, "--tolerance", "little", code=2)
        fails("bisect", model, "--tolerance", "nan", code=2)
        assert "missing.onnx" in fails("bisect", "missing.onnx")
        assert "unknown input" in fails("bisect", model, "--input", "z=z.npy")
        assert "cannot be read" in fails("bisect", model, "--input", "x=z.npy")
        assert "--shape n=1" in fails("bisect", write_dense(tmp_path, "n"))


def test_sizes_that_a_graph_leaves_open_are_to_be_given() -> None:
    builder = glow_nb.Builder("net")
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (Symbol("batch", 4, 1, 8).size, 3)))
    builder.save(builder.emit(ops.Tanh(x)), "y")
    feeds = {"x": np.ones((2, 3), np.float32)}
    with pytest.raises(OptionError, match=r"'net': its sizes .'batch'.* give them, shapes="):
        bisection.bisect(builder.function(), feeds)
    assert (
        bisection.bisect(builder.function(), feeds, shapes={"batch": 2}, threads=1).first_bad
        is None
    )


def test_inputs_are_checked_before_any_pass_runs() -> None:
    def boom(function: Function) -> Function:
        raise AssertionError("a pass runs")

    with pytest.raises(FeedError, match=r"shape is \[1, 6\], the network takes"):
        bisection.bisect(graph(), {"x": X[:1]}, pipeline=(boom,))
