"""What the server tells of itself and its models, and what it does with them."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import glow_nb
from glow_nb.base.errors import ModelError, OptionError
from glow_nb.runtime.hosting.host import HostManager
from glow_nb.runtime.serve.application import application
from glow_nb.runtime.serve.limits import Limits
from glow_nb.runtime.serve.model_server import ModelServer
from glow_nb.runtime.serve.repository import ModelRepository
from tests.unit.runtime.serve.asgi_client import Reply, call
from tests.unit.runtime.serve.conftest import Served
from tests.unit.runtime.serve.requests import DOUBLE, infer, tensor
from tests.unit.runtime.small_networks import scaled

TENSOR = {"datatype": "FP32", "shape": [1, 2]}
INDEX = "/v2/repository/index"


def load(app: Any, name: str, body: bytes = b"{}") -> Reply:
    return call(app, "POST", f"/v2/repository/models/{name}/load", body)


def unload(app: Any, name: str) -> Reply:
    return call(app, "POST", f"/v2/repository/models/{name}/unload")


def states(app: Any) -> dict[tuple[str, str], str]:
    """Return the state of each version of each model."""
    return {(e["name"], e["version"]): e["state"] for e in call(app, "POST", INDEX).json}


def test_the_server_is_there(served: Served) -> None:
    assert call(served.app, "GET", "/v2").json == {
        "name": "glow_nb",
        "version": glow_nb.__version__,
        "extensions": [
            *("binary_tensor_data", "model_repository", "model_configuration", "statistics")
        ],
    }
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/double/ready"):
        assert call(served.app, "GET", path).status == 200


def test_a_model_is_described(served: Served) -> None:
    assert call(served.app, "GET", "/v2/models/scaled").json == {
        "name": "scaled",
        "versions": ["2", "10"],
        "platform": "glow_nb",
        "inputs": [{"name": "x", **TENSOR}],
        "outputs": [{"name": "y", **TENSOR}],
    }
    configuration = call(served.app, "GET", "/v2/models/scaled/versions/2/config").json
    assert configuration["max_batch_size"] == 0
    assert configuration["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [1, 2]}]


def test_requests_are_counted(served: Served) -> None:
    for _ in range(3):
        infer(served.app)
    infer(served.app, tensor(data=[1]))
    (counted,) = call(served.app, "GET", "/v2/models/double/stats").json["model_stats"]
    assert (counted["inference_count"], counted["execution_count"]) == (3, 3)
    assert counted["batch_stats"] == [{"batch_size": 1, "compute_infer": {"count": 3, "ns": 0}}]
    everything = call(served.app, "GET", "/v2/models/stats").json["model_stats"]
    assert {(e["name"], e["version"]) for e in everything} == set(states(served.app))
    lines = call(served.app, "GET", "/metrics").body.decode().splitlines()
    labels = 'model="double",version="1"'
    for line in (
        'glow_requests_total{model="double",outcome="answered",version="1"} 3.0',
        f"glow_requests_queued{{{labels}}} 0.0",
        f"glow_request_seconds_count{{{labels}}} 3.0",
        'glow_device_memory_used_bytes{device="one"} 72.0',
        'glow_device_restarts_total{device="one"} 0.0',
        'glow_http_responses_total{status="400"} 1.0',
    ):
        assert line in lines, "\n".join(lines)
    assert any(line.startswith('glow_batches_total{model="double",size="1"') for line in lines)


def test_prometheus_reads_the_metrics(served: Served) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    for _ in range(3):
        infer(served.app)
    text = call(served.app, "GET", "/metrics").body.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    kinds = {name: family.type for name, family in families.items()}
    assert kinds == dict.fromkeys(
        (
            *("glow_requests", "glow_requests_late", "glow_runs_retried", "glow_batches"),
            *("glow_device_restarts", "glow_http_responses"),
        ),
        "counter",
    ) | dict.fromkeys(
        (
            *("glow_requests_queued", "glow_requests_running", "glow_device_alive"),
            *("glow_device_memory_used_bytes", "glow_device_memory_limit_bytes"),
            *("glow_device_running", "glow_http_requests_in_flight", "glow_http_body_bytes"),
        ),
        "gauge",
    ) | dict.fromkeys(("glow_request_seconds", "glow_queue_seconds"), "histogram")
    for name in ("glow_request_seconds", "glow_queue_seconds"):
        of_double = [s for s in families[name].samples if s.labels["model"] == "double"]
        buckets = [s.value for s in of_double if s.name == f"{name}_bucket"]
        assert buckets == sorted(buckets)
        assert buckets[-1] == 3


def test_names_that_clients_make_up_are_no_labels(served: Served) -> None:
    before = len(call(served.app, "GET", "/metrics").body.splitlines())
    for number in range(50):
        assert infer(served.app, path=f"/v2/models/m{number}/infer").status == 404
    after = len(call(served.app, "GET", "/metrics").body.splitlines())
    assert after - before <= 2  # the status 404, and 200 of the metrics themselves


def test_a_model_is_unloaded_and_loaded(served: Served) -> None:
    assert unload(served.app, "scaled").json == {}
    assert states(served.app)["scaled", "10"] == "UNAVAILABLE"
    reply = infer(served.app, path="/v2/models/scaled/infer")
    assert (reply.status, reply.error) == (
        404,
        "there is no model 'scaled'; loaded are ['double']",
    )
    assert unload(served.app, "scaled").status == 404
    assert load(served.app, "scaled").json == {}
    assert states(served.app)["scaled", "10"] == "READY"
    ready = call(served.app, "POST", INDEX, json.dumps({"ready": True}).encode()).json
    assert len(ready) == 3


def test_loading_takes_new_versions_and_drops_those_gone(served: Served) -> None:
    old = served.folder / "scaled" / "10"
    new = served.folder / "scaled" / "11"
    new.mkdir()
    glow_nb.save_text(scaled(11.0), new / "model.glow")
    for file in old.iterdir():
        file.unlink()
    kept = served.models.find("scaled", "2").network
    load(served.app, "scaled")
    assert list(served.models.served["scaled"]) == ["2", "11"]
    assert served.models.find("scaled", "2").network == kept
    reply = infer(served.app, path="/v2/models/scaled/infer")
    assert reply.json["outputs"][0]["data"] == [11.0, 22.0]


def test_a_model_that_changes_is_replaced_and_one_that_breaks_stays(served: Served) -> None:
    file = served.folder / "double.glow"
    glow_nb.save_text(scaled(3.0, rows=2), file)
    assert load(served.app, "double").status == 200
    rows = tensor(shape=[2, 2], data=[1, 2, 3, 4])
    assert infer(served.app, rows).json["outputs"][0]["data"] == [3.0, 6.0, 9.0, 12.0]
    file.write_text("func", encoding="utf-8")
    reply = load(served.app, "double")
    assert reply.status == 400
    assert "double.glow:1:" in reply.error
    assert infer(served.app, rows).status == 200
    (entry,) = (e for e in call(served.app, "POST", INDEX).json if e["name"] == "double")
    assert entry["state"] == "READY"
    assert "double.glow:1:" in entry["reason"]


def test_requests_go_on_while_a_model_is_loaded_anew(served: Served) -> None:
    file, stop, replies = served.folder / "double.glow", threading.Event(), []

    def ask() -> None:
        while not stop.is_set():
            replies.append(infer(served.app))

    thread = threading.Thread(target=ask)
    thread.start()
    for factor in (3.0, 4.0, 5.0):
        glow_nb.save_text(scaled(factor), file)
        assert load(served.app, "double").status == 200
    stop.set()
    thread.join()
    answers = [reply.json["outputs"][0]["data"] for reply in replies if reply.status == 200]
    assert len(answers) == len(replies)
    assert answers == sorted(answers)


@pytest.mark.parametrize(
    "name", ["../secret", "..%2fsecret", "%2e%2e%2fsecret", "scaled/2", "scaled%2f2", "%00", "."]
)
def test_a_name_never_leaves_the_folder(served: Served, name: str) -> None:
    secret = served.folder.parent / "secret.glow"
    glow_nb.save_text(scaled(1.0), secret)
    assert load(served.app, name).status == 404
    assert set(served.models.served) == {"double", "scaled"}


def test_fields_of_requests_may_be_null(served: Served) -> None:
    assert load(served.app, "double", b'{"parameters": null}').status == 200
    assert len(call(served.app, "POST", INDEX, b'{"ready": null}').json) == 3


def test_parameters_of_loading_are_refused(served: Served) -> None:
    body = json.dumps({"parameters": {"config": "{}"}}).encode()
    reply = load(served.app, "double", body)
    assert (reply.status, reply.error) == (
        400,
        "parameter 'config': models are loaded as they are in the repository; leave it out",
    )


def test_what_is_not_there_is_said(served: Served) -> None:
    reply = call(served.app, "GET", "/v2/systemsharedmemory/status")
    assert (reply.status, reply.error) == (
        404,
        "GET /v2/systemsharedmemory/status: there is nothing there; GET /v2 says which extensions "
        "there are",
    )
    for method, path, allowed in (
        ("GET", DOUBLE, "POST"),
        ("PUT", INDEX, "POST"),
        ("POST", "/v2/models/double", "GET, HEAD"),
        ("DELETE", "/metrics", "GET, HEAD"),
    ):
        reply = call(served.app, method, path)
        assert (reply.status, sorted(reply.headers["allow"].split(", "))) == (
            405,
            allowed.split(", "),
        )
    reply = infer(served.app, path="/v2/models/scaled/versions/3/infer")
    assert (reply.status, reply.error) == (
        404,
        "model 'scaled': there is no version '3'; loaded are 2, 10",
    )


def test_a_model_that_cannot_be_loaded_does_not_keep_others_away(served: Served) -> None:
    (served.folder / "broken.glow").write_text("func", encoding="utf-8")
    models = ModelServer(served.host, ModelRepository([served.folder]))
    (error,) = models.load_all()
    assert "broken.glow:1:" in str(error)
    app = application(models, Limits())
    assert states(app)["broken", "1"] == "UNAVAILABLE"
    assert infer(app).status == 200


def test_a_folder_without_models_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "model" / "v1").mkdir(parents=True)
    with pytest.raises(OptionError, match="there is no model; a folder has NAME.onnx or NAME/V"):
        ModelRepository([tmp_path])
    with pytest.raises(OptionError, match="cannot be read: No such file or directory; give a fol"):
        ModelRepository([tmp_path / "nothing"])


@pytest.mark.parametrize("path", ["stats.glow", "stats/1/model.glow"])
def test_a_model_that_is_called_as_a_page_is_not_loaded(served: Served, path: str) -> None:
    (served.folder / path).parent.mkdir(parents=True, exist_ok=True)
    glow_nb.save_text(scaled(1.0), served.folder / path)
    reply = load(served.app, "stats")
    assert (reply.status, reply.error) == (
        400,
        f"model 'stats', version 1: {path}: no model can be called 'stats', since /v2/models/stats "
        "means the statistics of all models; rename it",
    )
    assert states(served.app)["stats", "1"] == "UNAVAILABLE"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names themselves")
def test_names_that_are_no_text(folder: Path, host: HostManager) -> None:
    """One of a model is an error of its own; one of a folder of models is not shown."""
    odd = Path(os.fsdecode(b"b\xffd"))
    (folder / odd.with_suffix(".glow")).write_text("nonsense")
    (folder / "broken.glow").write_text("nonsense")
    models = ModelServer(host, ModelRepository([folder.rename(folder.parent / odd)]))
    second, first = models.load_all()
    assert "b\\udcffd.glow': the name has bytes that are not UTF-8" in str(first)
    app = application(models, Limits())
    entry = next(e for e in call(app, "POST", INDEX).json if e["name"] == "broken")
    assert entry["reason"] == load(app, "broken").error == str(second)
    assert entry["reason"].startswith("model 'broken', version 1: broken.glow:1:"), "and no folder"
    assert infer(app).status == 200


def test_a_reason_keeps_what_is_no_path_of_the_server(
    folder: Path, host: HostManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise ModelError(f"{path}: its weights are in {Path(path).parent / 'w'}, not in ../weights")

    monkeypatch.setattr("glow_nb.runtime.serve.model_source.load_ir", refuse)
    monkeypatch.chdir(folder)
    for place in (folder / "double.glow", Path("double.glow")):
        (error,) = ModelServer(host, ModelRepository([place])).load_all()
        assert str(error) == (
            "model 'double', version 1: double.glow: its weights are in w, not in ../weights"
        )


def test_two_files_of_the_same_name_are_an_error_of_that_model(
    folder: Path, host: HostManager
) -> None:
    models = ModelServer(host, ModelRepository([folder, folder / "double.glow"]))
    (error,) = models.load_all()
    assert str(error) == (
        "model 'double', version 1: double.glow: double.glow is version 1 of 'double', too; rename "
        "one of them"
    )
    assert list(models.served) == ["scaled"]
