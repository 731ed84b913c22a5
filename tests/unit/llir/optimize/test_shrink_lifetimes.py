"""Lifetimes become as short as they can be, and results stay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from glow_nb.llir.allocate import allocate
from glow_nb.llir.generate import generate
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.optimize.shrink_lifetimes import shrink_lifetimes
from glow_nb.llir.program import (
    Activation,
    Alloc,
    Bound,
    Dealloc,
    Instruction,
    Program,
    TensorView,
    View,
    is_marker,
    mutated,
)
from glow_nb.llir.verify import verify
from tests.unit.llir.sampling import check_program, functions

ReluInst = instruction_for(ops.Relu)

FOUR = TensorType(ElementKind.FLOAT32, (4,))
X, Y = Bound("x", FOUR), Bound("y", FOUR)
A, B, IDLE = (Activation(name, FOUR) for name in ("a", "b", "idle"))
VIEW = View("view", FOUR, A)


def program(*instructions: Instruction) -> Program:
    return Program("main", (), (X,), (Y,), instructions)


def shown(program: Program) -> list[str]:
    return [f"{i.opcode} {mutated(i)[0].name}" for i in program]


def test_markers_move_to_the_first_and_last_use() -> None:
    loose = program(
        *(Alloc(A), Alloc(B), TensorView(VIEW), ReluInst(A, X), ReluInst(B, VIEW)),
        *(ReluInst(Y, B), Dealloc(B), Dealloc(A)),
    )
    verify(loose)
    tight = shrink_lifetimes(loose)
    verify(tight)
    assert shown(tight) == [
        *("alloc a", "relu a", "alloc b", "tensor_view view", "relu b", "dealloc a"),
        *("relu y", "dealloc b"),
    ]
    assert tight.work == loose.work


def test_idle_buffers_disappear() -> None:
    idle_view = View("idle_view", FOUR, X)
    loose = program(Alloc(IDLE), TensorView(idle_view), ReluInst(Y, X), Dealloc(IDLE))
    assert shown(shrink_lifetimes(loose)) == ["relu y"]


def test_the_placement_is_dropped_if_it_is_not_right_any_more() -> None:
    loose = program(Alloc(A), ReluInst(A, X), ReluInst(Y, A), ReluInst(Y, X), Dealloc(A))
    assert shrink_lifetimes(allocate(loose)).arena is None


def test_the_same_program_comes_back_if_nothing_moves() -> None:
    tight = program(Alloc(A), ReluInst(A, X), ReluInst(Y, A), Dealloc(A))
    assert shrink_lifetimes(tight) is tight


@given(functions(), st.floats(0, 1))
def test_results_stay_and_lifetimes_are_those_of_generation(
    function: Function, share: float
) -> None:
    generated = generate(function)
    loose = loosened(generated, share)
    verify(loose)
    tight = shrink_lifetimes(loose)
    check_program(function, tight)
    assert shown(tight) == shown(generated)


def loosened(program: Program, share: float) -> Program:
    """Return *program* with allocations early and deallocations late."""
    split = int(share * len(program.instructions))
    early = [i for i in program.instructions[:split] if isinstance(i, Alloc)]
    late = [i for i in program.instructions[:split] if isinstance(i, Dealloc)]
    moved = {*early, *late}
    rest = [i for i in program.instructions if i not in moved]
    assert all(is_marker(i) for i in moved)
    return program.with_instructions([*early, *rest, *late])
