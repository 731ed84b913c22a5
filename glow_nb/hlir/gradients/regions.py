"""Samples of regions are not differentiated."""

from __future__ import annotations

from glow_nb.hlir.ops.regions import RoiAlign
from glow_nb.hlir.rules import no_gradient

no_gradient(
    "the boxes decide in a run which elements are sampled, and no operator adds gradients up there",
    RoiAlign,
)
