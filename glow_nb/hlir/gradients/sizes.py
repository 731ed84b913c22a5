"""Sizes depend on no operand, and nothing flows back through them."""

from __future__ import annotations

from glow_nb.hlir.ops.decide_size import DecideSize
from glow_nb.hlir.ops.sizes import Sizes
from glow_nb.hlir.rules import no_gradient

no_gradient("its numbers are sizes", Sizes)
no_gradient("its result has no elements", DecideSize)
