"""A real client, and the command, from the first request to the last."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glow_nb
from tests.unit.runtime.small_networks import scaled

pytest.importorskip("uvicorn", reason="the server needs uvicorn")

KINDS = {
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "BOOL": TensorProto.BOOL,
    "BF16": TensorProto.BFLOAT16,
}
DEVICES = "devices: [{name: one, kind: interpreter}]"


def transposed(kind: int) -> onnx.ModelProto:
    """Return a model that turns a matrix of *kind*."""
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])
    graph = helper.make_graph(
        [node],
        "transposed",
        [helper.make_tensor_value_info("x", kind, [2, 3])],
        [helper.make_tensor_value_info("y", kind, [3, 2])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model of each datatype, and ``scaled`` in two versions."""
    folder = tmp_path_factory.mktemp("models")
    for name, kind in KINDS.items():
        onnx.save(transposed(kind), str(folder / f"{name.lower()}.onnx"))
    for version in (1, 3):
        place = folder / "scaled" / str(version)
        place.mkdir(parents=True)
        glow_nb.save_text(scaled(float(version)), place / "model.glow")
    return folder


@pytest.fixture(scope="module")
def address(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return where the command serves *repository*; stop it at the end, as a system would."""
    devices = tmp_path_factory.mktemp("devices") / "devices.yaml"
    devices.write_text(DEVICES, encoding="utf-8")
    command = [sys.executable, "-m", "glow_nb", "serve", str(repository), "--port", "0"]
    with subprocess.Popen(
        [*command, "--devices", str(devices)], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            told = [server.stdout.readline()]
            while told[-1] and "http://" not in told[-1]:
                told.append(server.stdout.readline())
            assert told[0].startswith("bf16, version 1: x: bfloat16<2 x 3> ->"), told
            assert told[-1].startswith("serving bf16, bool,"), told
            yield told[-1].rpartition("http://")[2].strip()
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.stdout.read() == "stopped\n"
            assert server.wait(30) == 0


def test_the_command_serves(address: str) -> None:
    with urllib.request.urlopen(f"http://{address}/v2/health/ready", timeout=30) as reply:
        assert reply.status == 200


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Any]:
    pytest.importorskip("tritonclient", reason="tritonclient[http] is not installed")
    from tritonclient.http import InferenceServerClient

    client = InferenceServerClient(address, network_timeout=60, connection_timeout=60)
    yield client
    client.close()


def ask(client: Any, array: Any, datatype: str, **options: Any) -> Any:
    """Run the model of *datatype* on *array*."""
    from tritonclient.http import InferInput

    given = InferInput("x", list(array.shape), datatype)
    given.set_data_from_numpy(array, binary_data=options.pop("binary_data", True))
    return client.infer(options.pop("model", datatype.lower()), [given], **options)


def test_the_client_reads_what_there_is(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.get_server_metadata()["name"] == "glow_nb"
    assert client.is_model_ready("scaled")
    assert client.is_model_ready("scaled", "3")
    assert not client.is_model_ready("scaled", "2")
    assert client.get_model_metadata("scaled")["versions"] == ["1", "3"]
    assert client.get_model_metadata("fp32", "1")["inputs"] == [
        {"name": "x", "datatype": "FP32", "shape": [2, 3]}
    ]
    assert client.get_model_config("scaled", "1")["max_batch_size"] == 0
    assert len(client.get_model_repository_index()) == len(KINDS) + 2


@pytest.mark.parametrize("datatype", KINDS)
def test_the_client_sends_each_datatype(client: Any, datatype: str) -> None:
    from tritonclient.http import InferRequestedOutput
    from tritonclient.utils import triton_to_np_dtype

    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(triton_to_np_dtype(datatype))
    np.testing.assert_array_equal(ask(client, array, datatype).as_numpy("y"), array.T)
    wanted = [InferRequestedOutput("y", binary_data=datatype == "BF16")]
    result = ask(client, array, datatype, outputs=wanted, binary_data=datatype == "BF16")
    np.testing.assert_array_equal(result.as_numpy("y"), array.T)


def test_the_client_chooses_versions_and_ids(client: Any) -> None:
    from tritonclient.http import InferRequestedOutput

    row = np.ones((1, 2), np.float32)
    for version, factor in (("", 3.0), ("1", 1.0), ("3", 3.0)):
        result = ask(client, row, "FP32", model="scaled", model_version=version, request_id="seven")
        np.testing.assert_array_equal(result.as_numpy("y"), factor * row)
        assert result.get_response()["id"] == "seven"
    result = ask(
        client,
        row,
        "FP32",
        model="scaled",
        outputs=[InferRequestedOutput("y")],
        priority=1,
        timeout=20_000_000,
        request_compression_algorithm="gzip",
        response_compression_algorithm="deflate",
    )
    np.testing.assert_array_equal(result.as_numpy("y"), 3 * row)


def test_the_client_asks_without_waiting(client: Any) -> None:
    from tritonclient.http import InferInput

    row = np.ones((1, 2), np.float32)
    given = InferInput("x", [1, 2], "FP32").set_data_from_numpy(row)
    waiting = [client.async_infer("scaled", [given]) for _ in range(5)]
    for each in waiting:
        np.testing.assert_array_equal(each.get_result().as_numpy("y"), 3 * row)
    (counted,) = client.get_inference_statistics("scaled", "3")["model_stats"]
    assert counted["inference_count"] >= 5
    assert len(client.get_inference_statistics()["model_stats"]) == len(KINDS) + 2


def test_the_client_loads_and_unloads(client: Any) -> None:
    client.unload_model("fp64")
    assert not client.is_model_ready("fp64")
    client.load_model("fp64")
    assert client.is_model_ready("fp64")


def test_the_client_gets_our_errors(client: Any) -> None:
    from tritonclient.utils import InferenceServerException

    array = np.zeros((2, 2), np.float32)
    with pytest.raises(InferenceServerException) as caught:
        ask(client, array, "FP32")
    assert caught.value.status() == "400"
    assert caught.value.message() == "input 'x': shape is [2, 2], but the network takes [2, 3]"
    with pytest.raises(InferenceServerException, match="'config': models are loaded as they are"):
        client.load_model("fp32", config="{}")
    for call in (client.get_trace_settings, client.get_system_shared_memory_status):
        with pytest.raises(InferenceServerException, match="there is nothing there; GET /v2"):
            call()
    with pytest.raises(InferenceServerException, match="datatype 'BYTES' is none that"):
        ask(client, np.array([[b"a"]], np.object_), "BYTES", model="fp32")
