"""Compiled networks on disk: saved by name, or kept in the cache by their content.

What `manifest`, `files`, `reading` and `key` import must stay light: a network that is found starts
without numba, llvmlite, onnx and the levels of IR. `levels` loads those at first use.
"""
