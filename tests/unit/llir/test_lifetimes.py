"""Where lifetimes begin and end."""

from __future__ import annotations

import pytest

from glow_nb.base.errors import VerifyError
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.lifetimes import mark_lifetimes
from glow_nb.llir.program import Activation, Bound, Instruction, Program, View, Weight, mutated
from glow_nb.llir.verify import verify

AddInst = instruction_for(ops.Add)
ReluInst = instruction_for(ops.Relu)

FOUR = TensorType(ElementKind.FLOAT32, (4,))
X, Y, W = Bound("x", FOUR), Bound("y", FOUR), Weight("w", FOUR)
A, B = Activation("a", FOUR), Activation("b", FOUR)


def shown(instructions: tuple[Instruction, ...]) -> list[str]:
    return [f"{i.opcode} {mutated(i)[0].name}" for i in instructions]


def test_allocation_is_right_before_the_first_use_and_deallocation_right_after_the_last() -> None:
    work = [ReluInst(A, X), ReluInst(B, A), AddInst(Y, B, W)]
    assert shown(mark_lifetimes(work)) == [
        "alloc a",
        "relu a",
        "alloc b",
        "relu b",
        "dealloc a",
        "add y",
        "dealloc b",
    ]


def test_views_come_after_their_base_and_keep_the_root_alive() -> None:
    inner = View("inner", FOUR, View("outer", FOUR, A))
    assert shown(mark_lifetimes([ReluInst(A, X), ReluInst(Y, inner), ReluInst(Y, inner)])) == [
        "alloc a",
        "relu a",
        "tensor_view outer",
        "tensor_view inner",
        "relu y",
        "relu y",
        "dealloc a",
    ]


def test_a_result_that_nothing_reads_ends_at_once() -> None:
    assert shown(mark_lifetimes([ReluInst(A, X), ReluInst(Y, X)])) == [
        "alloc a",
        "relu a",
        "dealloc a",
        "relu y",
    ]


def test_a_predicate_is_a_use() -> None:
    asked = Activation("asked", TensorType(ElementKind.BOOL, (4,)))
    first, second = ReluInst(A, X, predicate=asked), ReluInst(Y, A, predicate=asked)
    assert shown(mark_lifetimes([first, second]))[-2:] == ["dealloc a", "dealloc asked"]


def test_an_operand_used_twice_is_deallocated_once() -> None:
    marked = shown(mark_lifetimes([ReluInst(A, X), AddInst(Y, A, A)]))
    assert marked.count("dealloc a") == 1


def test_work_without_lifetimes_says_what_adds_them() -> None:
    work = [ReluInst(A, X), ReluInst(Y, A)]
    bare = Program("bare", (), (X,), (Y,), tuple(work))
    with pytest.raises(VerifyError, match=r"%a is used before it is defined; .*mark_lifetimes"):
        verify(bare)
    verify(bare.with_instructions(mark_lifetimes(work)))
    seen = View("seen", FOUR, A)
    allocated = mark_lifetimes(work)
    viewed = bare.with_instructions([*allocated[:2], ReluInst(Y, seen), allocated[-1]])
    with pytest.raises(VerifyError, match=r"%seen is used before it is defined; .*mark_lifetimes"):
        verify(viewed)
    late = bare.with_instructions([work[0], *mark_lifetimes(work)])
    with pytest.raises(VerifyError, match="%a is used before it is defined$"):
        verify(late)
