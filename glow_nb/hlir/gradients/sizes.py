"""Sizes depend on no operand."""

from __future__ import annotations

from glow_nb.hlir.ops.sizes import Sizes
from glow_nb.hlir.rules import no_gradient

no_gradient("its numbers are sizes", Sizes)
