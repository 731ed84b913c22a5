"""A program that asks for more than a kernel can do is refused, and told what is too much."""

from __future__ import annotations

import pytest

from glow_nb.base.errors import UnsupportedError
from glow_nb.fuse.check_traits import check_traits
from glow_nb.hlir import ops
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.parse import parse_program
from glow_nb.llir.program import Instruction
from glow_nb.llir.traits import KernelTraits

MatMulInst = instruction_for(ops.MatMul)
PROGRAM = """declare @main {{
  %x = input float32<4 x 4>
  %w = input float32<4 x 4>
  %column = input float32<4 x 1>
  %y = output float32<4 x 4>
}}
program {{
  %whole = alloc float32<4 x 9>
  %window = tensor_view %whole {{start = 2, steps = [9, 1]}} : float32<4 x 4>
  %a = alloc float32<4 x 4>
  copy @out %window, @in %x
  copy @out %a, @in %x
  {body}
  copy @out %y, @in %a
  dealloc %whole
  dealloc %a
}}
"""
PROLOGUE = """stack {
    %r = register float32<4 x 4>
    tanh @out %r, @in %x
    mat_mul @out %a, @in %r, @in %w
  }"""
EPILOGUE = """stack {
    %r = register float32<4 x 4>
    mat_mul @out %r, @in %x, @in %w
    add @out %a, @in %r, @in %x
  }"""
FAR = EPILOGUE.replace("@in %r, @in %x\n  }", "@in %r, @in %column\n  }")
IN_PLACE = EPILOGUE.replace("@in %r, @in %x\n  }", "@in %r, @in %a\n  }")
WINDOW = "mat_mul @out %a, @in %window, @in %w"

EPILOGUE_ONLY = KernelTraits(fuses_epilogue=True)
CASES = [
    (PROLOGUE, KernelTraits(prologue_operand="lhs"), KernelTraits(),
     "mat_mul cannot compute %r; take what does out of the stack"),
    (EPILOGUE, EPILOGUE_ONLY, KernelTraits(),
     "mat_mul cannot go on with its result; take mat_mul out of the stack"),
    (FAR, KernelTraits(fuses_epilogue=True, reaches_all=True), EPILOGUE_ONLY,
     "mat_mul cannot reach %column : float32<4 x 1>; take add out of the stack"),
    (IN_PLACE, KernelTraits(fuses_epilogue=True, stores_once=True), EPILOGUE_ONLY,
     "mat_mul cannot write %a over %a; give it memory of its own"),
    (WINDOW, KernelTraits(strided=("lhs",)), KernelTraits(strided=("dest",)),
     r"cannot step over the gaps in %window, whose strides are \[9, 1\]; copy it"),
]  # fmt: skip


def third(body: str) -> Instruction:
    return parse_program(PROGRAM.format(body=body)).work[2]


@pytest.mark.parametrize(("body", "enough", "too_few", "message"), CASES)
def test_what_a_kernel_cannot_do_is_named(
    body: str, enough: KernelTraits, too_few: KernelTraits, message: str
) -> None:
    instruction = third(body)
    check_traits(instruction, {MatMulInst: enough})
    with pytest.raises(UnsupportedError, match=message):
        check_traits(instruction, {MatMulInst: too_few})


def test_another_operand_than_the_prologues_is_not_computed() -> None:
    with pytest.raises(UnsupportedError, match="cannot compute %r"):
        check_traits(third(PROLOGUE), {MatMulInst: KernelTraits(prologue_operand="rhs")})


def test_loops_over_memory_can_do_it_all() -> None:
    loop = third("add @out %a, @in %window, @in %column")
    check_traits(loop, {})


def test_the_cpu_refuses_it_before_it_writes_a_kernel() -> None:
    body = "cum_sum @out %a, @in %window {axis = 0, exclusive = false, reverse = false}"
    with pytest.raises(UnsupportedError, match="cum_sum .* cannot step over the gaps in %window"):
        generate_kernel(third(body), Target.host())
