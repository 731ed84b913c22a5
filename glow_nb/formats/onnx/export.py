"""Exporters: high-level functions to model files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from glow_nb.base.arguments import as_path
from glow_nb.base.errors import OptionError
from glow_nb.hlir.graph import Function
from glow_nb.hlir.verify import verify

if TYPE_CHECKING:
    import onnx


def export_onnx(
    function: Function, path: str | os.PathLike[str] | None = None, *, opset: int | None = None
) -> onnx.ModelProto:
    """Return *function* as an ONNX model, and write it to *path* if one is given.

    Inputs, outputs and constants keep their names, types and order; so do nodes whose operator ONNX
    has. Other operators are composed of those that ONNX has. Images have the channels first, as in
    ONNX: transposes remain if inputs or outputs of the function have the channels last. An output
    with a data-dependent size has an open size. Where a node has
    a predicate, the results of all samples are computed. Open sizes are dimensions called by their
    texts, ``past + 1``; what depends on them is computed from the shapes of inputs.

    A state that the function does not update is a constant. One that it updates, ``s``, is an
    input, whose default is the initial value, and an output ``s_next``, which is the input of the
    next run.

    Args:
        function: The graph, before or after any passes except those of a backend, which emit
            operators that only its kernels compute.
        path: The file to write; it is replaced as a whole. Constants of more than 2 GiB do not fit
            into one file: they are written to ``path.data`` beside it, and the model that is
            returned refers to that file.
        opset: The operator set; by default the oldest one from 20 on that has all operators and
            element kinds, or up to 24 one that takes the kinds without conversions.

    Raises:
        OptionError: *function* is no graph, or there is no such operator set.
        UnsupportedError: ONNX cannot express some nodes; lists them all. Or no input has a size
            that is needed.
        OpenSizeError: A number is needed where a size is open; names the node.
        VerifyError: The function breaks a rule of the graph.
        MemoryLimitError: It has more than 2 GiB of constants and no *path* is given.
        GlowError: *path* cannot be written, and is as it was before.
    """
    if not isinstance(function, Function):
        raise OptionError(
            f"{function!r:.80} is a {type(function).__name__}; give a Function, as glow_nb.load "
            "and Builder.function return it"
        )
    place = None if path is None else Path(as_path(path))
    verify(function)
    from glow_nb.formats.onnx.exporter import message_of, write_model  # takes long

    return message_of(function, opset) if place is None else write_model(function, place, opset)
