"""The checker believes instructions, not markers, and finds every overlap."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.errors import VerifyError
from glow_nb.base.schema import operands_of
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from glow_nb.llir.allocate import allocate
from glow_nb.llir.check_placement import check_placement
from glow_nb.llir.generate import generate
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import (
    Activation,
    Alloc,
    Arena,
    Bound,
    Buffer,
    Dealloc,
    Instruction,
    Program,
    TensorView,
    View,
)
from tests.unit.llir.sampling import functions

AddInst = instruction_for(ops.Add)
ReluInst = instruction_for(ops.Relu)

EIGHT = TensorType(ElementKind.FLOAT32, (8,))
X, Y = Bound("x", EIGHT), Bound("y", EIGHT)
A, B = Activation("a", EIGHT), Activation("b", EIGHT)
VIEW = View("view", EIGHT, A)


def program(
    *work: Instruction, offsets: Mapping[Buffer, int] | None = None, size: int = 128
) -> Program:
    arena = Arena({A: 0, B: 64} if offsets is None else offsets, size, 64)
    return Program("main", (), (X,), (Y,), work, arena)


def test_disjoint_places_are_right() -> None:
    check_placement(program(ReluInst(A, X), ReluInst(B, A), ReluInst(Y, B)))


def test_one_place_at_different_times_is_right() -> None:
    work = ReluInst(A, X), ReluInst(Y, A), ReluInst(B, X), ReluInst(Y, B)
    check_placement(program(*work, offsets={A: 0, B: 0}))


@pytest.mark.parametrize("offset", [0, 4, 28])
def test_operands_of_one_instruction_must_not_overlap(offset: int) -> None:
    work = ReluInst(A, X), ReluInst(B, A), ReluInst(Y, B)
    with pytest.raises(
        VerifyError,
        match=(
            rf"%b in bytes \[{offset}, {offset + 32}\) from instruction 1 to 2: it overlaps with "
            r"%a in bytes \[0, 32\) from instruction 0 to 1"
        ),
    ):
        check_placement(program(*work, offsets={A: 0, B: offset}), alignment=1)


def test_markers_are_not_believed() -> None:
    work = (
        *(Alloc(A), ReluInst(A, X), Dealloc(A)),
        *(Alloc(B), ReluInst(B, X), AddInst(Y, A, B), Dealloc(B)),
    )
    with pytest.raises(VerifyError, match=r"%b .* overlaps with %a"):
        check_placement(program(*work, offsets={A: 0, B: 0}))


def test_markers_do_not_count_as_uses() -> None:
    work = (
        *(Alloc(A), Alloc(B), ReluInst(A, X), ReluInst(Y, A)),
        *(ReluInst(B, X), ReluInst(Y, B), Dealloc(A), Dealloc(B)),
    )
    check_placement(program(*work, offsets={A: 0, B: 0}))


def test_uses_through_views_count() -> None:
    work = ReluInst(A, X), TensorView(VIEW), ReluInst(B, X), AddInst(Y, VIEW, B)
    with pytest.raises(VerifyError, match=r"%b .* overlaps with %a"):
        check_placement(program(*work, offsets={A: 0, B: 0}))


def test_predicates_count() -> None:
    asked = Activation("asked", TensorType(ElementKind.BOOL, (8,)))
    relu = ReluInst(Y, A, predicate=asked)
    with pytest.raises(VerifyError, match="overlaps"):
        check_placement(program(ReluInst(A, X), relu, offsets={A: 0, asked: 0}))


@pytest.mark.parametrize("offset", [-64, 128, 104])
def test_places_outside_of_the_arena_are_found(offset: int) -> None:
    with pytest.raises(VerifyError, match=r"%a .*outside of the arena of 128 bytes"):
        check_placement(program(ReluInst(A, X), offsets={A: offset}), alignment=8)


def test_misaligned_places_are_found() -> None:
    with pytest.raises(VerifyError, match=r"%a .*not a multiple of 64"):
        check_placement(program(ReluInst(A, X), offsets={A: 32}))


def test_missing_places_are_found() -> None:
    with pytest.raises(VerifyError, match=r"%a: .*has no place"):
        check_placement(program(ReluInst(A, X), offsets={}))


def test_a_program_without_placement_is_refused() -> None:
    unplaced = dataclasses.replace(program(), arena=None)
    with pytest.raises(VerifyError, match=r"call allocate\(\) first"):
        check_placement(unplaced)


def test_empty_buffers_need_no_place() -> None:
    empty = TensorType(ElementKind.FLOAT32, (0,))
    check_placement(program(ReluInst(Activation("none", empty), Bound("nothing", empty))))


@given(functions(), st.data())
def test_moving_a_buffer_onto_another_is_found(function: Function, data: st.DataObject) -> None:
    allocated = allocate(generate(function))
    check_placement(allocated)
    assert allocated.arena is not None
    pairs = [
        (left, right)
        for instruction in allocated.work
        for left in _activations(instruction)
        for right in _activations(instruction)
        if left is not right
    ]
    if not pairs:
        return
    moved, other = data.draw(st.sampled_from(pairs))
    offsets = {**allocated.arena.offsets, moved: allocated.arena.offsets[other]}
    arena = dataclasses.replace(allocated.arena, offsets=offsets, size_bytes=1 << 20)
    with pytest.raises(VerifyError, match="overlaps"):
        check_placement(dataclasses.replace(allocated, arena=arena))


def _activations(instruction: Instruction) -> set[Buffer]:
    roots = {buffer.root for buffer in operands_of(instruction)}
    return {root for root in roots if isinstance(root, Activation) and root.type.size}
