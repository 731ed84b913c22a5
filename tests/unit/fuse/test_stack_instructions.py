"""Which instructions join a stack, and which must not."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.fuse.stack_instructions import MAX_POINTERS
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value
from glow_nb.llir.program import Buffer, Register, mutated
from glow_nb.llir.stack import StackInst
from tests.unit.fuse.stacks import packed_convolution, stacked


def test_a_residual_block_rides_on_the_later_convolution(b: Builder, x: Value) -> None:
    left, right = packed_convolution(b, x, "left"), packed_convolution(b, x, "right")
    b.save(b.emit(ops.Relu(b.emit(ops.Add(left, right), "sum"))), "y")
    program, kernels = stacked(b)
    assert kernels == ["packed_convolution", "packed_convolution+add+relu"]
    (stack,) = (i for i in program.work if isinstance(i, StackInst))
    registers = [i for i in stack.body if isinstance(mutated(i)[0], Register)]
    assert [i.name for i in registers] == ["right", "sum"]
    assert [buffer.name for buffer in stack.results] == ["y"]


def test_producer_and_consumer_become_one_loop(b: Builder, x: Value) -> None:
    other = b.emit(ops.Sigmoid(b.input("z", "float32<1 x 4 x 4 x 8>")))
    b.save(b.emit(ops.Maximum(b.emit(ops.Tanh(x)), other)), "y")
    _, kernels = stacked(b)
    assert kernels == ["sigmoid+tanh+maximum"]


def test_what_is_read_later_is_stored(b: Builder, x: Value) -> None:
    tanh = b.emit(ops.Tanh(x), "tanh")
    b.save(b.emit(ops.Neg(tanh)), "y")
    b.save(b.emit(ops.Transpose(tanh, permutation=(3, 0, 1, 2))), "z")
    program, kernels = stacked(b)
    assert kernels == ["tanh+neg", "transpose"]
    (stack,) = (i for i in program.work if isinstance(i, StackInst))
    assert [buffer.name for buffer in stack.results] == ["tanh", "y"]


def test_what_a_convolution_makes_is_stored_beside_what_rides_on_it(b: Builder, x: Value) -> None:
    made = packed_convolution(b, x, "made")
    b.save(b.emit(ops.Relu(made)), "y")
    b.save(b.emit(ops.Transpose(made, permutation=(3, 0, 1, 2))), "z")
    program, kernels = stacked(b)
    assert kernels == ["packed_convolution+relu", "transpose"]
    (stack,) = (i for i in program.work if isinstance(i, StackInst))
    assert [buffer.name for buffer in stack.results] == ["made", "y"]


def test_a_reader_in_between_keeps_the_producer_where_it_is(b: Builder, x: Value) -> None:
    tanh = b.emit(ops.Tanh(x))
    sums = b.emit(ops.CumSum(tanh, axis=3, exclusive=False, reverse=False))
    b.save(b.emit(ops.Add(tanh, sums)), "y")
    assert stacked(b)[1] == ["tanh", "cum_sum", "add"]


def test_a_broadcast_value_does_not_join(b: Builder, x: Value) -> None:
    row = b.emit(ops.Tanh(b.input("row", "float32<1 x 1 x 1 x 8>")))
    b.save(b.emit(ops.Add(x, row)), "y")
    assert stacked(b)[1] == ["tanh", "add"]


def test_a_tile_reaches_whole_rows_and_numbers_only(b: Builder, x: Value) -> None:
    made = packed_convolution(b, x, "made")
    column = b.constant("column", np.ones((1, 4, 1, 1), np.float32))
    row = b.constant("row", np.ones((1, 1, 1, 8), np.float32))
    number = b.constant("number", np.ones((1, 1, 1, 1), np.float32))
    scaled = b.emit(ops.Mul(b.emit(ops.Mul(made, row)), number))
    b.save(b.emit(ops.Add(scaled, column)), "y")
    assert stacked(b)[1] == ["packed_convolution+mul+mul", "add"]


def test_a_tile_does_not_reach_lines_or_windows(b: Builder, x: Value) -> None:
    line = b.constant("line", np.ones((1, 4, 1, 8), np.float32))
    wide = b.input("wide", "float32<1 x 4 x 4 x 16>")
    part = b.emit(ops.Slice(wide, starts=(0, 0, 0, 4), stops=(1, 4, 4, 12), steps=(1,) * 4))
    made = packed_convolution(b, x, "made")
    b.save(b.emit(ops.Add(made, part)), "y")
    b.save(b.emit(ops.Add(packed_convolution(b, x, "other"), line)), "z")
    assert stacked(b)[1] == [
        "copy", "packed_convolution+add", "packed_convolution", "add",
    ]  # fmt: skip


def test_a_window_on_what_is_made_keeps_its_reader_out(b: Builder, x: Value) -> None:
    made = b.emit(ops.Relu(x))
    starts, stops, steps = (0, 0, 3, 0), (1, 4, -1, 8), (1, 1, -1, 1)
    mirrored = b.emit(ops.Slice(made, starts=starts, stops=stops, steps=steps))
    b.save(b.emit(ops.Add(made, mirrored)), "y")
    assert "relu+add" not in stacked(b)[1]


def test_two_convolutions_never_share_a_stack(b: Builder, x: Value) -> None:
    left = b.emit(ops.Relu(packed_convolution(b, x, "left")))
    right = b.emit(ops.Relu(packed_convolution(b, x, "right")))
    b.save(b.emit(ops.Add(left, right)), "y")
    assert stacked(b)[1] == ["packed_convolution+relu", "packed_convolution+relu+add"]


def test_the_head_may_not_need_what_its_stack_computes(b: Builder, x: Value) -> None:
    relu = b.emit(ops.Relu(x))
    b.save(b.emit(ops.Add(packed_convolution(b, relu, "made"), relu)), "y")
    assert stacked(b)[1] == ["relu", "packed_convolution+add"]


def test_a_predicate_keeps_an_instruction_out(b: Builder, x: Value) -> None:
    mask = b.input("mask", "bool<1>")
    b.save(b.emit(ops.Neg(b.emit(ops.Tanh(x, predicate=mask)))), "y")
    assert stacked(b)[1] == ["tanh", "neg"]


def test_a_long_chain_is_cut(b: Builder, x: Value) -> None:
    value: Value = x
    for _ in range(60):
        value = b.emit(ops.Neg(value))
    b.save(value, "y")
    kernels = stacked(b)[1]
    assert len(kernels) == 3
    assert sum(kernel.count("neg") for kernel in kernels) == 60


def test_a_stack_touches_no_more_than_some_regions(b: Builder, x: Value) -> None:
    value = x
    for number in range(30):
        value = b.emit(ops.Add(value, b.input(f"x{number}", "float32<1 x 4 x 4 x 8>")))
    b.save(value, "y")
    program, kernels = stacked(b)
    assert sum(kernel.count("add") for kernel in kernels) == 30
    sizes = [len(i.results) + len(i.sources) for i in program.work if isinstance(i, StackInst)]
    assert max(sizes) == MAX_POINTERS


DECLARED = """declare @main {
  %x = input float32<4>
  %y = output float32<4>
  %z = output float32<4>
}
program {
"""


def test_an_output_may_be_read_again() -> None:
    kernels = stacked(DECLARED + "  neg @out %y, @in %x\n  abs @out %z, @in %y\n}\n")[1]
    assert kernels == ["neg+abs"]


def test_the_last_of_two_writers_is_the_producer() -> None:
    program, kernels = stacked(
        DECLARED + "  %a = alloc float32<4>\n  neg @out %a, @in %x\n  abs @out %y, @in %a\n"
        "  exp @out %a, @in %x\n  tanh @out %z, @in %a\n  dealloc %a\n}\n"
    )
    assert kernels == ["neg+abs", "exp+tanh"]
    assert [a.name for a in program.activations] == ["a"]


def test_what_is_written_twice_is_stored_by_two_kernels() -> None:
    program, kernels = stacked(
        DECLARED + "  %a = alloc float32<4>\n  neg @out %a, @in %x\n  abs @out %y, @in %a\n"
        "  exp @out %a, @in %y\n  tanh @out %z, @in %a\n  dealloc %a\n}\n"
    )
    assert kernels == ["neg+abs", "exp+tanh"]
    program, kernels = stacked(
        DECLARED + "  %a = alloc float32<4>\n  neg @out %a, @in %x\n  abs @out %y, @in %a\n"
        "  exp @out %a, @in %x\n  sqrt @out %z, @in %y\n  dealloc %a\n}\n"
    )
    assert [a.name for a in program.activations] == ["a"]  # the last writer has no reader


def test_what_is_overwritten_in_between_is_read_before() -> None:
    kernels = stacked(
        DECLARED + "  %a = alloc float32<4>\n  neg @out %a, @in %x\n"
        "  %b = alloc float32<8>\n  %half = tensor_view %b {start = 0, steps = [1]} : float32<4>\n"
        "  tanh @out %half, @in %a\n  cum_sum @out %a, @in %x "
        "{axis = 0, exclusive = false, reverse = false}\n"
        "  abs @out %y, @in %half\n  %t = alloc float32<4>\n  exp @out %t, @in %y\n"
        "  sqrt @out %z, @in %a\n  dealloc %t\n  dealloc %b\n  dealloc %a\n}\n"
    )[1]
    assert kernels == ["neg+tanh", "cum_sum", "abs+exp", "sqrt"]


def test_a_producer_stays_before_what_overwrites_its_operand() -> None:
    kernels = stacked(
        DECLARED + "  %a = alloc float32<4>\n  cum_sum @out %a, @in %x "
        "{axis = 0, exclusive = false, reverse = false}\n"
        "  %t = alloc float32<4>\n  tanh @out %t, @in %a\n"
        "  cum_sum @out %a, @in %x {axis = 0, exclusive = true, reverse = false}\n"
        "  abs @out %y, @in %t\n  neg @out %z, @in %a\n  dealloc %t\n  dealloc %a\n}\n"
    )[1]
    assert kernels == ["cum_sum", "tanh", "cum_sum", "abs", "neg"]


def test_a_part_of_a_region_is_no_register() -> None:
    program, kernels = stacked(
        DECLARED + "  %b = alloc float32<8>\n"
        "  %half = tensor_view %b {start = 0, steps = [1]} : float32<4>\n"
        "  %t = alloc float32<4>\n  tanh @out %t, @in %x\n  neg @out %half, @in %t\n"
        "  sub @out %y, @in %t, @in %half\n  copy @out %z, @in %x\n"
        "  dealloc %t\n  dealloc %b\n}\n"
    )
    assert kernels == ["tanh+neg+sub", "copy"]
    assert [a.name for a in program.activations] == ["b"]


EMPTY = """declare @main {
  %x = input float32<0 x 4>
  %y = output float32<0 x 4>
}
program {
  %a = alloc float32<0 x 4>
"""


def test_a_window_without_elements_keeps_its_region_in_memory() -> None:
    view = "  %window = tensor_view %a {start = 0, steps = [4, 1]} : float32<0 x 4>\n"
    relu = "  relu @out %a, @in %x\n"
    end = "  dealloc %a\n}\n"
    read_both = f"{EMPTY}{relu}{view}  add @out %y, @in %a, @in %window\n{end}"
    assert stacked(read_both)[1] == ["relu", "add"]
    reduce = "{axes = [], keep_dims = false}"
    drawn = f"{EMPTY}{view}  copy @out %window, @in %x\n  reduce_sum @out %y, @in %a {reduce}\n"
    assert stacked(drawn + end)[1] == ["copy", "reduce_sum"]
    written_twice = f"{EMPTY}{relu}{view}  abs @out %window, @in %x\n  neg @out %y, @in %a\n"
    assert stacked(written_twice + end)[1] == ["relu", "abs", "neg"]


def test_only_buffers_of_one_region_are_compared(
    b: Builder, x: Value, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a long chain is no pairs of all its members, group by group."""
    asked = []

    def counted(left: Buffer, right: Buffer) -> bool:
        asked.append((left, right))
        return left.root is right.root

    monkeypatch.setattr("glow_nb.fuse.stack_instructions.may_overlap", counted)
    value = x
    for _ in range(60):
        value = b.emit(ops.Tanh(value))
    b.save(value, "y")
    _, kernels = stacked(b)
    assert len(kernels) == 3
    assert not asked
