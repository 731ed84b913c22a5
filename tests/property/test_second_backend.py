"""A backend with kernels and traits of its own gets the programs that these allow, and no more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

import glow_nb
from glow_nb.base.schema import operand_specs
from glow_nb.compiler import pipelines
from glow_nb.fuse.check_traits import check_traits
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.hlir.lower import lower
from glow_nb.llir.generate import generate
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import INSTRUCTIONS, Instruction, Program
from glow_nb.llir.stack import StackInst, members_of
from glow_nb.llir.traits import NO_TRAITS, KernelTraits, Traits
from glow_nb.network.compilation import lower_for
from tests.passes_for_cpu import run_passes
from tests.property.loops_backend import LOOPS, Loops
from tests.property.random_graphs import check_same, feeds_of, functions
from tests.property.test_meaning import check_network, check_program
from tests.property.test_stacks import stacks

MatMulInst = instruction_for(ops.MatMul)


@given(st.one_of(functions(), stacks()))
def test_the_second_backend_keeps_the_meaning(function: Function) -> None:
    check_network(glow_nb.compile(function, backend=Loops()), function)


def network() -> Function:
    """Return pool, product, sum and softmax, each between elementwise operators."""
    b = Builder()
    x = b.input("x", "float32<1 x 6 x 6 x 5>")
    window = {"kernel": (2, 2), "stride": (2, 2), "pads": (0, 0, 0, 0), "dilation": (1, 1)}
    pool = b.emit(ops.Relu(b.emit(ops.MaxPool(b.emit(ops.Tanh(x)), **window))))  # type: ignore[arg-type]
    weights = b.constant("w", np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4))
    made = b.emit(ops.Sigmoid(b.emit(ops.MatMul(pool, weights))))
    total = b.emit(ops.Exp(b.emit(ops.ReduceSum(b.emit(ops.Neg(made)), (3,), keep_dims=True))))
    b.save(b.emit(ops.Add(made, total)), "y")
    return b.function()


def opcodes(backend: Loops) -> list[list[str]]:
    """Return the opcodes of each kernel of the network."""
    work = glow_nb.compile(network(), backend=backend).program.work
    return [[member.opcode for member in members_of(instruction)] for instruction in work]


def test_stacks_are_those_of_its_own_traits() -> None:
    assert opcodes(Loops()) == [
        ["tanh"],
        ["max_pool", "relu"],
        ["mat_mul", "sigmoid", "neg"],
        ["reduce_sum"],
        ["exp"],
        ["add"],
    ]


def test_without_traits_nothing_stands_around_a_head() -> None:
    class Plain(Loops):
        traits = NO_TRAITS

    assert all(len(kernel) == 1 for kernel in opcodes(Plain()) if kernel[0] != "sigmoid")


def test_what_passes_raise_again_is_lowered_again() -> None:
    b = Builder()
    x = b.input("x", "float32<2 x 3>")
    b.save(b.emit(ops.LogSoftmax(x, axis=0)), "y")
    assert not any(isinstance(n, ops.LogSoftmax) for n in lower_for(b.function(), Loops()))
    feeds = feeds_of(b.function())
    found = glow_nb.compile(b.function(), backend=Loops()).run(feeds)
    check_same(found, evaluate(b.function(), feeds))


def test_passes_of_the_user_know_the_traits_of_the_backend() -> None:
    seen: list[Traits] = []

    def look(program: Program, *, traits: Traits = NO_TRAITS) -> Program:
        seen.append(traits)
        return program

    passes = (look, "stack_instructions")
    net = glow_nb.compile(network(), backend=Loops(), program_pipeline=passes)
    assert seen == [LOOPS.traits]
    heads = [i.head for i in net.program.work if isinstance(i, StackInst)]
    assert [head.opcode for head in heads if head] == ["max_pool", "mat_mul"]


def test_a_backend_may_have_instruction_passes_of_its_own() -> None:
    class Unoptimized(Loops):
        program_pipeline = ()

    assert all(len(kernel) == 1 for kernel in opcodes(Unoptimized()))


def residual() -> Function:
    """Return ``relu(x) @ w + tanh(z)``, where the sum may lie on the second operand."""
    b = Builder()
    x, z = b.input("x", "float32<3 x 4>"), b.input("z", "float32<3 x 4>")
    weights = b.constant("w", np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4))
    total = b.emit(ops.Add(b.emit(ops.MatMul(x, weights)), b.emit(ops.CumSum(z, 0, False, False))))
    b.save(b.emit(ops.CumSum(total, 1, False, False)), "y")
    return b.function()


@pytest.mark.parametrize("lies", [False, True])
def test_a_kernel_is_asked_for_what_its_traits_say(lies: bool) -> None:
    """One that sums up in memory must not say that it stores once, or operands are lost."""

    class Claiming(Loops):
        @property
        @override
        def traits(self) -> Traits:
            claimed = KernelTraits(fuses_epilogue=True, stores_once=lies)
            return {**LOOPS.traits, MatMulInst: claimed}

    feeds = feeds_of(residual())
    net = glow_nb.compile(residual(), backend=Claiming())
    assert len(net.program.activations) == (1 if lies else 2)
    is_right = np.allclose(net.run(feeds)["y"], evaluate(residual(), feeds)["y"])
    assert is_right is not lies


def traits_for(instruction: type[Instruction]) -> st.SearchStrategy[KernelTraits]:
    """Draw what a kernel of *instruction* may be able to do."""
    specs = [spec for spec in operand_specs(instruction) if not spec.is_variadic]
    names = [spec.name for spec in specs]
    read = [s.name for s in specs if s.qualifier is not None and s.qualifier.name == "in"]
    return st.builds(
        KernelTraits,
        fuses_epilogue=st.booleans(),
        prologue_operand=st.sampled_from(["", *read]),
        stores_once=st.booleans(),
        reaches_all=st.booleans(),
        strided=st.lists(st.sampled_from(names), unique=True).map(tuple),
        any_rows=st.booleans(),
    )


HEADS = (
    *("avg_pool", "max_pool", "convolution", "mat_mul", "softmax", "log_softmax"),
    *("reduce_max", "reduce_mean", "reduce_min", "reduce_sum", "gather", "pad", "transpose"),
)
TRAITS = st.fixed_dictionaries(
    {INSTRUCTIONS[head]: traits_for(INSTRUCTIONS[head]) for head in HEADS}
)


@given(st.one_of(functions(max_nodes=14), stacks()), TRAITS)
def test_passes_ask_no_kernel_for_more_than_its_traits(function: Function, traits: Traits) -> None:
    program = run_passes(generate(lower(function)), pipelines.INSTRUCTIONS, traits)
    for instruction in program.work:
        check_traits(instruction, traits)
    check_program(program, function)


@given(st.one_of(functions(max_nodes=14), stacks()))
def test_passes_without_traits_keep_the_meaning(function: Function) -> None:
    program = run_passes(generate(lower(function)), pipelines.INSTRUCTIONS, {})
    assert not any(isinstance(i, StackInst) and i.head is not None for i in program.work)
    check_program(program, function)


def test_states_of_the_second_backend_survive_runs() -> None:
    builder = Builder()
    x = builder.input("x", "float32<1 x 2>")
    state = builder.state("state", np.full((1, 2), 1.5, np.float32))
    builder.save(builder.emit(ops.Add(state, x)), "y")
    builder.update(state, x)
    net = glow_nb.compile(builder.function(), backend=Loops())
    feed = np.array([[1.0, 2.0]], np.float32)
    np.testing.assert_array_equal(net.run(feed)["y"], feed + 1.5)
    np.testing.assert_array_equal(net.run(feed)["y"], feed + feed)
