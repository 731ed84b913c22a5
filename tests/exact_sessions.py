"""ONNX Runtime as the judge of quantized models: sums of its products of bytes are exact."""

from __future__ import annotations

from pathlib import Path

import onnxruntime


def exact_session(model: bytes | Path) -> onnxruntime.InferenceSession:
    """Return a session of *model* whose products of unsigned and signed bytes do not saturate.

    Without VNNI, ONNX Runtime adds pairs of such products in 16 bits, unless it is asked for
    precision: https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html.
    """
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model, options)
