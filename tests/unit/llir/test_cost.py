"""Arithmetic and traffic of instructions, counted by hand."""

from __future__ import annotations

import numpy as np

from glow_nb.base.costs import Cost, InstructionCost
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.llir.cost import instruction_cost
from glow_nb.llir.program import Instruction, Program
from glow_nb.network.files import parse_text

DECLARED = """\
declare @main {{
{declared}
}}
program {{
{body}
}}
"""


def only(declared: str, body: str) -> Instruction:
    """Return the one instruction of a program that computes."""
    program = parse_text(DECLARED.format(declared=declared, body=body))
    assert isinstance(program, Program)
    (instruction,) = program.work
    return instruction


def test_convolution() -> None:
    cost = instruction_cost(
        only(
            """
  %w = weight float32<1 x 2 x 3 x 3 x 8 x 16>, external
  %b = weight float32<32>, external
  %x = input float32<2 x 9 x 9 x 8>
  %y = output float32<2 x 9 x 9 x 30>""",
            "packed_convolution @out %y, @in %x, @in %w, @in %b {depth = 30, kernel = [3, 3], "
            "stride = [1, 1], pads = [1, 1, 1, 1], dilation = [1, 1], group = 1, block = 16}",
        )
    )
    results = 2 * 9 * 9 * 30
    assert cost.nominal == cost.executed == Cost(results * 9 * 8, results)
    assert cost.constant_bytes == 4 * (2 * 9 * 8 * 16 + 32)
    assert cost.read_bytes == 4 * 2 * 9 * 9 * 8
    assert cost.written_bytes == 4 * results
    assert cost.bytes == cost.constant_bytes + cost.read_bytes + cost.written_bytes
    assert cost.intensity == cost.executed.flops / cost.bytes


def test_product_of_run_time_operands() -> None:
    cost = instruction_cost(
        only(
            """
  %x = input float32<5 x 2 x 3>
  %z = input float32<5 x 3 x 7>
  %y = output float32<5 x 2 x 7>""",
            "mat_mul @out %y, @in %x, @in %z",
        )
    )
    assert cost == InstructionCost(
        Cost(5 * 2 * 3 * 7), Cost(5 * 2 * 3 * 7), 0, 4 * (30 + 105), 4 * 70
    )


def test_a_copy_computes_nothing() -> None:
    cost = instruction_cost(
        only(
            """
  %x = input float32<4 x 8>
  %y = output float32<4 x 8>""",
            "copy @out %y, @in %x",
        )
    )
    assert cost == InstructionCost(read_bytes=128, written_bytes=128)


def test_an_operand_used_twice_is_read_once() -> None:
    cost = instruction_cost(
        only(
            """
  %x = input float32<64>
  %y = output float32<64>""",
            "mul @out %y, @in %x, @in %x",
        )
    )
    assert cost == InstructionCost(Cost(others=64), Cost(others=64), 0, 256, 256)


def test_of_a_table_only_what_is_picked_is_read() -> None:
    cost = instruction_cost(
        only(
            """
  %table = weight float32<30000 x 8>, external
  %i = input int64<3>
  %y = output float32<3 x 8>""",
            "gather @out %y, @in %table, @in %i {axis = 0}",
        )
    )
    assert (cost.constant_bytes, cost.read_bytes, cost.written_bytes) == (96, 24, 96)


def test_registers_of_a_stack_move_no_bytes() -> None:
    cost = instruction_cost(
        only(
            """
  %x = input float32<64>
  %z = input float32<64>
  %y = output float32<64>""",
            """
  stack {
    %sum = register float32<64>
    add @out %sum, @in %x, @in %z from %sum
    relu @out %y, @in %sum from %relu
  }""",
        )
    )
    assert cost == InstructionCost(Cost(others=128), Cost(others=128), 0, 512, 256)


def test_costs_add_up() -> None:
    one = InstructionCost(Cost(1, 2), Cost(3, 4), 5, 6, 7)
    assert one + one == InstructionCost(Cost(2, 4), Cost(6, 8), 10, 12, 14)
    assert InstructionCost().intensity == 0


def test_without_a_rule_of_its_own_a_node_executes_its_nominal_arithmetic() -> None:
    b = Builder()
    x = b.input("x", "float32<2 x 3>")
    w = b.constant("w", np.zeros((3, 5), np.float32))
    assert ops.MatMul(x, w).executed_cost() == Cost(30)


def test_a_scatter_beside_its_data_moves_all_of_them() -> None:
    """Data and result have different places in one region."""
    program = parse_text(
        DECLARED.format(
            declared="""
  %x = input float32<100 x 4>
  %i = input int64<3 x 1>
  %u = input float32<3 x 4>
  %y = output float32<200 x 4>""",
            body="""
  %d = tensor_view %y {start = 0, steps = [4, 1]} : float32<100 x 4>
  relu @out %d, @in %x
  %s = tensor_view %y {start = 400, steps = [4, 1]} : float32<100 x 4>
  scatter_nd @out %s, @in %d, @in %i, @in %u {reduction = "none"}""",
        )
    )
    assert isinstance(program, Program)
    cost = instruction_cost(program.work[1])
    assert (cost.read_bytes, cost.written_bytes) == (1600 + 24 + 48, 1600)


def test_a_scatter_over_its_data_moves_the_updates_only() -> None:
    declared = """
  %x = input float32<100 x 4>
  %i = input int64<3 x 1>
  %u = input float32<3 x 4>
  %y = output float32<100 x 4>"""
    elsewhere = only(declared, 'scatter_nd @out %y, @in %x, @in %i, @in %u {reduction = "none"}')
    cost = instruction_cost(elsewhere)
    assert (cost.read_bytes, cost.written_bytes) == (1600 + 24 + 48, 1600)
    program = parse_text(
        DECLARED.format(
            declared=declared,
            body="""
  %d = alloc float32<100 x 4>
  relu @out %d, @in %x
  %s = tensor_view %d {start = 0, steps = [4, 1]} : float32<100 x 4>
  scatter_nd @out %s, @in %d, @in %i, @in %u {reduction = "add"}
  copy @out %y, @in %s
  dealloc %d""",
        )
    )
    assert isinstance(program, Program)
    cost = instruction_cost(program.work[1])
    assert (cost.read_bytes, cost.written_bytes) == (48 + 24 + 48, 48)
