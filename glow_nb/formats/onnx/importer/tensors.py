"""From ``TensorProto`` to arrays: raw, typed, sparse and external data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np
import onnx
from onnx import numpy_helper

from glow_nb.base.errors import ModelError
from glow_nb.base.types import MAX_RANK, MAX_TENSOR_BYTES, Array, ElementKind, TensorType
from glow_nb.formats.onnx.importer.weight_files import (
    LEAST_BYTES,
    StoredBytes,
    StoredNumbers,
    WeightBytes,
    WeightFile,
    WeightFiles,
    as_numbers,
)
from glow_nb.formats.onnx.importer.wire import THIS_FILE
from glow_nb.formats.onnx.schema.element_kinds import kind_of
from glow_nb.system.data_folder import DataFolder

Numbers = Array | StoredNumbers


@dataclass(frozen=True)
class Storage:
    """Where the numbers of a model's tensors may lie outside of its message.

    Attributes:
        folder: Where external data may lie; None for a model that did not come from a file.
        model: The file of the model itself, if it is one.
        files: The other files that are open.
    """

    folder: DataFolder | None = None
    model: WeightFile | WeightBytes | None = None
    files: WeightFiles = field(default_factory=WeightFiles)


def to_payload(tensor: onnx.TensorProto, place: str, storage: Storage) -> Numbers:
    """Return the numbers of *tensor*, or how they are read if they are many and in a file.

    Args:
        tensor: The message.
        place: The name in errors.
        storage: Where its numbers may lie.

    Raises:
        ModelError: The data do not fit the declared shape, or cannot be read.
        UnsupportedError: The element type is not supported.
    """
    kind = kind_of(tensor.data_type, place)
    type = TensorType(kind, _shape_of(tensor, kind, place))
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        content: Array | StoredBytes = stored_bytes(tensor, place, storage)
    elif tensor.HasField("raw_data"):
        content = np.frombuffer(tensor.raw_data, np.uint8)
    else:
        return _from_typed_fields(tensor, kind, type.shape, place)
    wanted = -(-type.size * kind.bits // 8)
    if content.nbytes != wanted:
        raise ModelError(
            f"{place}: it has {content.nbytes} bytes of data, its type {kind.value} and shape "
            f"{list(type.shape)} need {wanted}; the file may be damaged"
        )
    if isinstance(content, StoredBytes):
        if wanted >= LEAST_BYTES and content.file.stays:
            return StoredNumbers(content, type)
        content = content.read()
    return as_numbers(content, type)


def to_array(tensor: onnx.TensorProto, place: str, storage: Storage) -> Array:
    """Return the numbers of *tensor*, read at once; raises as :func:`to_payload`."""
    payload = to_payload(tensor, place, storage)
    return payload.make() if isinstance(payload, StoredNumbers) else payload


def is_possible(shape: tuple[int, ...]) -> bool:
    """Return whether a tensor may have *shape*, as far as memory allows."""
    return len(shape) <= MAX_RANK and min(shape, default=0) >= 0


def _shape_of(tensor: onnx.TensorProto, kind: ElementKind, place: str) -> tuple[int, ...]:
    shape = tuple(tensor.dims)
    if not is_possible(shape) or prod(shape) * kind.size_bytes > MAX_TENSOR_BYTES:
        raise ModelError(
            f"{place}: its shape {list(shape)} of {len(shape)} dimensions is not one a tensor can "
            "have"
        )
    return shape


def _from_typed_fields(
    tensor: onnx.TensorProto, kind: ElementKind, shape: tuple[int, ...], place: str
) -> Array:
    try:
        array = np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, OverflowError) as error:
        raise ModelError(
            f"{place}: its data do not make a {kind.value} tensor of shape {list(shape)} "
            f"({error}); the file may be damaged"
        ) from error
    return array.astype(kind.dtype, copy=False).reshape(shape)


def stored_bytes(tensor: onnx.TensorProto, place: str, storage: Storage) -> StoredBytes:
    """Find external data, which must lie in the folder of the model; raises as `to_payload`."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    file = storage.model if location == THIS_FILE else None
    if file is None:
        file = _open_external(storage, location, place)
    offset = _whole_number(entries, "offset", 0, place)
    left = file.size_bytes - offset
    length = _whole_number(entries, "length", max(left, 0), place)
    if length > left:
        raise ModelError(
            f"{place}: its data are bytes {offset} to {offset + length} of {location!r}, "
            f"which has {file.size_bytes}; the file may be truncated"
        )
    return StoredBytes(file, range(offset, offset + length))


def _open_external(storage: Storage, location: str, place: str) -> WeightFile:
    if storage.folder is None:
        raise ModelError(
            f"{place}: its data are in file {location!r} beside the model; "
            "import the model by its path, so that the file can be found"
        )
    path = storage.folder.path_of(location, place)
    try:
        return storage.files.open(path)
    except OSError as error:
        raise ModelError(
            f"{place}: its data cannot be read from {location!r}: {error.strerror}; "
            "keep that file beside the model"
        ) from error


def _whole_number(entries: Mapping[str, str], key: str, default: int, place: str) -> int:
    text = entries.get(key, str(default))
    # 19 digits are more than any file has bytes.
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ModelError(f"{place}: the {key} of its external data is {text!r}, not a number")
    return int(text)


def sparse_to_array(
    tensor: onnx.SparseTensorProto, place: str, storage: Storage, limit_bytes: int
) -> Array:
    """Return a sparse tensor as a dense array of at most *limit_bytes*."""
    values = to_array(tensor.values, place, storage)
    indices = to_array(tensor.indices, f"{place}: indices", storage)
    shape = tuple(tensor.dims)
    if not is_possible(shape) or prod(shape) * values.itemsize > limit_bytes:
        raise ModelError(f"{place}: a dense tensor of shape {list(shape)} is too large")
    columns = (indices,) if indices.ndim == 1 else tuple(indices.T)
    if indices.ndim == 2:
        fits = indices.shape[1] == len(shape) and len(indices) == len(values)
        fits = fits and all(
            not c.size or (c.min() >= 0 and c.max() < n)
            for c, n in zip(columns, shape, strict=False)
        )
    else:
        fits = indices.ndim == 1 and len(indices) == len(values)
        fits = fits and (not indices.size or 0 <= indices.min() <= indices.max() < prod(shape))
    if not fits or indices.dtype.kind != "i" or values.ndim != 1:
        raise ModelError(f"{place}: its indices do not fit its shape {list(shape)}")
    dense = np.zeros(shape, values.dtype)
    if indices.ndim == 2:
        dense[columns] = values
    else:
        dense.reshape(-1)[indices] = values
    return dense
