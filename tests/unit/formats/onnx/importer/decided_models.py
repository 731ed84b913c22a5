"""Models some of whose sizes runs decide, as text, and what they are fed with."""

from __future__ import annotations

import numpy as np
import onnx.parser

from glow_nb.base.types import Array

RNG = np.random.default_rng(0)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape, dtype=np.float32)


def whole(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


AXIS = "axis = Constant <value = int64[1] {0}> ()\n last = Constant <value = int64[1] {1}> ()\n"


def model(text: str) -> onnx.ModelProto:
    head, _, nodes = text.partition("{")
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> main {head} {{ {AXIS} {nodes}'
    )
