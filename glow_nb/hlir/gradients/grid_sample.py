"""Gradients of sampling: those of the gathers and weights that it is."""

from __future__ import annotations

from glow_nb.hlir.backpropagate import through_lowering
from glow_nb.hlir.ops.grid_sample import GridSample
from glow_nb.hlir.rules import gradient

gradient(GridSample)(through_lowering)
