"""What is stored and never read goes; what anything may still read stays."""

from __future__ import annotations

from hypothesis import given

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from glow_nb.llir.generate import generate
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.instructions.reduction import TopKInst
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.lifetimes import mark_lifetimes
from glow_nb.llir.optimize.eliminate_dead_stores import eliminate_dead_stores
from glow_nb.llir.program import (
    Activation,
    Bound,
    InOut,
    Instruction,
    Program,
    View,
    define_instruction,
    mutated,
)
from tests.unit.llir.sampling import check_program, functions

ReluInst = instruction_for(ops.Relu)

FOUR = TensorType(ElementKind.FLOAT32, (4,))
TWO = TensorType(ElementKind.FLOAT32, (2,))
X, Y, Z = (Bound(name, FOUR) for name in "xyz")
A, B = Activation("a", FOUR), Activation("b", FOUR)


def cleaned(*work: Instruction) -> list[Instruction]:
    program = Program("main", (), (X,), (Y,), mark_lifetimes(work))
    return [i for i in eliminate_dead_stores(program) if i.opcode != "tensor_view"]


def shown(*work: Instruction) -> list[str]:
    return [f"{i.opcode} {mutated(i)[0].name}" for i in cleaned(*work)]


def test_a_store_that_nothing_reads_goes_with_its_buffer() -> None:
    assert shown(ReluInst(A, X), ReluInst(Y, X)) == ["relu y"]


def test_what_fed_only_dead_stores_goes_too() -> None:
    assert shown(ReluInst(A, X), ReluInst(B, A), ReluInst(Y, X)) == ["relu y"]


def test_a_store_that_is_overwritten_before_it_is_read_goes() -> None:
    first, second = ReluInst(A, X), ReluInst(A, X)
    kept = cleaned(first, second, ReluInst(Y, A))
    assert second in kept
    assert first not in kept


def test_a_store_that_is_read_before_it_is_overwritten_stays() -> None:
    work = ReluInst(A, X), ReluInst(B, A), ReluInst(A, B), ReluInst(Y, A)
    assert set(work) <= set(cleaned(*work))


def test_a_store_into_an_output_stays_unless_it_is_overwritten() -> None:
    first, second = ReluInst(Y, X), CopyInst(Y, X)
    assert cleaned(first) == [first]
    assert cleaned(first, second) == [second]


def test_a_store_into_a_part_leaves_the_rest_needed() -> None:
    half = View("half", TWO, A)
    work = ReluInst(A, X), ReluInst(half, View("front", TWO, X)), ReluInst(Y, A)
    assert set(work) <= set(cleaned(*work))


def test_a_store_into_every_second_element_leaves_the_rest_needed() -> None:
    wide = Activation("wide", TensorType(ElementKind.FLOAT32, (8,)))
    even = View("even", FOUR, wide, 0, (2,))
    whole = View("all", FOUR, wide, 4)
    work = ReluInst(whole, X), ReluInst(even, X), ReluInst(Y, whole)
    assert set(work) <= set(cleaned(*work))


def test_as_many_stores_into_one_element_leave_the_rest_needed() -> None:
    same = View("same", FOUR, A, 0, (0,))
    work = ReluInst(A, X), ReluInst(same, X), ReluInst(Y, A)
    assert set(work) <= set(cleaned(*work))


def test_a_store_through_a_view_of_everything_covers_it() -> None:
    square = TensorType(ElementKind.FLOAT32, (2, 2))
    first, second = ReluInst(A, X), ReluInst(View("flat", square, A), View("all", square, X))
    kept = cleaned(first, second, ReluInst(Y, A))
    assert first not in kept
    assert second in kept


def test_one_needed_result_keeps_the_instruction() -> None:
    values, indices = Activation("v", TWO), Activation("i", TWO.with_kind(ElementKind.INT64))
    top = TopKInst(values, indices, X, 2, 0, largest=True, sorted=True)
    work = top, ReluInst(View("front", TWO, Y), values), ReluInst(View("back", TWO, Y, 2), values)
    assert top in cleaned(*work)
    assert "dealloc i" in shown(*work)


@define_instruction("test_only_accumulate")
class AccumulateInst(Instruction):
    """Adds to a buffer, so it reads it."""

    dest: InOut


def test_an_update_reads_what_it_writes() -> None:
    work = ReluInst(A, X), AccumulateInst(A), ReluInst(Y, A)
    assert set(work) <= set(cleaned(*work))


def test_a_predicate_is_read() -> None:
    asked = Activation("asked", TensorType(ElementKind.BOOL, (4,)))
    given_by = CopyInst(asked, Bound("p", asked.type))
    assert given_by in cleaned(given_by, ReluInst(Y, X, predicate=asked))


def test_the_same_program_comes_back_if_all_is_needed() -> None:
    program = Program("main", (), (X,), (Y,), mark_lifetimes([ReluInst(A, X), ReluInst(Y, A)]))
    assert eliminate_dead_stores(program) is program


@given(functions())
def test_results_stay(function: Function) -> None:
    program = eliminate_dead_stores(generate(function))
    check_program(function, program)
    assert eliminate_dead_stores(program) is program
