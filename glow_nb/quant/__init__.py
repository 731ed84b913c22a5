"""Quantization: which numbers the values of a network take, and the integers that stand for them.

::

    from glow_nb import quant

    ranges = quant.calibrate("digits.onnx", images)
    ranges.save("digits.yaml")
    network = glow_nb.compile(quant.quantize("digits.onnx", ranges))
"""

from glow_nb.quant.calibrate import calibrate
from glow_nb.quant.conversion import Conversion, convert, quantize
from glow_nb.quant.histogram import Histogram
from glow_nb.quant.methods import Percentile
from glow_nb.quant.placement import Kept
from glow_nb.quant.ranges import Ranges, ValueRange
from glow_nb.quant.schemas import Encoding

__all__ = [
    "Conversion",
    "Encoding",
    "Histogram",
    "Kept",
    "Percentile",
    "Ranges",
    "ValueRange",
    "calibrate",
    "convert",
    "quantize",
]
