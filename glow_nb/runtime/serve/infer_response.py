"""The answer to a request for inference, as the body of a response over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from glow_nb.base.types import Array, ElementKind
from glow_nb.runtime.serve.datatypes import NAMES
from glow_nb.runtime.serve.tensors import to_bytes, to_json


def infer_response(
    model: str, version: str, id: str, arrays: Mapping[str, Array], outputs: Mapping[str, bool]
) -> tuple[bytes, int | None]:
    """Return the body with *outputs* of *arrays*, in bytes where that is true.

    Returns:
        The body, and how long the JSON at its beginning is; None if it is all.

    Raises:
        Refusal: An output that is not in bytes has a number that JSON cannot say.
    """
    parts: list[bytes | memoryview] = [b""]
    tensors = []
    for name, as_bytes in outputs.items():
        array = arrays[name]
        tensor: dict[str, Any] = {
            "name": name,
            "datatype": NAMES[ElementKind.of(array.dtype)],
            "shape": list(array.shape),
        }
        if as_bytes:
            parts.append(to_bytes(array))
            tensor["parameters"] = {"binary_data_size": array.nbytes}
        else:
            tensor["data"] = to_json(f"output {name!r}", array)
        tensors.append(tensor)
    head: dict[str, Any] = {"model_name": model, "model_version": version, "outputs": tensors}
    if id:
        head["id"] = id
    parts[0] = json.dumps(head).encode()
    return b"".join(parts), len(parts[0]) if len(parts) > 1 else None
