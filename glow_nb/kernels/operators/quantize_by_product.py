"""Quantization by a product: a scale that is known is divided by as exactly, and faster.

``1 / scale = high + low``, two numbers of float32, up to ``2^-48`` of it. ``x low`` rounded, plus
``x high`` rounded once, is the quotient ``x / scale`` rounded, but where that lies as near to the
middle of two floats. So the integer that it is rounded to may differ in few places alone: beside
``n + 1/2``. Both are functions of x that never fall, as ``low`` is positive, so that it is enough
to compare them at these borders: :func:`reciprocal_of` does, and declines a scale for which they
differ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from typing_extensions import override

from glow_nb.base.conversion import rounded
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.elementwise import fused_multiply_add
from glow_nb.hlir.ops.families import require_kind
from glow_nb.hlir.ops.linear_quantization import FLOAT32, require_beside, require_result_kind
from glow_nb.hlir.ops.quantization import BYTES

BORDERS = np.arange(-512, 512) + 0.5
"""Between all integers that are bytes when any offset is added, and beyond them."""

NEIGHBOURS = np.arange(-4, 5)
"""Floats to compare at, from the one that is nearest to a border."""

LEAST, GREATEST = 2.0**-60, 2.0**60
"""Reciprocals beyond which products might leave the range of float32."""


class Reciprocal(NamedTuple):
    """Two arrays of float32 whose sum is the reciprocal of a scale, element by element."""

    high: Array
    low: Array


@define_node(
    "quantize_by_product",
    scalar="saturate(rint(fma(input, high, input * low)) + convert_float32(offset))",
)
class QuantizeByProduct(Node):
    """Round to integers of *kind*: ``saturate(rint(input[i] (high[i] + low[i])) + offset[i])``.

    The product is rounded to float32 as ``fma(input, high, input * low)``. With a reciprocal of
    :func:`reciprocal_of` this is :class:`~glow_nb.hlir.ops.QuantizeLinear`, for every input.
    Operands broadcast to the input as there.
    """

    input: Value
    high: Value
    low: Value
    offset: Value
    kind: ElementKind

    @override
    def infer_type(self) -> TensorType:
        require_kind(self, "input", self.input.type, frozenset({FLOAT32}))
        require_result_kind(self, self.kind, BYTES)
        require_beside(self, "high", self.high, FLOAT32)
        require_beside(self, "low", self.low, FLOAT32)
        require_beside(self, "offset", self.offset, self.kind)
        return self.input.type.with_kind(self.kind)

    @override
    def evaluate(self, input: Array, high: Array, low: Array, offset: Array) -> Array:
        with np.errstate(all="ignore"):
            product = fused_multiply_add(input, high, input * low)
            return rounded(product, offset, self.kind)


def reciprocal_of(scale: Array) -> Reciprocal | None:
    """Return the reciprocal of float32 *scales*; None if bytes might come out differently.

    ``high`` lies below the reciprocal, so that ``low`` is positive and infinity stays infinity.
    """
    wide = 1.0 / scale.astype(np.float64)
    if not ((wide > LEAST) & (wide < GREATEST)).all():
        return None
    high = wide.astype(np.float32)
    high = np.where(high < wide, high, np.nextafter(high, np.float32(0)))
    low = (wide - high).astype(np.float32)
    same = all(
        _rounds_alike(*each)
        for each in set(zip(*(a.flat for a in (scale, high, low)), strict=True))
    )
    return Reciprocal(high, low) if same else None


def _rounds_alike(scale: np.float32, high: np.float32, low: np.float32) -> bool:
    """Return whether quotients and products are rounded to the same integers at all borders."""
    near = (BORDERS * float(scale)).astype(np.float32).view(np.int32)  # floats in their order
    x = (near + np.sign(near) * NEIGHBOURS[:, np.newaxis]).astype(np.int32).view(np.float32)
    divided = np.rint(x / scale)
    wide = x.astype(np.float64) * float(high) + (x * low).astype(np.float64)
    single = wide.astype(np.float32)
    # The sum in float64 is rounded, too: one in the middle of two floats may become either.
    beyond = np.nextafter(single, np.where(wide > single, np.float32(np.inf), np.float32(-np.inf)))
    other = np.where(np.abs(wide - single) == np.abs(wide - beyond), beyond, single)
    encloses = (divided[0] != divided[-1]).all()
    alike = (np.rint(single) == divided) & (np.rint(other) == divided)
    return bool(encloses and alike.all())
