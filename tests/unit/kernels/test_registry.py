"""Instructions find their kernel generators."""

from typing import Any

import pytest

from glow_nb.base.errors import CompileError, DefinitionError, UnsupportedError
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.registry import CPU_KERNELS, kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.instructions.normalization import SoftmaxInst
from glow_nb.llir.instructions.reduction import CumSumInst
from glow_nb.llir.program import Activation, Alloc, Buffer, Instruction, Register
from glow_nb.llir.stack import StackInst
from glow_nb.llir.traits import FUSES_EPILOGUE

ReluInst = instruction_for(ops.Relu)


def test_instruction_without_a_kernel_is_named() -> None:
    buffer = Activation("scores", TensorType(ElementKind.FLOAT32, (3,)))
    with pytest.raises(UnsupportedError, match=r"alloc .*%scores.* no kernel for Alloc"):
        generate_kernel(Alloc(buffer), Target.host())


def test_second_kernel_of_an_instruction_is_refused() -> None:
    known = CPU_KERNELS[SoftmaxInst]
    with pytest.raises(DefinitionError, match="kernel of 'SoftmaxInst' is already registered by"):

        @kernel_for(SoftmaxInst)
        def own(instruction: SoftmaxInst, target: Target) -> KernelSource:
            raise NotImplementedError

    assert CPU_KERNELS[SoftmaxInst] is known


def test_a_kernel_that_fuses_is_registered_as_one_of_a_head() -> None:
    with pytest.raises(
        DefinitionError, match="SoftmaxInst: a kernel that fuses.*@glow_nb.*head_kernel_for"
    ):
        kernel_for(SoftmaxInst, traits=FUSES_EPILOGUE)


def test_a_stack_of_a_kernel_that_takes_no_fusion_is_refused() -> None:
    dest = Buffer("dest", x().type)
    stack = StackInst.of([CumSumInst(dest, x(), axis=0, exclusive=False, reverse=False)])
    with pytest.raises(UnsupportedError, match="CumSumInst cannot be the head of a stack"):
        generate_kernel(stack, Target.host())


def test_a_head_whose_kernel_carries_no_stack_is_named() -> None:
    made = Register("made", x().type)
    head = CumSumInst(made, x(), axis=0, exclusive=False, reverse=False)
    stack = StackInst.of([head, ReluInst(Buffer("dest", made.type), made)])
    with pytest.raises(UnsupportedError, match=r"kernel of cum_sum cannot go on with its result"):
        generate_kernel(stack, Target.host())


def x() -> Buffer:
    return Buffer("x", TensorType(ElementKind.FLOAT32, (3,)))


def test_data_parallel_instructions_need_no_generator() -> None:
    assert ReluInst not in CPU_KERNELS
    assert "positive_part" in generate_kernel(ReluInst(x(), x()), Target.host()).text


@pytest.mark.parametrize("fails", [True, False])
def test_a_generator_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    cause = LookupError("no plan")

    def own(instruction: Instruction, target: Target) -> Any:
        if fails:
            raise cause

    monkeypatch.setitem(CPU_KERNELS, ReluInst, own)
    wanted = "LookupError: no plan" if fails else "returned None, not a KernelSource"
    with pytest.raises(CompileError, match=f"relu .*%x: kernel generator 'own'.*{wanted}") as error:
        generate_kernel(ReluInst(x(), x()), Target.host())
    assert error.value.__cause__ is (cause if fails else None)
