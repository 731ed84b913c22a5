"""The composition of a model, whatever its sizes are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from glow_nb.base.element_kind import ElementKind

SHAPES = (ElementKind.INT64, ElementKind.UINT64, ElementKind.BOOL)
"""Kinds of constants that hold shapes, axes, places and conditions."""


@dataclass(frozen=True)
class Summary:
    """The composition of a model.

    Attributes:
        name: The name of its graph.
        operators: The number of nodes of each operator. Of ONNX, those in bodies count once, and an
            operator of another than the default domain is called ``domain.operator``.
        parameters: Numbers in those of its constants that count (:func:`counts_as_parameters`).
        parameter_bytes: Their bytes.
    """

    name: str
    operators: Counter[str]
    parameters: int
    parameter_bytes: int


def counts_as_parameters(kind: ElementKind, rank: int, *, is_weight: bool = True) -> bool:
    """Return whether the numbers of a constant count as parameters.

    Those of a scalar do not, nor shapes and places, nor floats of a formula, which the import of a
    model makes: a constant of floats must be a weight. Integers may be quantized weights.
    """
    return rank > 0 and kind not in SHAPES and (is_weight or not kind.is_float)
