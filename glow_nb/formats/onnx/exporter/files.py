"""Constants as messages, and models as files: one, or two where the constants do not fit in one."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx
from onnx import numpy_helper

from glow_nb.base.errors import MemoryLimitError
from glow_nb.formats.onnx.exporter.model import as_model
from glow_nb.hlir.graph import Constant, Function, State, Value
from glow_nb.system.replaced_files import replace_file

MAX_MESSAGE_BYTES = (1 << 31) - (1 << 24)
"""Constants of one message: protobuf's limit of 2 GiB, less 16 MiB for all else."""

INLINE_BYTES = 1 << 10
"""Constants up to this size stay in the model even if the others are in a file of their own."""

ALIGNMENT = 1 << 12
"""Where a constant begins in that file, so that a page of memory can begin there, too."""


def message_of(function: Function, opset: int | None) -> onnx.ModelProto:
    """Return *function* as one message.

    Raises:
        MemoryLimitError: Its constants are too large for one.
    """
    size_bytes = constant_bytes(function)
    if size_bytes > MAX_MESSAGE_BYTES:
        raise MemoryLimitError(
            f"function {function.name!r}: its constants have {size_bytes} bytes, and an ONNX "
            f"model in one piece can hold {MAX_MESSAGE_BYTES}; give a path, so that they are "
            "written to a file beside the model"
        )
    return as_model(function, opset, inline)


def constant_bytes(function: Function) -> int:
    """Return the bytes of all constants and states."""
    stored: tuple[Value, ...] = (*function.constants, *function.state)
    return sum(value.type.size_bytes for value in stored)


def inline(constant: Constant | State) -> onnx.TensorProto:
    """Return the message of a constant that holds its numbers."""
    return numpy_helper.from_array(np.asarray(constant.array, order="C"), constant.name)


def write_model(function: Function, path: Path, opset: int | None) -> onnx.ModelProto:
    """Write *function* to *path*, and constants of more than 2 GiB to ``path.data`` beside it.

    Each file is replaced as a whole.
    """
    if constant_bytes(function) <= MAX_MESSAGE_BYTES:
        model = message_of(function, opset)
    else:
        model = _with_data_beside(function, path, opset)
    replace_file(path, lambda place: place.write_bytes(model.SerializeToString()))
    return model


def _with_data_beside(function: Function, path: Path, opset: int | None) -> onnx.ModelProto:
    data = path.with_name(f"{path.name}.data")
    made: list[onnx.ModelProto] = []

    def write(place: Path) -> None:
        with place.open("wb") as stream:
            made.append(as_model(function, opset, _Beside(stream, data.name).tensor_of))

    replace_file(data, write)
    return made[0]


class _Beside:
    """Writes constants to a file, one after another."""

    def __init__(self, stream: BinaryIO, location: str) -> None:
        self._stream, self._location = stream, location

    def tensor_of(self, constant: Constant | State) -> onnx.TensorProto:
        """Return the message that says where in the file a constant is."""
        tensor = inline(constant)
        if len(tensor.raw_data) <= INLINE_BYTES:
            return tensor
        self._stream.write(bytes(-self._stream.tell() % ALIGNMENT))
        offset = self._stream.tell()
        length = self._stream.write(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        places = {"location": self._location, "offset": offset, "length": length}
        for key, value in places.items():
            tensor.external_data.add(key=key, value=str(value))
        return tensor
