"""Why operators that choose some of many have no gradients."""

from __future__ import annotations

from glow_nb.hlir.ops.selection import NonMaxSuppression, NonZero, Unique
from glow_nb.hlir.rules import no_gradient

no_gradient("its results are positions and their number", NonMaxSuppression, NonZero, Unique)
