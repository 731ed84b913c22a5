"""Weights that no cache holds from run to run, which few rows multiply, in floats of 28 bits."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from glow_nb.backends.cpu.products import Product, weight_bytes
from glow_nb.float28 import words_of
from glow_nb.hlir.graph import Constant, Value
from glow_nb.hlir.ops import Convolution, FullyConnected
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.kernels.operators import Float28MatMul, Float28Words
from glow_nb.kernels.operators.float28 import LARGEST_PLACE, Outliers, panels_in_streams
from glow_nb.kernels.operators.panels import pad_end
from glow_nb.kernels.target import Target
from glow_nb.payload import Recipe
from glow_nb.types import ElementKind

MOST_ROWS = 2
"""Left rows that wait for the memory while weights are unpacked. On one Zen 4 core, products with
35 matrices of 768 x 3072 in turn take 0.74 to 0.79 of the time with one row, 0.77 with two, and
0.93 to 1.02 with three; with machine code for AVX2 0.83 to 0.87 with one, and 0.85 with two."""

LEAST_BYTES = 1 << 18
"""Of a matrix for which it is worth while to look at all its numbers."""

MOST_WORDS = 0.93
"""Of a matrix, for each number: 7/8, and what pads the last panels of one with few columns."""

MOST_OUTLIERS = 1 / 256
"""Part of a panel. All panels of a matrix take the time of that with the most: if it is the limit,
up to a tenth of the time of a product."""


class FarWeights:
    """The products of a network that do nothing but wait for their weights."""

    def __init__(self, products: Sequence[Product], target: Target) -> None:
        """Look at *products*, all that the network has, for *target*."""
        self._lanes = target.lanes
        self._are_far = weight_bytes(products) > target.machine.l3_bytes
        self._known: dict[Value, Outliers | None] = {}

    def outliers(self, node: Product) -> Outliers | None:
        """Return what has no code of the weights of *node*; None if these stay as they are."""
        if isinstance(node, Convolution) or not self._are_far or not _has_few_rows(node):
            return None
        matrix = node.factors[1]
        if matrix not in self._known:
            self._known[matrix] = self._few_outliers(matrix)
        return self._known[matrix]

    def _few_outliers(self, matrix: Value) -> Outliers | None:
        """Return the outliers of *matrix* if it is a suitable constant and there are few."""
        payload = matrix.payload if isinstance(matrix, Constant) else None
        is_matrix = matrix.type.kind is ElementKind.FLOAT32 and matrix.type.rank == 2
        if payload is None or not is_matrix or matrix.type.size_bytes < LEAST_BYTES:
            return None
        inner, depth = matrix.type.shape
        panel_size = inner * self._lanes
        words = panels_in_streams(depth, self._lanes) * words_of(inner) * self._lanes
        if words > MOST_WORDS * matrix.type.size or panel_size > LARGEST_PLACE:
            return None
        numbers = payload.make() if isinstance(payload, Recipe) else payload
        return Outliers.of(numbers, self._lanes, int(MOST_OUTLIERS * panel_size))

    def emit(self, node: Product, rewriter: Rewriter, outliers: Outliers) -> Value:
        """Emit *node* with its weights in floats of 28 bits, but for *outliers*."""
        lhs, matrix = node.factors
        bias = node.bias if isinstance(node, FullyConnected) else None
        panels, _ = outliers.places.shape
        depth, block = matrix.type.shape[1], self._lanes
        words = rewriter.emit(Float28Words(matrix, block, outliers.least))
        least, name = np.array([outliers.least], np.int32), matrix.name
        return rewriter.emit(
            Float28MatMul(
                lhs,
                words,
                rewriter.constant(f"{name}_least", least, is_weight=False),
                rewriter.constant(f"{name}_places", outliers.places, is_weight=False),
                rewriter.constant(f"{name}_outliers", outliers.numbers),
                None if bias is None else pad_end(rewriter, bias, 0, panels * block - depth),
                depth=depth,
                block=block,
                predicate=node.predicate,
            )
        )


def _has_few_rows(node: Product) -> bool:
    return 0 < prod(node.type.shape[:-1]) <= MOST_ROWS
