"""What the outputs of a model should be: those of float64, if that does not take too long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

import glow_nb
from glow_nb.base.errors import GlowError
from glow_nb.base.precision import FULL
from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer.model import load_model
from glow_nb.formats.onnx.importer.whole import whole_model
from glow_nb.hlir.cost import total_cost
from glow_nb.tools.duel.contest import Measurement, duel
from glow_nb.tools.duel.engines import NO_OPTIONS, OURS, Arrays
from glow_nb.tools.duel.feeds import bind_shapes

MOST_WEIGHTS = 1 << 28
"""Weights of a larger model are not widened: they would take 2 GiB."""

MOST_OPERATIONS = 40_000_000_000
"""So many operations, as vgg19 and a vision transformer have, take NumPy some ten seconds."""

WIDE = "float64"

NARROW = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16})
"""Kinds of the standard that become float64."""


@dataclass(frozen=True)
class Reference:
    """Outputs that others are measured by.

    Attributes:
        outputs: In the model's order.
        name: The engine that computed them, by its name in a report.
    """

    outputs: list[Array]
    name: str


def reference_of(
    path: str,
    feeds: Arrays,
    results: Mapping[str, Measurement],
    *,
    threads: int,
    options: Mapping[str, Any] = NO_OPTIONS,
) -> Reference:
    """Return the outputs for *feeds* of the ONNX model at *path*.

    They are computed in float64, operator by operator. Where that would take too long or too much
    memory, or a model has operators that have no float64, they are those of glow_nb in float32,
    from *results* or, if it has not computed in float32 there, from one more run.
    """
    truth = _wide_outputs(path, feeds)
    if truth is not None:
        return Reference(truth, WIDE)
    ours = results.get(OURS)
    if ours is None:
        once = duel(
            path, feeds, threads=threads, engines=[OURS], rounds=0, seconds=0.0, options=options
        )
        ours = once[OURS]
    return Reference(ours.outputs, f"{OURS} in {FULL}")


def _wide_outputs(path: str, feeds: Arrays) -> list[Array] | None:
    """Return the outputs of the model in float64; None if that is too much, or not possible."""
    try:
        light = load_model(path).proto
        if sum(prod(tensor.dims) for tensor in light.graph.initializer) > MOST_WEIGHTS:
            return None
        model = whole_model(path)
        bind_shapes(model, {name: array.shape for name, array in feeds.items()})
        wide = _wide_function(model)
        if total_cost(wide).flops > MOST_OPERATIONS:
            return None
        return list(_computed(wide, feeds).values())
    except (GlowError, MemoryError):  # measured by float32, which the report says
        return None


def in_float64(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return *model* with all weights, constants, inputs and results that are floats widened."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for tensor in (*wide.graph.initializer, *_constants(wide.graph)):
        if tensor.data_type in NARROW:
            array = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for value in (*wide.graph.input, *wide.graph.output, *wide.graph.value_info):
        if value.type.tensor_type.elem_type in NARROW:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in wide.graph.node:
        for attribute in node.attribute:
            is_kind = (node.op_type, attribute.name) == ("Cast", "to")
            if is_kind and attribute.i in NARROW:
                attribute.i = TensorProto.DOUBLE
    return wide


def _constants(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield the tensors that nodes hold in attributes."""
    for node in graph.node:
        yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))


def truth_of(model: onnx.ModelProto, feeds: Arrays) -> dict[str, Array]:
    """Return the outputs of *model* for *feeds*, computed in ``float64``, operator by operator."""
    return _computed(_wide_function(model), feeds)


def _wide_function(model: onnx.ModelProto) -> glow_nb.Function:
    wide = glow_nb.load(in_float64(model))
    return wide


def _computed(wide: glow_nb.Function, feeds: Arrays) -> dict[str, Array]:
    wanted = {value.name: value.type.kind.dtype for value in wide.inputs}
    return glow_nb.evaluate(wide, {key: x.astype(wanted[key]) for key, x in feeds.items()})
