"""Buffers that elementwise kernels are tested on."""

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.program import Buffer

BOOL, FLOAT32, INT64 = ElementKind.BOOL, ElementKind.FLOAT32, ElementKind.INT64

TARGETS = [Target.host(lanes) for lanes in LANE_COUNTS]


def buffer_of(*shape: int, kind: ElementKind = FLOAT32) -> Buffer:
    return Buffer("buffer", TensorType(kind, shape))
