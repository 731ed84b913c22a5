"""Tensors and texts by name in safetensors files, which other programs read, too.

Kinds that the format does not name are stored as bytes, and a text of the file says which they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glow_nb.base.errors import GlowError
from glow_nb.base.types import Array, ElementKind
from glow_nb.system.regular_files import open_regular

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
"""The text that tells the kinds of the tensors that are stored as bytes, by name, in JSON."""

_TEXTS = "__metadata__"
"""Where the header of a file has the texts, beside the names of the tensors."""


def tensor_bytes(arrays: Mapping[str, Array], texts: Mapping[str, str]) -> bytes:
    """Return the content of a file of *arrays* and *texts*.

    Raises:
        GlowError: An array has the name that the format keeps for itself.
    """
    from safetensors.numpy import save

    if _TEXTS in arrays:
        raise GlowError(
            f"tensor {_TEXTS!r}: a file cannot hold it, the format keeps this name for itself; "
            "rename it"
        )
    kinds = {name: ElementKind.of(array.dtype) for name, array in arrays.items()}
    named = {name: kind.value for name, kind in kinds.items() if kind.is_storage}
    stored = {n: a.view(np.uint8) if n in named else a for n, a in arrays.items()}
    told = {_STORED_AS_BYTES: json.dumps(named)} if named else {}
    return save(stored, {**texts, **told} or None)


def read_tensors(
    path: Path, error: type[GlowError], what: str
) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the arrays and the texts of the file *path*, which should be *what*.

    Raises:
        error: The file cannot be read, or is damaged.
    """
    from safetensors import SafetensorError, deserialize

    try:
        with open_regular(path) as stream:
            content = stream.read()
        tensors: list[tuple[str, dict[str, Any]]] = deserialize(content)
        texts = _texts(content)
        kinds = _kinds_of_bytes(texts.pop(_STORED_AS_BYTES, "{}"))
        return {name: _array(name, tensor, kinds) for name, tensor in tensors}, texts
    except OSError as fault:
        raise error(f"{path}: cannot be read: {fault.strerror or fault}") from fault
    except (SafetensorError, ValueError) as fault:
        raise error(
            f"{path}: cannot be read, it is not {what}: {fault}; give another, or save it again"
        ) from fault


def _texts(content: bytes) -> dict[str, str]:
    """Return the texts of a file that was found to be well-formed."""
    end = 8 + int.from_bytes(content[:8], "little")
    texts: dict[str, str] = json.loads(content[8:end]).get(_TEXTS) or {}
    return texts


def _kinds_of_bytes(text: str) -> dict[str, ElementKind]:
    """Return the kinds in *text*, by name; raise ValueError if it names none."""
    kinds = {kind.value: kind for kind in ElementKind if kind.is_storage}
    try:
        named = json.loads(text)
    except (ValueError, RecursionError):
        named = None
    if not isinstance(named, dict) or not all(str(kind) in kinds for kind in named.values()):
        raise ValueError(f"{_STORED_AS_BYTES} is {text!r:.80}, not kinds of tensors by name")
    return {name: kinds[kind] for name, kind in named.items()}


def _array(name: str, tensor: Mapping[str, Any], stored: Mapping[str, ElementKind]) -> Array:
    """Return the array of a *tensor* of a well-formed file; raise ValueError if it has no kind."""
    held = tensor["dtype"]
    kind = stored.get(name, _KINDS.get(held))
    if kind is None:
        raise ValueError(f"tensor {name!r} is of {held}, a kind that is not known here")
    if name in stored and held != "U8":
        raise ValueError(f"tensor {name!r} is of {held}, where bytes of {kind!r} should be")
    return np.frombuffer(tensor["data"], kind.dtype).reshape(tensor["shape"])
