"""Instruction passes as the compiler runs them for the cpu: with what its kernels can do."""

from __future__ import annotations

from glow_nb.base.steps import Entries
from glow_nb.compiler.program_passes import PROGRAM_PASSES
from glow_nb.kernels.cpu_kernels import CPU_KERNELS
from glow_nb.llir.program import Program
from glow_nb.llir.traits import Traits


def run_passes(program: Program, pipeline: Entries, traits: Traits = CPU_KERNELS.traits) -> Program:
    """Return *program* after the passes of *pipeline*."""
    return PROGRAM_PASSES.run(program, PROGRAM_PASSES.with_options(pipeline, {"traits": traits}))
