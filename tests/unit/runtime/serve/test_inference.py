"""Inference over HTTP: what is sent, what comes back, and what is refused."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from functools import partial
from typing import Any

import numpy as np
import pytest

from glow_nb.base.types import ElementKind
from glow_nb.runtime.serve.application import application
from glow_nb.runtime.serve.datatypes import KINDS, NAMES
from glow_nb.runtime.serve.json_fields import parse_object
from glow_nb.runtime.serve.limits import Limits
from glow_nb.runtime.serve.refusal import Refusal
from glow_nb.runtime.serve.tensors import from_bytes, from_json, to_bytes, to_json
from tests.unit.runtime.scripted_device import ScriptedDevice
from tests.unit.runtime.serve.asgi_client import call
from tests.unit.runtime.serve.conftest import Served
from tests.unit.runtime.serve.requests import (
    DOUBLE,
    JSON_LENGTH,
    arrays_of,
    binary,
    infer,
    infer_bytes,
    tensor,
)

ROW = np.array([[1.5, -2.0]], np.float32)
AS_BYTES = {"binary_data_output": True}


def test_json_in_and_out(served: Served) -> None:
    reply = infer(served.app, tensor(data=[1.5, -2]), id="seven")
    assert reply.headers["content-type"] == "application/json"
    assert reply.json == {
        "model_name": "double",
        "model_version": "1",
        "id": "seven",
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [3.0, -4.0]}],
    }


def test_nested_data_is_taken(served: Served) -> None:
    assert infer(served.app, tensor(data=[[1, 2]])).json["outputs"][0]["data"] == [2.0, 4.0]


def test_bytes_in_and_out(served: Served) -> None:
    head = {"inputs": [binary(ROW)], "parameters": AS_BYTES}
    reply = infer_bytes(served.app, head, ROW.tobytes())
    assert reply.headers["content-type"] == "application/octet-stream"
    np.testing.assert_array_equal(arrays_of(reply)["y"], 2 * ROW)


def test_an_output_may_be_asked_for_in_bytes(served: Served) -> None:
    wanted = {"name": "y", "parameters": {"binary_data": True}}
    np.testing.assert_array_equal(arrays_of(infer(served.app, outputs=[wanted]))["y"], [[2.0, 4.0]])
    wanted["parameters"] = {"binary_data": False}
    reply = infer(served.app, outputs=[wanted], parameters=AS_BYTES)
    assert reply.json["outputs"][0]["data"] == [2.0, 4.0]


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_json_has_not_come_in_bytes_alone(served: Served, number: float) -> None:
    row = np.array([[1.0, number]], np.float32)
    reply = infer_bytes(served.app, {"inputs": [binary(row)]}, row.tobytes())
    assert (reply.status, reply.json) == (
        400,
        {
            "error": f"output 'y': it has {number} at [0, 1], which JSON cannot say; ask for it in "
            "bytes, by its parameter binary_data"
        },
    )
    head = {"inputs": [binary(row)], "parameters": AS_BYTES}
    reply = infer_bytes(served.app, head, row.tobytes())
    np.testing.assert_array_equal(arrays_of(reply)["y"], 2 * row)


def test_a_request_without_a_version_gets_the_greatest(served: Served) -> None:
    reply = infer(served.app, path="/v2/models/scaled/infer")
    assert reply.json["model_version"] == "10"
    assert reply.json["outputs"][0]["data"] == [10.0, 20.0]
    reply = infer(served.app, path="/v2/models/scaled/versions/2/infer")
    assert reply.json["outputs"][0]["data"] == [2.0, 4.0]


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_compressed_body_is_taken(served: Served, coding: str, pack: Any) -> None:
    head = json.dumps({"inputs": [binary(ROW)]}).encode()
    headers = {"Content-Encoding": coding, JSON_LENGTH: str(len(head))}
    body = pack(head + ROW.tobytes())
    np.testing.assert_array_equal(
        arrays_of(call(served.app, "POST", DOUBLE, body, headers))["y"], 2 * ROW
    )
    reply = call(served.app, "POST", DOUBLE, body[:-6], headers)
    assert (reply.status, reply.error) == (
        400,
        f"the body is no whole {coding}: its end is missing",
    )
    reply = call(served.app, "POST", DOUBLE, body + b"more", headers)
    assert (reply.status, reply.error) == (
        400,
        f"the body has 4 bytes after the end of its {coding}; send one piece",
    )
    reply = call(served.app, "POST", DOUBLE, pack(bytes(10_000)), headers)
    assert reply.status == 413
    assert "more than 4096 bytes without its compression, but the limit" in reply.error
    reply = call(served.app, "POST", DOUBLE, b"plain", headers)
    assert reply.error.startswith(f"the body is no {coding}: ")


@pytest.mark.parametrize("pack", [gzip.compress, partial(gzip.compress, compresslevel=0)])
def test_a_large_compressed_body_is_taken_piece_by_piece(served: Served, pack: Any) -> None:
    app = application(served.models, Limits(body_bytes=8 << 20))
    head = json.dumps({"inputs": [binary(ROW)], "id": "x" * 10} | {"padding": "y" * (3 << 20)})
    headers = {"Content-Encoding": "gzip", JSON_LENGTH: str(len(head))}
    body = pack(head.encode() + ROW.tobytes())
    np.testing.assert_array_equal(arrays_of(call(app, "POST", DOUBLE, body, headers))["y"], 2 * ROW)
    reply = call(app, "POST", DOUBLE, body + bytes(2 << 20), headers)
    assert (reply.status, reply.error) == (
        400,
        f"the body has {2 << 20} bytes after the end of its gzip; send one piece",
    )


def test_a_body_in_chunks_of_unknown_length_is_taken(served: Served) -> None:
    head = json.dumps({"inputs": [binary(ROW)]}).encode()
    chunks = [head[:10], head[10:], ROW.tobytes()]
    headers = {JSON_LENGTH: str(len(head))}
    reply = call(served.app, "POST", DOUBLE, chunks, headers, sends_length=False)
    np.testing.assert_array_equal(arrays_of(reply)["y"], 2 * ROW)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "z"}, "unknown input 'z'; the inputs are ['x']"),
        ({"name": 7}, "an input: 'name' is 7, but must be text of at most 256 letters"),
        (
            {"datatype": "BYTES"},
            "input 'x': datatype 'BYTES' is not supported; send one of",
        ),
        ({"datatype": "FP64"}, "input 'x': datatype is FP64, but the network takes FP32"),
        ({"shape": [2, 1]}, "input 'x': shape is [2, 1], but the network takes [1, 2]"),
        ({"shape": [1, 2, 1]}, "input 'x': shape is [1, 2, 1], but the network takes [1, 2]"),
        ({"shape": [1, True]}, "input 'x': shape is [1, True], but must be a list of whole"),
        ({"shape": None}, "input 'x': shape is None, but must be a list of whole numbers"),
        ({"data": [1]}, "input 'x': data has 1 elements, but shape [1, 2] has 2"),
        ({"data": [[1], [2]]}, "input 'x': data is not nested as shape [1, 2] says"),
        ({"data": [[1, 2], 3]}, "input 'x': data is not nested as shape [1, 2] says"),
        ({"data": None}, "input 'x': data is None, but must be a list"),
        ({"data": ["1", 2]}, "input 'x': an element is '1', but an element of FP32 must be a"),
        ({"data": [True, 2]}, "input 'x': an element is True, but an element of FP32 must be a"),
        ({"data": [10**400, 2]}, "input 'x': an element is too large for a float, at [0, 0]"),
        (
            {"data": [2, 1e39]},
            "input 'x': an element is 1e+39, which is too large for FP32, at [0, 1",
        ),
        ({"parameters": 3}, "input 'x': 'parameters': is 3, but must be an object"),
        (
            {"parameters": {"binary_data_size": 8}, "data": None},
            "input 'x': binary_data_size is 8, but 0 bytes are left after the JSON",
        ),
        (
            {"parameters": {"binary_data_size": -1}},
            "input 'x': 'binary_data_size' is -1, but must be a whole number from 0",
        ),
        (
            {"parameters": {"shared_memory_region": "r"}},
            "input 'x': this server does not have 'shared_memory_region'; leave it out",
        ),
    ],
)
def test_a_wrong_input_is_refused(served: Served, changes: dict[str, Any], message: str) -> None:
    reply = infer(served.app, tensor(**changes))
    assert reply.status == 400
    assert reply.error.startswith(message)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"inputs": []}, "input(s) ['x'] are not fed; the network has ['x']"),
        ({"inputs": 1}, "the request: 'inputs' is 1, but must be a list"),
        ({"inputs": [3]}, "an input: is 3, but must be an object"),
        ({"inputs": [tensor(), tensor()]}, "input 'x': is given twice; send it once"),
        ({"outputs": [{"name": "z"}]}, "unknown output 'z'; the outputs are ['y']"),
        ({"id": 3}, "the request: 'id' is 3, but must be text of at most 256 letters"),
        (
            {"parameters": {"timeout": "soon"}},
            "parameters: 'timeout' is 'soon' (4 letters), but must be a whole number from 0",
        ),
        (
            {"parameters": {"binary_data_output": 1}},
            "parameters: 'binary_data_output' is 1, but must be true or false",
        ),
        (
            {"outputs": [{"name": "y", "parameters": {"classification": 3}}]},
            "output 'y': this server does not have 'classification'; leave it out",
        ),
    ],
)
def test_a_wrong_request_is_refused(served: Served, fields: dict[str, Any], message: str) -> None:
    reply = infer(served.app, **fields)
    assert (reply.status, reply.error) == (400, message)


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"\xff", b"[" * 4000, b"1" * 4000])
def test_what_is_no_json_object_is_refused(served: Served, body: bytes) -> None:
    reply = call(served.app, "POST", DOUBLE, body)
    assert reply.status == 400
    assert reply.error.startswith("the request: ")


@pytest.mark.parametrize(
    ("length", "message"),
    [
        ("many", "Inference-Header-Content-Length is 'many', but must be a number of bytes"),
        ("999", "Inference-Header-Content-Length is 999, but the body has 2 bytes"),
        ("-1", "Inference-Header-Content-Length is '-1', but must be a number of bytes"),
    ],
)
def test_a_wrong_length_of_the_json_is_refused(served: Served, length: str, message: str) -> None:
    reply = call(served.app, "POST", DOUBLE, b"{}", {JSON_LENGTH: length})
    assert (reply.status, reply.error) == (400, message)


def test_bytes_of_another_number_are_refused(served: Served) -> None:
    head = {"inputs": [tensor(data=None, parameters={"binary_data_size": 4})]}
    reply = infer_bytes(served.app, head, bytes(4))
    assert reply.error == (
        "input 'x': binary_data_size is 4, but FP32 of shape [1, 2] takes 8 bytes"
    )
    reply = infer_bytes(served.app, {"inputs": [binary(ROW)]}, bytes(9))
    assert reply.error == (
        "the request: 9 bytes are after the JSON, but the inputs have binary_data_size of 8 "
        "together"
    )
    both = tensor(parameters={"binary_data_size": 8})
    reply = infer_bytes(served.app, {"inputs": [both]}, bytes(8))
    assert reply.error == "input 'x': has both data and binary_data_size; send one of them"


def test_an_integer_of_too_many_digits_is_refused_in_our_words() -> None:
    most = sys.get_int_max_str_digits()
    expected = f"body: not JSON that can be read: an integer has more than {most} digits"
    with pytest.raises(Refusal, match=expected):
        parse_object("body", b'{"x": %s}' % (b"7" * (most + 1)))


@pytest.mark.parametrize(
    "number", ["1e400", "-1e400", "1E+309", f"1{'0' * 309}.0", f"1{'0' * 250}e99"]
)
def test_a_number_that_no_float_can_be_is_refused_with_its_place(
    served: Served, number: str
) -> None:
    """Python reads it as infinity."""
    body = json.dumps({"inputs": [tensor(data=[1, 7.5])]}).replace("7.5", number)
    reply = call(served.app, "POST", DOUBLE, body.encode())
    assert (reply.status, reply.error) == (
        400,
        f"input 'x': an element is {number:.40}, but an element of FP32 must be a number that a "
        "float can be, at [0, 1]",
    )
    body = json.dumps({"inputs": [tensor()], "parameters": {"timeout": 7.5}}).replace("7.5", number)
    reply = call(served.app, "POST", DOUBLE, body.encode())
    assert reply.error.startswith(f"parameters: 'timeout' is {number:.40}, but must be a whole")


def test_fields_that_are_null_are_not_there(served: Served) -> None:
    nothing: dict[str, Any] = {"id": None, "outputs": None, "parameters": None}
    given = {**tensor(), "parameters": None}
    assert infer(served.app, given, **nothing).json["outputs"][0]["data"] == [2.0, 4.0]
    parameters = dict.fromkeys(("binary_data_output", "timeout", "priority"))
    wanted = [{"name": "y", "parameters": {"binary_data": None}}]
    assert infer(served.app, outputs=wanted, parameters=parameters).status == 200
    in_bytes = {**binary(ROW), "data": None}
    reply = infer_bytes(served.app, {"inputs": [in_bytes]}, ROW.tobytes())
    np.testing.assert_array_equal(arrays_of(reply)["y"], 2 * ROW)
    reply = call(served.app, "POST", DOUBLE, b'{"inputs": null}')
    assert reply.error == "input(s) ['x'] are not fed; the network has ['x']"


def test_the_length_of_the_json_is_said_once(served: Served) -> None:
    headers = {JSON_LENGTH: "5,7"}
    reply = call(served.app, "POST", DOUBLE, b"{}", headers)
    assert reply.error == f"{JSON_LENGTH} is '5,7', but must be a number of bytes"


def test_a_client_that_does_not_wait_gets_an_error_and_no_device_is_lost(
    served: Served, device: ScriptedDevice
) -> None:
    device.may_run.clear()
    reply = infer(served.app, parameters={"timeout": 50_000})
    device.may_run.set()
    assert reply.status == 504
    assert reply.error == "the request has no answer after its timeout of 0.05 s"
    assert infer(served.app).status == 200
    assert served.host.health()["one"].restarts == 0


def test_a_request_beyond_the_deadline_of_the_server_is_late(
    served: Served, device: ScriptedDevice
) -> None:
    app = application(served.models, Limits(request_seconds=0.05))
    device.may_run.clear()
    reply = infer(app)
    device.may_run.set()
    assert reply.status == 504
    assert "0.05 s" in reply.error


def test_a_request_of_a_client_that_goes_away_is_taken_back(
    served: Served, device: ScriptedDevice
) -> None:
    device.may_run.clear()
    body = json.dumps({"inputs": [tensor()]}).encode()
    assert call(served.app, "POST", DOUBLE, body, leaves=True).status == 499
    device.may_run.set()
    network = served.models.find("double").network
    assert served.host.statistics().networks[network].counters.cancelled == 1
    assert served.app.in_flight == 0


def test_a_server_whose_device_is_lost_is_not_ready(served: Served, device: ScriptedDevice) -> None:
    device.refused_restarts = 100
    device.kill("unplugged")
    assert infer(served.app, parameters={"timeout": 50_000}).status == 504
    for path in ("/v2/health/ready", "/v2/models/double/ready"):
        reply = call(served.app, "GET", path)
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert call(served.app, "GET", "/v2/health/live").status == 200


@pytest.mark.parametrize("kind", ElementKind)
def test_each_kind_goes_in_and_out(kind: ElementKind) -> None:
    assert KINDS[NAMES[kind]] is kind
    numbers = np.array([[0, 1, 1], [1, 0, 1]])
    if kind is ElementKind.FLOAT8E8M0:
        numbers = np.array([[1, 2, 4], [8, 2, 1]])
    array = numbers.astype(kind.dtype)
    listed = to_json("it", array)
    np.testing.assert_array_equal(from_json("it", listed, kind, (2, 3)), array)
    raw = np.frombuffer(bytearray(to_bytes(array)), np.uint8)
    np.testing.assert_array_equal(from_bytes("it", raw, kind, (2, 3)), array)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (ElementKind.UINT8, 256, "it: an element is 256, but UINT8 goes from 0 to 255"),
        (ElementKind.INT4, -9, "it: an element is -9, but INT4 goes from -8 to 7"),
        (ElementKind.INT32, 1.0, "it: an element is 1.0, but an element of INT32 must be a whole"),
        (ElementKind.BOOL, 1, "it: an element is 1, but an element of BOOL must be true or false"),
    ],
)
def test_an_element_of_another_kind_is_refused(
    kind: ElementKind, value: float, message: str
) -> None:
    with pytest.raises(Refusal) as caught:
        from_json("it", [value], kind, (1,))
    assert str(caught.value).startswith(message)


def test_a_float_beyond_its_kind_is_refused() -> None:
    with pytest.raises(Refusal, match=r"x: an element is -1e\+39, which is too large for FP32"):
        from_json("x", [1.0, -1e39], ElementKind.FLOAT32, (2,))
    infinite = from_json("x", [float("inf")], ElementKind.FLOAT32, (1,))
    assert np.isinf(infinite[0])


def test_the_largest_integers_are_exact() -> None:
    for kind in (ElementKind.INT64, ElementKind.UINT64):
        values = [*kind.limits]
        assert from_json("it", values, kind, (2,)).tolist() == values


def test_a_byte_that_is_no_truth_value_is_refused() -> None:
    raw = np.array([0, 2], np.uint8)
    with pytest.raises(Refusal, match="a byte of a BOOL is 2, but must be 0 or 1"):
        from_bytes("it", raw, ElementKind.BOOL, (2,))
