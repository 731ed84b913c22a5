"""ONNX: what its standard says, the importer and the exporter.

It imports `hlir` and what stands below that.
"""
