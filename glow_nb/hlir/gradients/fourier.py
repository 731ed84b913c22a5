"""Gradients of Fourier transforms: those of the products that they are."""

from __future__ import annotations

from glow_nb.hlir.backpropagate import through_lowering
from glow_nb.hlir.ops.fourier import FourierTransform
from glow_nb.hlir.rules import gradient

gradient(FourierTransform)(through_lowering)
