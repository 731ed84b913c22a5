"""The ONNX importer: a model file to a high-level function.

Rules for the operators are in :mod:`glow_nb.formats.onnx.importer.rules`, one file a family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from glow_nb.base.errors import UnboundDimension, UnboundInput
from glow_nb.base.memory_limit import out_of_memory
from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer import rules
from glow_nb.formats.onnx.importer.decided import with_decided_sizes
from glow_nb.formats.onnx.importer.dimensions import Shapes
from glow_nb.formats.onnx.importer.importer import Importer
from glow_nb.formats.onnx.importer.model import Model, ModelSource, load_model
from glow_nb.formats.onnx.importer.nodes import model_nodes
from glow_nb.formats.onnx.importer.open_sizes import import_open
from glow_nb.formats.onnx.importer.registry import RULES, onnx_op
from glow_nb.formats.onnx.importer.summary import summary_of
from glow_nb.formats.onnx.importer.symbolic import (
    SymbolicModel,
    declared_inputs,
    defaults_of,
    fed_inputs,
    snapshot,
)
from glow_nb.formats.onnx.importer.watched import named_nodes, value_names, watched_values
from glow_nb.hlir.graph import Function


def import_onnx(
    model: ModelSource,
    *,
    shapes: Shapes | None = None,
    constants: Mapping[str, Array] | None = None,
    watched: Sequence[str] = (),
) -> Function:
    """Import an ONNX model of opset 7 or later.

    Inputs and outputs keep their names, types and order; activations keep ONNX's ``[N, C, ...]``
    layout at the border, while operators bound to ``[N, ..., C]`` stand between transposes.
    Weights are views of the file's bytes where no layout change is needed, so their arrays need
    not be contiguous.

    Args:
        model: A path, the bytes of a file, an ``onnx.ModelProto``, or what load_model returned.
        shapes: Sizes of symbolic dimensions by name (``{"batch": 8}``; a dimension without name is
            called ``input[axis]``), or whole shapes by input name. An initializer that is an input
            as well is a constant unless its whole shape is given.
        constants: Inputs that are fixed to given arrays and are no inputs any more: needed where
            a shape is computed from them. They replace initializers that are inputs as well.
        watched: Names of values that become outputs, too.

    Raises:
        ModelError: The model is broken; says where and how.
        UnsupportedError: It needs operators, attributes or types that are missing here; one error
            names all of them.
        UnboundDimension: A symbolic dimension has no size.
        UnboundInput: A shape depends on the numbers of an input.
        OptionError: *shapes* does not fit the model.
        MemoryLimitError: Its constants need more memory than the process may have.
    """
    loaded = load_model(model)
    try:
        return with_decided_sizes(
            lambda: Importer(loaded, shapes or {}, constants or {}, watched), Importer.function
        )
    except MemoryError as error:
        raise out_of_memory(loaded.place, error) from error


SUPPORTED_OPERATORS = tuple(sorted({name for _, name in RULES}))
"""ONNX operators with an import rule; function operators without one are expanded."""

__all__ = [
    "SUPPORTED_OPERATORS",
    "Model",
    "ModelSource",
    "Shapes",
    "SymbolicModel",
    "UnboundDimension",
    "UnboundInput",
    "declared_inputs",
    "defaults_of",
    "fed_inputs",
    "import_onnx",
    "import_open",
    "load_model",
    "model_nodes",
    "named_nodes",
    "onnx_op",
    "rules",
    "snapshot",
    "summary_of",
    "value_names",
    "watched_values",
]
