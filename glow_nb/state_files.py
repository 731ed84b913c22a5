"""State in files: safetensors, which other programs read, too.

Kinds that the format does not name are stored as bytes, and the texts of the file say which they
are. A file is replaced as a whole: a process that is killed leaves the old one or the new one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glow_nb.errors import StateError
from glow_nb.files import replace_file
from glow_nb.regular_files import open_regular
from glow_nb.state_store import StateStore
from glow_nb.types import Array, ElementKind, TensorType

_KINDS = {
    "BOOL": ElementKind.BOOL,
    "U8": ElementKind.UINT8,
    "I8": ElementKind.INT8,
    "U16": ElementKind.UINT16,
    "I16": ElementKind.INT16,
    "U32": ElementKind.UINT32,
    "I32": ElementKind.INT32,
    "U64": ElementKind.UINT64,
    "I64": ElementKind.INT64,
    "F16": ElementKind.FLOAT16,
    "BF16": ElementKind.BFLOAT16,
    "F32": ElementKind.FLOAT32,
    "F64": ElementKind.FLOAT64,
}
"""What the format calls the kinds that other programs know by it."""

_STORED_AS_BYTES = "glow_nb.kinds"
"""The text of a file that tells the kinds of states that are stored as bytes, by name, in JSON."""


def save_state(state: StateStore, path: Path) -> None:
    """Write all of *state* to *path*; the file is complete on the disk before it takes its place.

    Raises:
        StateError: A run is in progress.
        GlowError: *path* is no regular file, or cannot be written.
    """
    from safetensors.numpy import save

    with state.for_reading() as arrays:
        kinds = {name: ElementKind.of(array.dtype) for name, array in arrays.items()}
        named = {name: kind for name, kind in kinds.items() if kind.is_storage}
        texts = {_STORED_AS_BYTES: json.dumps({n: kind.value for n, kind in named.items()})}
        stored = {n: a.view(np.uint8) if n in named else a for n, a in arrays.items()}
        content = save(stored, texts if named else None)
    replace_file(path, lambda place: place.write_bytes(content))


def load_state(state: StateStore, path: Path) -> None:
    """Read all of *state* from *path*; it stays as it was if the file does not fit.

    Raises:
        StateError: The file cannot be read or is damaged, its names, kinds or shapes are others
            than those of *state*, or a run is in progress.
    """
    arrays = _read(path)
    known, found = state.types, {name: TensorType.of(array) for name, array in arrays.items()}
    missing = [f"{name!r} : {type}" for name, type in known.items() if name not in found]
    unknown = [f"{name!r} : {type}" for name, type in found.items() if name not in known]
    others = [
        f"{name!r} is {found[name]}, the network has {type}"
        for name, type in known.items()
        if name in found and found[name] != type
    ]
    problems = [
        f"it lacks {', '.join(missing)}" * bool(missing),
        f"it has {', '.join(unknown)}, which the network has not" * bool(unknown),
        "; ".join(others),
    ]
    if any(problems):
        listed = "; ".join(filter(None, problems))
        raise StateError(f"{path}: not the state of this network: {listed}; give its own file")
    state.update_all(arrays)


def _read(path: Path) -> dict[str, Array]:
    """Return the arrays of the file *path* by name."""
    from safetensors import SafetensorError, deserialize

    try:
        with open_regular(path) as stream:
            content = stream.read()
        tensors: list[tuple[str, dict[str, Any]]] = deserialize(content)
        stored = json.loads(_texts(content).get(_STORED_AS_BYTES, "{}"))
        return {name: _array(tensor, stored.get(name)) for name, tensor in tensors}
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(f"{path}: not a file of state: {error}; save the state again") from error


def _texts(content: bytes) -> dict[str, str]:
    """Return the texts of a file that was found to be well-formed."""
    end = 8 + int.from_bytes(content[:8], "little")
    texts: dict[str, str] = json.loads(content[8:end]).get("__metadata__", {})
    return texts


def _array(tensor: Mapping[str, Any], stored: str | None) -> Array:
    kind = ElementKind(stored) if stored else _KINDS[tensor["dtype"]]
    shape = tuple(tensor["shape"])
    if kind.is_storage and math.prod(shape) != len(tensor["data"]):
        raise ValueError(f"{len(tensor['data'])} bytes for {kind.value} of shape {shape}")
    return np.frombuffer(tensor["data"], kind.dtype).reshape(shape)
