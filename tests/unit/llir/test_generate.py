"""IRGen: programs mean what functions mean, for every operator, and copy no more than they must."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from typing_extensions import override

import glow_nb.llir.instructions  # noqa: F401  registers them
from glow_nb.base.errors import DefinitionError, UnsupportedError
from glow_nb.base.types import TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import NODES, Function, Node, Placeholder, Value, define_node
from glow_nb.hlir.lower import lower
from glow_nb.hlir.rules import LOWERINGS
from glow_nb.llir.generate import Generator, generate, generates, is_supported
from glow_nb.llir.program import Activation, Bound, Program, View, mutated, read
from tests.unit.llir.sampling import check_program, functions, golden_functions

GOLDEN = golden_functions()


def test_every_operator_is_generated_or_lowered() -> None:
    ours = [cls for cls in NODES.values() if cls.__module__.startswith("glow_nb.")]
    missing = [cls.opcode for cls in ours if not is_supported(cls) and cls not in LOWERINGS]
    assert not missing, f"give these an instruction, an IRGen rule or a lowering: {missing}"


@pytest.mark.parametrize("name", GOLDEN)
def test_program_means_what_the_function_means(name: str) -> None:
    supported = lower(GOLDEN[name], lambda node: not is_supported(type(node)))
    check_program(GOLDEN[name], generate(supported))


@given(functions())
def test_random_functions_keep_their_meaning(function: Function) -> None:
    check_program(function, generate(function))


def opcodes(program: Program) -> list[str]:
    return [instruction.opcode for instruction in program.work]


def two_rows() -> tuple[Builder, Placeholder]:
    builder = Builder("main")
    return builder, builder.input("x", "float32<2 x 4>")


def test_result_is_computed_in_the_output() -> None:
    builder, x = two_rows()
    builder.save(builder.emit(ops.Relu(x)), "y")
    program = generate(builder.function())
    assert opcodes(program) == ["relu"]
    assert mutated(program.work[0]) == program.outputs


def test_result_is_computed_in_the_output_through_a_reshape() -> None:
    builder, x = two_rows()
    builder.save(builder.emit(ops.Reshape(builder.emit(ops.Relu(x)), (8,))), "y")
    program = generate(builder.function())
    assert opcodes(program) == ["relu"]
    assert mutated(program.work[0])[0].root is program.outputs[0]
    check_program(builder.function(), program)


def test_result_with_two_readers_is_copied_to_the_output() -> None:
    builder, x = two_rows()
    relu = builder.emit(ops.Relu(x))
    builder.save(relu, "y")
    builder.save(relu, "z")
    assert opcodes(generate(builder.function())) == ["relu", "copy", "copy"]


def test_result_with_two_readers_behind_a_reshape_is_copied_to_the_output() -> None:
    builder, x = two_rows()
    flat = builder.emit(ops.Reshape(builder.emit(ops.Relu(x)), (8,)))
    builder.save(flat, "y")
    builder.save(builder.emit(ops.Neg(flat)), "z")
    assert opcodes(generate(builder.function())) == ["relu", "copy", "neg"]


@pytest.mark.parametrize("is_reshaped", [False, True])
def test_storage_is_copied_to_the_output(is_reshaped: bool) -> None:
    builder, x = two_rows()
    builder.save(builder.emit(ops.Reshape(x, (8,))) if is_reshaped else x, "y")
    builder.save(builder.constant("c", np.ones(3, np.float32)), "z")
    program = generate(builder.function())
    assert opcodes(program) == ["copy", "copy"]
    check_program(builder.function(), program)


def test_output_that_is_an_input_is_not_written_early() -> None:
    builder, x = two_rows()
    relu = builder.emit(ops.Relu(x))
    builder.save(relu, "y")
    function = builder.function()
    state = dataclasses.replace(function, inputs=(*function.inputs, *function.outputs))
    assert opcodes(generate(state)) == ["relu", "copy"]


def test_reshape_is_a_view() -> None:
    builder, x = two_rows()
    builder.save(builder.emit(ops.Relu(builder.emit(ops.Reshape(x, (4, 2)), "flat"))), "y")
    (relu,) = generate(builder.function()).work
    (view,) = read(relu)
    assert isinstance(view, View)
    assert (view.name, view.root.name) == ("flat", "x")


def test_buffers_are_named_after_nodes_and_results() -> None:
    builder, x = two_rows()
    values, indices = builder.emit(ops.TopK(x, 2, 1), "best").results
    builder.save(builder.emit(ops.Relu(values), "relu"), "y")
    builder.save(builder.emit(ops.Neg(indices), "best_indices"), "z")
    program = generate(builder.function())
    assert [b.name for b in program.activations] == ["best_values", "best_indices_1"]
    assert [i.name for i in program.work] == ["best", "relu", "best_indices"]


def test_predicate_is_carried_to_every_instruction() -> None:
    builder, x = two_rows()
    asked = builder.input("asked", "bool<2>")
    pair = builder.emit(ops.Concat((x, x), 1, predicate=asked))
    builder.save(builder.emit(ops.Relu(pair, predicate=asked)), "y")
    program = generate(builder.function())
    (_, bound) = program.inputs
    assert [i.predicate for i in program.work] == [bound] * 3
    check_program(builder.function(), program)


def test_lifetimes_end_after_the_last_reader_of_a_view() -> None:
    builder, x = two_rows()
    relu = builder.emit(ops.Relu(x), "relu")
    flat = builder.emit(ops.Reshape(relu, (8,)))
    builder.save(builder.emit(ops.Neg(relu)), "y")
    builder.save(builder.emit(ops.Abs(flat)), "z")
    program = generate(builder.function())
    assert [i.opcode for i in program] == ["alloc", "relu", "neg", "tensor_view", "abs", "dealloc"]


def test_bounds_of_integers_become_whole() -> None:
    builder = Builder("main")
    x = builder.input("x", "int8<300>")
    for index, (low, high) in enumerate([(0.5, 2.5), (-2.5, -0.5), (-500, float("inf"))]):
        builder.save(builder.emit(ops.Clip(x, low, high)), f"y{index}")
    check_program(builder.function(), generate(builder.function()))


@pytest.mark.parametrize("shape", [(0, 4), (2, 0)])
def test_empty_tensors(shape: tuple[int, ...]) -> None:
    builder = Builder("main")
    x = builder.input("x", TensorType.of(np.empty(shape, np.float32)))
    pair = builder.emit(ops.Concat((x, x), 1))
    left, right = builder.emit(ops.Split(pair, 1, (shape[1], shape[1]))).results
    builder.save(builder.emit(ops.Add(left, right)), "y")
    builder.save(builder.emit(ops.Slice(pair, (0, 0), (0, 0), (1, 1))), "z")
    check_program(builder.function(), generate(builder.function()))


@define_node("test_only_lowerable")
class Lowerable(Node):
    """An operator without an instruction."""

    input: Value

    @override
    def infer_type(self) -> TensorType:
        return self.input.type


def test_operators_without_instruction_are_all_named() -> None:
    builder, x = two_rows()
    first = builder.emit(Lowerable(x), "first")
    builder.save(builder.emit(Lowerable(first), "second"), "y")
    with pytest.raises(
        UnsupportedError, match=r"%first.*%second.*give it a formula, a lowering, or"
    ):
        generate(builder.function())


def test_an_operator_has_one_rule() -> None:
    with pytest.raises(
        DefinitionError,
        match="IRGen rule of 'Reshape' is already registered by glow_nb.llir.generate",
    ):

        @generates(ops.Reshape)
        def generate_reshape(node: ops.Reshape, out: Generator) -> None:
            out.hold(node, out.buffer_of(node.input))


def test_weights_and_placeholders_keep_their_names_and_order() -> None:
    builder = Builder("main")
    b, a = builder.input("b", "float32<3>"), builder.input("a", "float32<3>")
    builder.input("unused", "float32<9>")
    w = builder.constant("w", np.ones(3, np.float32))
    builder.save(builder.emit(ops.Add(a, w)), "z")
    builder.save(builder.emit(ops.Add(b, w)), "y")
    program = generate(builder.function())
    assert [x.name for x in program.inputs] == ["b", "a", "unused"]
    assert [x.name for x in program.outputs] == ["z", "y"]
    assert [x.name for x in program.weights] == ["w"]
    assert all(isinstance(x, Bound) for x in (*program.inputs, *program.outputs))
    assert not any(isinstance(x, Activation) for i in program.work for x in mutated(i))
