"""Requests for inference as the tests send them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from glow_nb.base.types import Array
from tests.unit.runtime.serve.asgi_client import Reply, call

DOUBLE = "/v2/models/double/infer"
JSON_LENGTH = "Inference-Header-Content-Length"


def tensor(**changes: Any) -> dict[str, Any]:
    """Return the input of ``double`` in JSON, with *changes*; those to None are left out."""
    fields = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2], **changes}
    return {key: value for key, value in fields.items() if value is not None}


def infer(app: Any, *inputs: Any, path: str = DOUBLE, **fields: Any) -> Reply:
    """Ask for inference on *inputs* in JSON, by default one that fits."""
    body = {"inputs": list(inputs) or [tensor()], **fields}
    return call(app, "POST", path, json.dumps(body).encode())


def infer_bytes(
    app: Any, head: Any, raw: bytes, *, length: int | None = None, path: str = DOUBLE
) -> Reply:
    """Ask for inference with *raw* behind the JSON *head*."""
    text = json.dumps(head).encode()
    size = len(text) if length is None else length
    return call(app, "POST", path, text + raw, {JSON_LENGTH: str(size)})


def binary(array: Array, datatype: str = "FP32", **changes: Any) -> dict[str, Any]:
    """Return an input in JSON whose elements are bytes elsewhere."""
    return tensor(
        shape=list(array.shape),
        datatype=datatype,
        data=None,
        parameters={"binary_data_size": array.nbytes},
        **changes,
    )


def arrays_of(reply: Reply) -> dict[str, Array]:
    """Return the FP32 outputs of *reply* by name, from JSON or from bytes."""
    assert reply.status == 200, reply.body
    length = reply.headers.get(JSON_LENGTH.lower())
    head = json.loads(reply.body[: int(length) if length else None])
    begin = int(length or 0)
    arrays = {}
    for output in head["outputs"]:
        if "data" in output:
            flat = np.array(output["data"], np.float32)
        else:
            size = output["parameters"]["binary_data_size"]
            flat = np.frombuffer(reply.body[begin : begin + size], np.float32)
            begin += size
        arrays[output["name"]] = flat.reshape(output["shape"])
    return arrays
