"""Gradients of attention: those of what it lowers to, which makes the weights once more."""

from __future__ import annotations

from glow_nb.hlir.backpropagate import through_lowering
from glow_nb.hlir.ops.attention import Attention
from glow_nb.hlir.rules import gradient

gradient(Attention)(through_lowering)
