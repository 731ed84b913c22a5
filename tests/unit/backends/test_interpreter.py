"""The interpreter executes what is in memory, so that mistakes about memory show."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from glow_nb.backends.interpreter import InterpretedProgram, Interpreter
from glow_nb.base.errors import FeedError, UnsupportedError, VerifyError
from glow_nb.base.schema import attribute_specs, operand_specs
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import NODES, Function, Node
from glow_nb.llir.allocate import allocate
from glow_nb.llir.generate import generate, is_supported
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.lifetimes import mark_lifetimes
from glow_nb.llir.program import (
    Activation,
    Alloc,
    Arena,
    Bound,
    Dealloc,
    In,
    Instruction,
    Out,
    Program,
    View,
    Weight,
    define_instruction,
)
from tests.unit.llir.sampling import check_program, functions, golden_functions

AddInst = instruction_for(ops.Add)
MulInst = instruction_for(ops.Mul)
ReluInst = instruction_for(ops.Relu)

FOUR = TensorType(ElementKind.FLOAT32, (4,))
X, Y = Bound("x", FOUR), Bound("y", FOUR)
A, B = Activation("a", FOUR), Activation("b", FOUR)
NUMBERS = np.array([-1, 2, -3, 4], np.float32)


def run(*instructions: Instruction, arena: Arena | None = None) -> list[float]:
    program = Program("main", (), (X,), (Y,), instructions, arena)
    program = program if arena else allocate(program)
    (result,) = Interpreter().compile(program).run([NUMBERS])
    return [float(number) for number in result]


def data_parallel_functions() -> dict[str, Function]:
    """Return a function for each data-parallel operator and each kind that it takes."""
    found: dict[str, Function] = {}
    for name, function in golden_functions().items():
        node = function.nodes[0]
        if not (node.data_parallel and is_supported(type(node))):
            continue  # operators on quantized types are lowered to others
        for kind in (None, *ElementKind):
            converted = _of_kind(node, kind)
            if converted is not None:
                found[f"{name}-{kind.value if kind else 'as it is'}"] = converted
    return found


def _of_kind(node: Node, kind: ElementKind | None) -> Function | None:
    """Return *node* over inputs of *kind*, bool conditions as they are; None if it takes none.

    Without *kind*, all inputs are of the kinds that they are of.
    """
    builder = Builder("main")
    fields: dict[str, Any] = {s.name: getattr(node, s.name) for s in attribute_specs(type(node))}
    for spec in operand_specs(type(node)):
        type_ = getattr(node, spec.name).type
        keeps = kind is None or spec.name == "condition"
        wanted = type_ if keeps else type_.with_kind(kind)
        fields[spec.name] = builder.input(spec.name, wanted)
    try:
        builder.save(builder.emit(type(node)(**fields)), "y")
    except VerifyError:
        return None
    return builder.function()


DATA_PARALLEL = data_parallel_functions()


@pytest.mark.parametrize("name", DATA_PARALLEL)
def test_scalar_expressions_mean_what_operators_mean(name: str) -> None:
    check_program(DATA_PARALLEL[name], generate(DATA_PARALLEL[name]))


def test_every_data_parallel_operator_is_among_them() -> None:
    wanted = {
        cls
        for cls in NODES.values()
        if cls.data_parallel and is_supported(cls) and cls.__module__.startswith("glow_nb.hlir.")
    }
    assert {type(function.nodes[0]) for function in DATA_PARALLEL.values()} == wanted


@given(functions())
def test_random_functions(function: Function) -> None:
    check_program(function, generate(function))


@example([(-1, -2), (-1, -3), (1, -5), (0, -1), (2, -1)], ops.Pow, np.int8)
@example([(-128, -1), (-7, 2), (7, -2), (5, 0)], ops.Div, np.int8)
@given(
    st.lists(st.tuples(st.integers(-128, 127), st.integers(-128, 127)), min_size=1),
    st.sampled_from([ops.Div, ops.Pow, ops.Modulo]),
    st.sampled_from([np.int8, np.int64, np.uint8]),
)
def test_integers_at_their_limits(
    pairs: list[tuple[int, int]], operator: type[Node], dtype: type[np.integer]
) -> None:
    x, y = np.array(pairs).T.astype(dtype)
    builder = Builder("main")
    operands = [builder.input(name, TensorType.of(x)) for name in "xy"]
    node = builder.emit(operator(*operands))
    builder.save(node, "z")
    program = allocate(generate(builder.function()))
    (found,) = Interpreter().compile(program).run([x, y])
    np.testing.assert_array_equal(found, node.evaluate(x, y))


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (ops.Maximum, [np.nan, np.nan, np.inf, 1]),
        (ops.Minimum, [np.nan, np.nan, 1, -np.inf]),
        (ops.Less, [False, False, False, True]),
    ],
)
def test_special_numbers(operator: type[Node], expected: list[float]) -> None:
    x = np.array([np.nan, 1, np.inf, -np.inf], np.float32)
    y = np.array([1, np.nan, 1, 1], np.float32)
    builder = Builder("main")
    operands = [builder.input(name, TensorType.of(x)) for name in "xy"]
    builder.save(builder.emit(operator(*operands)), "z")
    (found,) = Interpreter().compile(allocate(generate(builder.function()))).run([x, y])
    np.testing.assert_array_equal(found, np.array(expected, found.dtype))


def test_halves_are_rounded_once() -> None:
    """1/6 of a float16 is not what HardSwish means; float32 inside gives the nearest half."""
    x = np.linspace(-4, 4, 1001).astype(np.float16)
    builder = Builder("main")
    builder.save(builder.emit(ops.HardSwish(builder.input("x", TensorType.of(x)))), "y")
    (found,) = Interpreter().compile(allocate(generate(builder.function()))).run([x])
    wide = x.astype(np.float64)
    exact = (wide * np.clip(wide / 6 + 0.5, 0, 1)).astype(np.float16)
    assert np.mean(found == exact) > 0.999


def test_memory_that_was_never_written_is_poison() -> None:
    work = Alloc(A), CopyInst(Y, A), Dealloc(A)
    assert np.isnan(run(*work)).all()


def test_memory_is_poison_after_its_end() -> None:
    work = Alloc(A), CopyInst(A, X), Dealloc(A), CopyInst(Y, A)
    assert np.isnan(run(*work, arena=Arena({A: 0}, 64, 64))).all()


def test_an_output_that_is_not_written_is_poison() -> None:
    half = View("half", TensorType(ElementKind.FLOAT32, (2,)), Y)
    result = run(CopyInst(half, View("front", half.type, X)))
    assert result[:2] == [-1, 2]
    assert np.isnan(result[2:]).all()


def test_a_wrong_placement_shows() -> None:
    work = Alloc(A), CopyInst(A, X), Alloc(B), ReluInst(B, X), AddInst(Y, A, B), Dealloc(A)
    right = run(*work, Dealloc(B))
    assert right == [-1, 4, -3, 8]
    assert run(*work, Dealloc(B), arena=Arena({A: 0, B: 0}, 64, 64)) != right


def test_shared_memory_in_place() -> None:
    work = Alloc(A), CopyInst(A, X), ReluInst(A, A), MulInst(A, A, A), CopyInst(Y, A), Dealloc(A)
    assert run(*work) == [0, 4, 0, 16]


@pytest.mark.parametrize(
    ("start", "steps", "expected"),
    [(0, (1,), [-1, 2, -3, 4]), (3, (-1,), [4, -3, 2, -1]), (1, (0,), [2, 2, 2, 2])],
)
def test_views(start: int, steps: tuple[int, ...], expected: list[float]) -> None:
    assert run(*mark_lifetimes([CopyInst(Y, View("view", FOUR, X, start, steps))])) == expected


def test_views_of_views() -> None:
    pair = TensorType(ElementKind.FLOAT32, (2,))
    odd = View("odd", pair, X, 1, (2,))
    last = View("last", pair.with_shape((1,)), odd, 2)
    assert run(*mark_lifetimes([CopyInst(Y, last)])) == [4] * 4


def test_weights_are_read_and_never_written() -> None:
    weight = Weight("w", FOUR, NUMBERS)
    program = Program("main", (weight,), (), (Y,), (CopyInst(Y, weight),))
    executable = Interpreter().compile(allocate(program))
    (first,), (second,) = executable.run([]), executable.run([])
    first[...] = 0
    np.testing.assert_array_equal(second, NUMBERS)
    np.testing.assert_array_equal(weight.array, NUMBERS)
    assert executable.constant_bytes == 16


def test_an_input_that_is_an_output_keeps_what_is_not_written() -> None:
    front = View("front", TensorType(ElementKind.FLOAT32, (1,)), X)
    work = mark_lifetimes([CopyInst(front, View("second", front.type, X, 1))])
    executable = Interpreter().compile(allocate(Program("main", (), (X,), (X,), work)))
    (result,) = executable.run([NUMBERS])
    np.testing.assert_array_equal(result, [2, 2, -3, 4])
    assert NUMBERS[0] == -1


def test_inputs_need_not_be_contiguous() -> None:
    program = allocate(Program("main", (), (X,), (Y,), (CopyInst(Y, X),)))
    (result,) = Interpreter().compile(program).run([NUMBERS[::-1]])
    np.testing.assert_array_equal(result, NUMBERS[::-1])


def compiled_relu() -> InterpretedProgram:
    return InterpretedProgram(allocate(Program("main", (), (X,), (Y,), (ReluInst(Y, X),))))


def test_threads_may_share_it() -> None:
    executable = compiled_relu()
    feeds = [np.full(4, i, np.float32) for i in range(50)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda feed: executable.run([feed])[0], feeds))
    np.testing.assert_array_equal(results, feeds)


def test_feeds_are_checked() -> None:
    executable = compiled_relu()
    with pytest.raises(FeedError, match="1 inputs, got 0 arrays"):
        executable.run([])
    with pytest.raises(FeedError, match=r"%x is float32<4>, got an array of float32<3>"):
        executable.run([NUMBERS[:3]])
    with pytest.raises(FeedError, match=r"got an array of float64<4>"):
        executable.run([NUMBERS.astype(np.float64)])


def test_reports() -> None:
    executable = compiled_relu()
    (kernel,) = executable.kernels
    assert kernel.instruction == "relu @out %y, @in %x"
    assert (kernel.opcode, kernel.family, kernel.source) == ("relu", "relu", "")
    assert not executable.source
    assert executable.scratch_bytes == 0


def test_an_unplaced_program_is_refused() -> None:
    with pytest.raises(VerifyError, match=r"call allocate\(\) first"):
        Interpreter().compile(Program("main", (), (X,), (Y,), (ReluInst(Y, X),)))


@define_instruction("test_only_mystery")
class MysteryInst(Instruction):
    """An instruction that says nothing about what it does."""

    dest: Out
    input: In


def test_an_instruction_without_meaning_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="neither a scalar expression nor an operator"):
        Interpreter().compile(allocate(Program("main", (), (X,), (Y,), (MysteryInst(Y, X),))))


def test_it_lowers_everything_but_loops() -> None:
    for function in golden_functions().values():
        for node in function:
            is_loop = isinstance(node, ops.Recurrence | ops.RecurrenceGradient)
            assert Interpreter().should_lower(node) != is_loop
