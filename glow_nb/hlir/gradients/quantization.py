"""Quantized arithmetic is not differentiated."""

from __future__ import annotations

from glow_nb.hlir import ops
from glow_nb.hlir.ops.quantized_elementwise import BINARY
from glow_nb.hlir.rules import no_gradient

no_gradient(
    "it rounds to integers, or reads them, and its derivative is 0 or undefined; differentiate the "
    "float network before it is quantized",
    *(ops.Quantize, ops.Dequantize, ops.Rescale, ops.Stored, ops.AsQuantized),
    *(ops.QuantizeLinear, ops.DequantizeLinear, ops.Requantize, ops.IntLookupTable),
    *(ops.QuantizedConvolution, ops.QuantizedTransposedConvolution),
    *(ops.QuantizedMatMul, ops.QuantizedFullyConnected, ops.QuantizedAveragePool),
    ops.DequantizingMatMul,
    *BINARY,
)
