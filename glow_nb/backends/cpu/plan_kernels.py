"""Give each instruction whose kernel leaves a choice the plan of its loops."""

from __future__ import annotations

from glow_nb.compiler.program_passes import register_pass
from glow_nb.kernels.cpu_kernels import planned
from glow_nb.kernels.target import Target
from glow_nb.llir.program import Program


@register_pass
def plan_kernels(program: Program, *, target: Target | None = None) -> Program:
    """Plan the kernels of *program* for *target*, by default this processor.

    The last of the passes: a plan depends on what stands around the head of a stack, and on where
    operands and results lie. An instruction that has a plan with settings keeps it; what writes the
    kernels decides nothing.

    ::

        packed_mat_mul @out %y, @in %x, @in %w, @in none {depth = 64, block = 16}
        ->
        packed_mat_mul @out %y, @in %x, @in %w, @in none {depth = 64, block = 16}
            plan direct {dot = "tile_dot", rows = 6, inner = 256, units = 14}
    """
    chosen = target or Target.host()
    made = [planned(instruction, chosen) for instruction in program.instructions]
    if all(new is old for new, old in zip(made, program.instructions, strict=True)):
        return program
    return program.with_instructions(made)
