"""Quantization: which numbers the values of a network take, and the integers that stand for them.

::

    from glow_nb import quant

    ranges = quant.calibrate("digits.onnx", images)
    ranges.save("digits.yaml")
"""

from glow_nb.quant.calibrate import calibrate
from glow_nb.quant.histogram import Histogram
from glow_nb.quant.ranges import Ranges, ValueRange

__all__ = ["Histogram", "Ranges", "ValueRange", "calibrate"]
