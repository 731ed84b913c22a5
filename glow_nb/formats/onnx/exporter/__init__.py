"""The ONNX exporter: a high-level function to a model.

A function is rewritten until ONNX has an operator for every node (``model.py``): what it lacks is
composed of what it has, and images get the channels first (``layout.py``). Then each node is
written by the rule of its operator (``writer.py``). Rules and compositions are in
:mod:`glow_nb.formats.onnx.exporter.rules`, one file a family.
"""

from glow_nb.formats.onnx.exporter import rules
from glow_nb.formats.onnx.exporter.files import message_of, write_model

__all__ = ["message_of", "rules", "write_model"]
