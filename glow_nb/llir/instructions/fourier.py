"""Discrete Fourier transforms."""

from __future__ import annotations

from glow_nb.hlir.ops import fourier as nodes
from glow_nb.llir.instructions.derived import derive_instruction

derive_instruction(nodes.FourierTransform)
