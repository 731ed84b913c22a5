"""Operator stacking (paper 5.2): several data-parallel instructions as one pass over memory.

Importing this registers ``stack_instructions`` beside the instruction passes.
"""

from glow_nb.fuse.stack_instructions import stack_instructions
from glow_nb.llir.optimize import PROGRAM_PASSES

__all__ = ["PROGRAM_PASSES", "stack_instructions"]
