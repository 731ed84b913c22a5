"""One node in ONNX Runtime, and how far right answers may lie apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from glow_nb.base.types import Array
from tests.unit.formats.onnx.importer.models import model, value

MOST_ELEMENTS = 20_000
STEP = {"float16": 2e-3, "float32": 4e-6, "float64": 1e-12}
"""How far one node may be off, relative to the size of its numbers."""


class RefusedError(Exception):
    """What was drawn is no model that ONNX Runtime takes, or has more than one right answer."""


def model_of(
    nodes: Sequence[onnx.NodeProto],
    infos: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    weights: Sequence[onnx.TensorProto],
    opset: int,
) -> onnx.ModelProto:
    domains = {node.domain for node in nodes} - {""}
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 3) for d in domains)]
    proto = model(nodes, infos, outputs, weights, opset_imports=opsets)
    for info in proto.graph.output:
        info.ClearField("type")
    if not infos:
        del proto.graph.input[:]
    return proto


class Single:
    """One node in ONNX Runtime, to be computed with several operands."""

    def __init__(self, node: onnx.NodeProto, operands: dict[str, Array], opset: int) -> None:
        self.operands = operands
        infos = [
            value(name, array.shape, helper.np_dtype_to_tensor_dtype(array.dtype))
            for name, array in operands.items()
        ]
        proto = model_of([node], infos, [name for name in node.output if name], [], opset)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            self._session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
        except _REFUSALS as error:
            raise RefusedError(str(error)) from error

    def run(self, moved: dict[str, Array]) -> list[Array]:
        """Return the results, some operands being *moved*."""
        try:
            found: list[Array] = self._session.run(None, {**self.operands, **moved})
        except _REFUSALS as error:
            raise RefusedError(str(error)) from error
        if sum(array.size for array in found) > MOST_ELEMENTS:
            raise RefusedError("too large")
        return found


_ERRORS = onnxruntime.capi.onnxruntime_pybind11_state
_REFUSALS = (
    _ERRORS.Fail,
    _ERRORS.InvalidArgument,
    _ERRORS.InvalidGraph,
    _ERRORS.NotImplemented,
    _ERRORS.RuntimeException,
)


def rounding(array: Array, operands: Iterable[Array]) -> float:
    """Return how far the rounding within one node may take its result."""
    kinds = [a.dtype.name for a in (array, *operands)]
    step = max((STEP[kind] for kind in kinds if kind in STEP), default=0.0)
    if array.dtype.kind != "f":
        return 0.0
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    read = [np.abs(a.astype(np.float64)) for a in operands if a.dtype.kind == "f" and a.size]
    sizes = [float(a[np.isfinite(a)].max(initial=0)) for a in read]
    return step * max(1.0, float(finite.max(initial=0)), min(100.0, max(sizes, default=0.0)))


def distance(array: Array, other: Array) -> float:
    """Return how far two results lie apart; RefusedError if no distance says it."""
    if array.shape != other.shape:
        raise RefusedError("another size")
    if array.dtype.kind != "f":
        if not np.array_equal(array, other):
            raise RefusedError("another choice")
        return 0.0
    wide, far = array.astype(np.float64), other.astype(np.float64)
    finite = np.isfinite(wide)
    if not np.array_equal(wide[~finite], far[~finite], equal_nan=True):
        raise RefusedError("infinite for one only")
    apart = float(np.abs(wide[finite] - far[finite]).max(initial=0))
    if not apart < 0.05 * max(1.0, float(np.abs(wide[finite]).max(initial=0))):
        raise RefusedError("far off")
    return apart
