"""Programs whose instructions are stacked, for the tests of what joins what."""

from __future__ import annotations

import numpy as np

from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value
from glow_nb.kernels import operators
from glow_nb.llir.generate import generate
from glow_nb.llir.parse import parse_program
from glow_nb.llir.print import print_program
from glow_nb.llir.program import Program
from glow_nb.llir.stack import StackInst
from glow_nb.llir.verify import verify
from tests.passes_for_cpu import run_passes


def packed_convolution(b: Builder, x: Value, name: str) -> Value:
    """A 1 x 1 convolution from 8 channels to 8."""
    filter = b.constant(f"{name}_w", np.ones((1, 1, 1, 1, 8, 8), np.float32))
    bias = b.constant(f"{name}_b", np.ones(8, np.float32))
    node = operators.PackedConvolution(
        x,
        filter,
        bias,
        depth=8,
        kernel=(1, 1),
        stride=(1, 1),
        pads=(0, 0, 0, 0),
        dilation=(1, 1),
        group=1,
        block=8,
    )
    return b.emit(node, name)


def stacked(source: Builder | str) -> tuple[Program, list[str]]:
    """Return the stacked program of *source* and the opcodes of each kernel."""
    before = parse_program(source) if isinstance(source, str) else generate(source.function())
    program = run_passes(before, ("stack_instructions",))
    verify(program)
    text = print_program(program)
    assert print_program(parse_program(text)) == text
    kernels = [
        "+".join(i.opcode for i in work.body) if isinstance(work, StackInst) else work.opcode
        for work in program.work
    ]
    return program, kernels
