"""A model with other numbers in its weights: everything else of the file stays as it was."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import numpy_helper

from glow_nb.errors import ModelError
from glow_nb.types import Array


def with_weights(model: onnx.ModelProto, weights: Mapping[str, Array]) -> onnx.ModelProto:
    """Return a copy of *model* whose initializers called as *weights* hold these.

    Raises:
        ModelError: It has no initializer of a name, or one of another shape or kind.
    """
    updated = onnx.ModelProto()
    updated.CopyFrom(model)
    initializers = {tensor.name: tensor for tensor in updated.graph.initializer}
    for name, array in weights.items():
        if name not in initializers:
            raise ModelError(f"the model has no initializer {name!r} that could hold new numbers")
        new, old = numpy_helper.from_array(array, name), initializers[name]
        if (new.data_type, list(new.dims)) != (old.data_type, list(old.dims)):
            raise ModelError(
                f"initializer {name!r} is {onnx.TensorProto.DataType.Name(old.data_type)} "
                f"{list(old.dims)}, the new numbers are {array.dtype} {list(array.shape)}"
            )
        old.CopyFrom(new)
    return updated
