"""Quantization: calibration of ranges, int8 and low-bit versions of a network, and their error.

It imports `network` and what stands below that.

::

    from glow_nb import quant

    ranges = quant.calibrate("digits.onnx", images)
    ranges.save("digits.yaml")
    quantized = quant.quantize("digits.onnx", ranges)
    network = glow_nb.compile(quantized)
    print(quant.drift("digits.onnx", quantized, images))
"""

from glow_nb.hlir.histogram import Histogram
from glow_nb.quant.bias_correction import BiasCorrection, correct_biases
from glow_nb.quant.calibration import calibrate
from glow_nb.quant.comparison import Drift, drift
from glow_nb.quant.conversion import Conversion, convert, quantize
from glow_nb.quant.equalization import Equalization, equalize
from glow_nb.quant.gain import Gains, LayerGain, Times
from glow_nb.quant.methods import Percentile
from glow_nb.quant.placement import Kept
from glow_nb.quant.ranges import Ranges
from glow_nb.quant.schemas import Encoding
from glow_nb.quant.value_drift import ValueDrift
from glow_nb.quant.value_range import ValueRange
from glow_nb.quant.weight_only import WeightConversion, convert_weights

__all__ = [
    "BiasCorrection",
    "Conversion",
    "Drift",
    "Encoding",
    "Equalization",
    "Gains",
    "Histogram",
    "Kept",
    "LayerGain",
    "Percentile",
    "Ranges",
    "Times",
    "ValueDrift",
    "ValueRange",
    "WeightConversion",
    "calibrate",
    "convert",
    "convert_weights",
    "correct_biases",
    "drift",
    "equalize",
    "quantize",
]
