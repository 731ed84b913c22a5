"""Comparisons: conformance to ONNX, engines side by side, differences of texts.

It imports `network`, `onnx_backend` and what stands below those.
"""
