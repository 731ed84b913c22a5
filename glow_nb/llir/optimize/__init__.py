"""The instruction passes, one file each, named like the pass; importing this registers them all."""

from glow_nb.llir.optimize.eliminate_copies import eliminate_copies
from glow_nb.llir.optimize.eliminate_dead_stores import eliminate_dead_stores
from glow_nb.llir.optimize.eliminate_slices import eliminate_slices
from glow_nb.llir.optimize.peephole import peephole
from glow_nb.llir.optimize.schedule_instructions import schedule_instructions
from glow_nb.llir.optimize.share_buffers import share_buffers
from glow_nb.llir.optimize.shrink_lifetimes import shrink_lifetimes
from glow_nb.llir.passes import PROGRAM_PASSES

__all__ = [
    "PROGRAM_PASSES",
    "eliminate_copies",
    "eliminate_dead_stores",
    "eliminate_slices",
    "peephole",
    "schedule_instructions",
    "share_buffers",
    "shrink_lifetimes",
]
