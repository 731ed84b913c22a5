"""Importers: model files to high-level functions (paper 3.6, step 1)."""

from glow_nb.importers.onnx import (
    UnboundDimension,
    UnboundInput,
    import_onnx,
)

__all__ = ["UnboundDimension", "UnboundInput", "import_onnx"]
