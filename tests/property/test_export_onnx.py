"""Every operator, drawn from its declaration, means the same in the ONNX model that is exported.

The model passes ONNX's own checker, gives the same numbers when it is imported again, and in
ONNX Runtime if that has kernels for its element kinds.
"""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from glow_nb.base.errors import GlowError
from glow_nb.base.schema import attributes_of, operands_of
from glow_nb.base.types import Array, ElementKind
from glow_nb.formats.onnx.export import export_onnx
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir import ops
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import NODES, Constant, Function, Node, Value
from glow_nb.hlir.rewrite import substitute
from glow_nb.hlir.rounding import is_narrow
from tests.in_turn import marked
from tests.property.drawn_operators import DrawnGraph, NotDrawnError, draw_graph
from tests.property.test_drawn_operators import check_close

OPERATORS = sorted(
    {getattr(ops, name).opcode for name in ops.__all__}
    - {ops.Profile.opcode, ops.DecideSize.opcode}  # whose operand is to be a certain number
)
"""All but the one that stands in a network only while it is calibrated."""
SEEDS = st.integers(0, 2**32 - 1)
PART = max(1, settings().max_examples // 60)

INDEXED = (ops.Gather, ops.GatherElements, ops.GatherND, ops.ScatterElements, ops.ScatterND)
"""Operators whose indices must be inside in ONNX; here those outside are clamped."""

PADDED = (ops.NonZero, ops.NonMaxSuppression, ops.Unique)
"""Operators whose padding a drawn graph shows: the model then computes with a size that only a run
knows, which no model can that is imported."""

NEWEST_IN_ONNXRUNTIME = 26
"""The newest operator set that ONNX Runtime reads."""

KNOWN_KINDS = frozenset(kind for kind in ElementKind if kind.dtype.isbuiltin == 1)
"""Kinds that arrays of ONNX Runtime have; it has no NumPy dtype for the others."""


def with_indices_inside(drawn: DrawnGraph) -> DrawnGraph:
    """Return *drawn* with all indices inside of what they lead into."""
    function, feeds = drawn.function, dict(drawn.feeds)
    constants: dict[Value, Value] = {}
    for node in function.nodes:
        value = _indices_of(node)
        if value is None:
            continue
        source = operands_of(node)[0]
        least = min((n for n in source.type.shape if n), default=1)
        numbers = value.array if isinstance(value, Constant) else feeds[value.name]
        inside = (numbers % least).astype(numbers.dtype)
        if isinstance(value, Constant):
            constants[value] = Constant.of(value.name, inside)
        else:
            feeds[value.name] = inside
    return DrawnGraph(substitute(function, constants), feeds)


def _indices_of(node: Node) -> Value | None:
    if isinstance(node, INDEXED):
        return node.indices
    return node.batch if isinstance(node, ops.RoiAlign) else None


def in_onnxruntime(model: onnx.ModelProto, feeds: dict[str, Array]) -> dict[str, Array] | None:
    """Return the outputs of *model*; None if ONNX Runtime has no kernel for a node of it."""
    if model.opset_import[0].version > NEWEST_IN_ONNXRUNTIME:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Its fusion of scales into products holds them in float32, also those of products in float64.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    except ort_errors.NotImplemented:
        return None
    names = [output.name for output in model.graph.output]
    fed = {name: np.asarray(array) for name, array in feeds.items()}
    return dict(zip(names, session.run(names, fed), strict=True))


def is_comparable(function: Function) -> bool:
    """True if ONNX Runtime can be asked: about kinds that it has, and about what is determined."""
    types = [placeholder.type for placeholder in function.placeholders]
    return {type.kind for type in types} <= KNOWN_KINDS and all(map(_is_determined, function))


def _is_determined(node: Node) -> bool:
    if not all(math.isfinite(a) for a in attributes_of(node).values() if isinstance(a, float)):
        return False
    match node:
        case ops.TopK(sorted=False):
            return False  # any order will do
        case ops.RecurrentLayer() if node.input.type.kind is ElementKind.FLOAT64:
            return False  # refused by a run only
        case ops.RecurrentLayer(cell="lstm") if node.clip:
            return False  # by ONNX's text the cell is clipped before its activation, too
        case ops.ColumnsToImage() if len(node.image) != 2 and max(node.dilation) > 1:
            return False  # the dilation is forgotten there; onnx.reference agrees with us
        case ops.RoiAlign(ratio=0):
            return False  # boxes that end before they begin are refused there
        case ops.ScatterElements() | ops.ScatterND():
            return node.reduction == "none" or not is_narrow(node.type)  # refused by a run only
    return True


def is_in_onnx(node: Node) -> None:
    """Raise a GlowError about a node that ONNX has no way to say."""
    if isinstance(node, ops.BitCast) and node.kind.bits == 6:
        raise GlowError(f"{node}: ONNX's BitCast takes no 6-bit floats")
    if isinstance(node, ops.QuantizedAveragePool) and not np.isfinite(node.multiplier()).all():
        raise GlowError(
            f"{node}: ONNX does not say to which integer the mean of nothing is rounded"
        )


def check_export(drawn: DrawnGraph) -> bool:
    """Check the exported model of *drawn*; return whether ONNX Runtime has computed it."""
    function, feeds = drawn.function, drawn.feeds
    expected = evaluate(function, feeds)
    model = export_onnx(function)
    onnx.checker.check_model(model, full_check=True)
    if not any(isinstance(node, PADDED) for node in function.nodes):
        check_outputs(function, evaluate(import_onnx(model), feeds), expected)
    found = in_onnxruntime(model, feeds) if is_comparable(function) else None
    if found is not None:
        check_outputs(function, {n: np.asarray(a) for n, a in found.items()}, expected)
    return found is not None


def check_outputs(function: Function, found: dict[str, Array], expected: dict[str, Array]) -> None:
    """Check outputs as everywhere, but for quantized ones: these may be one step apart.

    ONNX says them by floats, whose sums round a number beside a half to either side.
    """
    for output in function.outputs:
        got, want = found[output.name], expected[output.name]
        if output.type.is_quantized and got.dtype == want.dtype and got.shape == want.shape:
            apart = np.abs(got.astype(np.int64) - want)
            assert apart.max(initial=0) <= 1, (output.name, got, want)
            expected = expected | {output.name: got}
    check_close(found, expected)


@pytest.mark.parametrize("name", marked(OPERATORS, slow=["quantized_convolution"]))
@given(seed=SEEDS)
@settings(max_examples=PART)
def test_every_operator_means_the_same_in_onnx(name: str, seed: int) -> None:
    """Convolutions of integers are drawn for seconds; ``test_quantization`` exports some."""
    try:
        drawn = draw_graph([NODES[name]], seed, is_in_onnx)
    except NotDrawnError:  # patience has an end
        reject()
    check_export(with_indices_inside(drawn))
