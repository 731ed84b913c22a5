"""A request for inference: from the body of a request over HTTP to arrays by name."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glow_nb.base.schema import closest
from glow_nb.base.types import Array, SymbolicType, TensorType
from glow_nb.runtime.serve.datatypes import NAMES, kind_of
from glow_nb.runtime.serve.json_fields import (
    Object,
    as_object,
    flag_field,
    list_field,
    object_field,
    parse_object,
    refuse_fields,
    text_field,
    whole_field,
)
from glow_nb.runtime.serve.refusal import bad_request
from glow_nb.runtime.serve.tensors import Bytes, from_bytes, from_json

USUAL_PRIORITY = 10
"""What the priority of a request counts as that has none; 1 goes first."""
UNSUPPORTED = ("shared_memory_", "classification", "sequence_")

Types = Mapping[str, TensorType | SymbolicType]


@dataclass(frozen=True)
class InferRequest:
    """The request of a client to a network.

    Attributes:
        id: The client's name of it; empty if it has none.
        inputs: An array for each input by name; its memory is that of the body.
        outputs: The outputs that are asked for, and for each whether as bytes.
        priority: As a host has it: higher ones go first.
        seconds: The time that the client waits; None if it is not given.
    """

    id: str
    inputs: Mapping[str, Array]
    outputs: Mapping[str, bool]
    priority: int
    seconds: float | None


def parse_infer_request(
    body: Bytes, header_bytes: int | None, inputs: Types, outputs: Types
) -> InferRequest:
    """Return what *body* asks of a network with *inputs* and *outputs*.

    Args:
        body: JSON, and after it the bytes of tensors, one after the other.
        header_bytes: The size of the JSON; None if it is the whole body.
        inputs: The network's.
        outputs: The network's.

    Raises:
        Refusal: It is not as the protocol says, or asks for what there is not.
    """
    end = len(body) if header_bytes is None else header_bytes
    if end > len(body):
        raise bad_request(
            f"Inference-Header-Content-Length is {end}, but the body has {len(body)} bytes"
        )
    fields = parse_object("the request", body[:end].data)
    parameters = object_field("the request", fields, "parameters")
    refuse_fields("the request", parameters, *UNSUPPORTED)
    timeout = whole_field("parameters", parameters, "timeout")
    return InferRequest(
        text_field("the request", fields, "id"),
        _inputs(fields, inputs, body[end:]),
        _outputs(fields, parameters, outputs),
        USUAL_PRIORITY - (whole_field("parameters", parameters, "priority") or USUAL_PRIORITY),
        timeout / 1e6 if timeout else None,  # 0 means none
    )


def _inputs(fields: Object, types: Types, binary: Bytes) -> dict[str, Array]:
    """Return the arrays of all inputs; those in bytes lie in *binary*, in order."""
    arrays: dict[str, Array] = {}
    used = 0
    for item in list_field("the request", fields, "inputs"):
        tensor = as_object("an input", item)
        name = _name("input", tensor, types)
        if name in arrays:
            raise bad_request(f"input {name!r}: is given twice; send it once")
        parameters = object_field(f"input {name!r}", tensor, "parameters")
        refuse_fields(f"input {name!r}", parameters, *UNSUPPORTED)
        size = whole_field(f"input {name!r}", parameters, "binary_data_size")
        if size is not None and used + size > len(binary):
            raise bad_request(
                f"input {name!r}: binary_data_size is {size}, but {len(binary) - used} bytes are "
                "left after the JSON"
            )
        raw = None if size is None else binary[used : used + size]
        arrays[name] = _array(f"input {name!r}", tensor, types[name], raw)
        used += size or 0
    if used < len(binary):
        raise bad_request(
            f"the request: {len(binary)} bytes are after the JSON, but the inputs have "
            f"binary_data_size of {used} together"
        )
    return arrays


def _array(
    subject: str, tensor: Object, type: TensorType | SymbolicType, raw: Bytes | None
) -> Array:
    kind = kind_of(subject, tensor.get("datatype"))
    if type.kind is not None and kind is not type.kind:
        raise bad_request(
            f"{subject}: datatype is {NAMES[kind]}, but the network takes {NAMES[type.kind]}"
        )
    shape = _shape(subject, tensor.get("shape"), type)
    if raw is None:
        return from_json(subject, tensor.get("data"), kind, shape)
    if tensor.get("data") is not None:
        raise bad_request(f"{subject}: has both data and binary_data_size; send one of them")
    return from_bytes(subject, raw, kind, shape)


def _shape(subject: str, sizes: Any, type: TensorType | SymbolicType) -> tuple[int, ...]:
    """Return *sizes* as the shape of an input of *type*; raise Refusal if it is another one."""
    wanted = type.shape
    if not isinstance(sizes, list) or not all(builtins.type(size) is int for size in sizes):
        raise bad_request(f"{subject}: shape is {sizes!r:.80}, but must be a list of whole numbers")
    if wanted is not None and (
        len(sizes) != len(wanted)
        or any(
            size < 0 if isinstance(want, str) else size != want
            for size, want in zip(sizes, wanted, strict=True)
        )
    ):
        raise bad_request(
            f"{subject}: shape is {sizes!r:.80}, but the network takes "
            f"[{', '.join(map(str, wanted))}]"
        )
    return tuple(sizes)


def _outputs(fields: Object, parameters: Object, types: Types) -> dict[str, bool]:
    """Return the outputs that are asked for; all if none is named."""
    as_bytes = flag_field("parameters", parameters, "binary_data_output", default=False)
    chosen: dict[str, bool] = {}
    for item in list_field("the request", fields, "outputs"):
        wanted = as_object("an output", item)
        name = _name("output", wanted, types)
        own = object_field(f"output {name!r}", wanted, "parameters")
        refuse_fields(f"output {name!r}", own, *UNSUPPORTED)
        chosen[name] = flag_field(f"output {name!r}", own, "binary_data", default=as_bytes)
    return chosen or dict.fromkeys(types, as_bytes)


def _name(role: str, fields: Object, types: Types) -> str:
    name = text_field(f"an {role}", fields, "name")
    if name not in types:
        raise bad_request(
            f"unknown {role} {name!r:.80}{closest(name, types)}; the {role}s are "
            f"{list(types)!s:.200}"
        )
    return name
