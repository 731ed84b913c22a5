"""Models of one layer or one block, drawn at random by kind; what is drawn depends on a seed alone.

:data:`KINDS` has the kinds by name, one file a family; :func:`draw` makes a model. It imports
nothing of the compiler but its types.
"""

from __future__ import annotations

from experiments.networks.drawn import (  # noqa: F401 - each enters its kinds
    convolutions,
    elementwise,
    images,
    movement,
    products,
    quantized,
    reductions,
)
from experiments.networks.drawn.drawing import KINDS, Drawn, draw

__all__ = ["KINDS", "Drawn", "draw"]
