"""The kernels of a backend: who makes them, and what is said of them."""

from __future__ import annotations

import pytest

from glow_nb.base.errors import DefinitionError
from glow_nb.hlir import ops
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.instructions.normalization import SoftmaxInst
from glow_nb.llir.instructions.pooling import MaxPoolInst
from glow_nb.llir.kernel_table import KernelTable
from glow_nb.llir.program import Alloc, Instruction
from glow_nb.llir.traits import KernelTraits

ReluInst = instruction_for(ops.Relu)


def make(instruction: Instruction) -> str:
    return instruction.opcode


def test_two_tables_know_nothing_of_each_other() -> None:
    first, second = KernelTable("first"), KernelTable("second")
    traits = KernelTraits(fuses_epilogue=True)
    assert first.kernel_for(MaxPoolInst, SoftmaxInst, traits=traits)(make) is make
    assert first.maker_of(SoftmaxInst) is make
    assert first.traits[MaxPoolInst] == traits
    assert not second
    assert not second.traits
    assert second.maker_of(SoftmaxInst) is None


def test_operators_have_kernels_by_their_instructions() -> None:
    table = KernelTable("own")
    assert not any(map(table.has_kernel, (ops.Softmax, ops.Relu, ops.Split)))
    table.kernel_for(SoftmaxInst)(make)
    assert table.has_kernel(ops.Softmax)
    assert not table.has_kernel(ops.Relu)


def test_a_scalar_expression_is_kernel_enough() -> None:
    table = KernelTable("own", scalar=make)
    assert table.maker_of(ReluInst) is make
    assert table.maker_of(Alloc) is None
    assert all(map(table.has_kernel, (ops.Relu, ops.Split)))  # a split becomes copies
    assert not table.has_kernel(ops.Softmax)


@pytest.mark.parametrize(
    "traits",
    [KernelTraits(strided=("dest", "inputs")), KernelTraits(prologue_operand="inputs")],
    ids=["strided", "prologue"],
)
def test_traits_name_operands(traits: KernelTraits) -> None:
    table = KernelTable("own")
    message = "own kernel of 'SoftmaxInst': its traits name 'inputs', .* dest, input; did you mean"
    with pytest.raises(DefinitionError, match=message):
        table.kernel_for(SoftmaxInst, traits=traits)(make)
    assert not table
    assert not table.traits
