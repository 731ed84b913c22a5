"""The instruction passes, each under its own name: ``Program -> Program``."""

from __future__ import annotations

import glow_nb.llir.rewriting  # noqa: F401  rules are passes, too
from glow_nb.base.passes import PassRegistry
from glow_nb.fuse.stack_instructions import stack_instructions
from glow_nb.llir.optimize.eliminate_copies import eliminate_copies
from glow_nb.llir.optimize.eliminate_dead_stores import eliminate_dead_stores
from glow_nb.llir.optimize.eliminate_slices import eliminate_slices
from glow_nb.llir.optimize.peephole import peephole
from glow_nb.llir.optimize.schedule_instructions import schedule_instructions
from glow_nb.llir.optimize.share_buffers import share_buffers
from glow_nb.llir.optimize.shrink_lifetimes import shrink_lifetimes
from glow_nb.llir.program import Program
from glow_nb.llir.verify import verify

PROGRAM_PASSES: PassRegistry[Program] = PassRegistry(
    "instruction",
    verify,
    argument="program_pipeline",
    renewed="program.with_instructions(instructions)",
)
register_pass = PROGRAM_PASSES.register

for _run in (
    eliminate_copies,
    eliminate_dead_stores,
    eliminate_slices,
    peephole,
    schedule_instructions,
    share_buffers,
    shrink_lifetimes,
    stack_instructions,
):
    register_pass(_run)
