"""Operators whose weights lie as the cpu's kernels want them; the cpu backend selects them.

Importing this package defines their nodes and instructions.
"""

from __future__ import annotations

from glow_nb.hlir.rules import no_gradient
from glow_nb.kernels.operators import (
    packed_instructions,
    strassen_instructions,
    winograd_instructions,
)
from glow_nb.kernels.operators.channel_wise import ChannelWiseConvolution
from glow_nb.kernels.operators.dequantizing import PackedDequantizingMatMul
from glow_nb.kernels.operators.fast_fourier import FastFourier
from glow_nb.kernels.operators.filter_gradient import (
    DepthwiseFilterGradient,
    FilterGradientParts,
)
from glow_nb.kernels.operators.packed import (
    DepthwiseConvolution,
    GroupedConvolution,
    PackedConvolution,
    PackedMatMul,
)
from glow_nb.kernels.operators.paired import PairedConvolution
from glow_nb.kernels.operators.quantize_by_reciprocal import QuantizeByReciprocal
from glow_nb.kernels.operators.strassen import StrassenMatMul
from glow_nb.kernels.operators.strassen_weights import StrassenScales, StrassenWeights
from glow_nb.kernels.operators.unpacked import UnpackedMatMul
from glow_nb.kernels.operators.winograd import WinogradConvolution, WinogradFilter

_OPERATORS = [kind for kind in globals().values() if isinstance(kind, type)]
__all__ = [kind.__name__ for kind in _OPERATORS]

no_gradient(
    "the cpu backend has put it in the place of others; differentiate the graph as it was before",
    *_OPERATORS,
)
