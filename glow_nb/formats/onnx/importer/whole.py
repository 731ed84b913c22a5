"""A model as one message, with the numbers that lie in files."""

from __future__ import annotations

import onnx

from glow_nb.formats.onnx.importer.locations import tensors_of
from glow_nb.formats.onnx.importer.model import load_model
from glow_nb.formats.onnx.importer.tensors import stored_bytes


def whole_model(path: str) -> onnx.ModelProto:
    """Return the model at *path* with all of its numbers in the message.

    Files of external data are those that the importer accepts: ``onnx.load`` takes no links, which
    the cache of a model hub is made of.

    Raises:
        ModelError: The model, or a file of its data, cannot be read.
    """
    model = load_model(path)
    for tensor in tensors_of(model.proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            where = f"{model.place}: tensor {tensor.name!r}"
            tensor.raw_data = stored_bytes(tensor, where, model.storage).read().tobytes()
            del tensor.external_data[:]
            tensor.ClearField("data_location")
    return model.proto
