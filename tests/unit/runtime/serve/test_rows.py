"""Models whose leading size is open: requests of any number of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from glow_nb.base.types import Array
from glow_nb.runtime.hosting.host import HostManager
from glow_nb.runtime.serve.application import application
from glow_nb.runtime.serve.limits import Limits
from glow_nb.runtime.serve.model_server import ModelServer
from glow_nb.runtime.serve.model_source import LoadOptions
from glow_nb.runtime.serve.refusal import Refusal
from glow_nb.runtime.serve.repository import ModelRepository
from tests.unit.runtime.scripted_device import ScriptedDevice
from tests.unit.runtime.serve.asgi_client import call
from tests.unit.runtime.serve.onnx_models import Shape, save, scaling
from tests.unit.runtime.serve.requests import arrays_of, binary, infer, infer_bytes, tensor

NET = "/v2/models/net/infer"


def served_with(host: HostManager, path: Path, **options: Any) -> ModelServer:
    """Return a server of the model in *path*, loaded with *options*."""
    models = ModelServer(host, ModelRepository([path]), LoadOptions(**options))
    errors = models.load_all()
    if errors:
        raise errors[0]
    return models


def ask(app: Any, rows: Array) -> Array:
    head = {"inputs": [binary(rows)], "parameters": {"binary_data_output": True}}
    return arrays_of(infer_bytes(app, head, rows.tobytes(), path=NET))["y"]


@pytest.mark.parametrize("max_batch", [1, 4])
def test_a_request_may_have_any_number_of_rows(
    host: HostManager, tmp_path: Path, max_batch: int
) -> None:
    scaling(tmp_path / "net.onnx", 3.0, ("batch", 2))
    app = application(served_with(host, tmp_path, max_batch=max_batch, max_rows=20), Limits())
    for rows in (1, 3, 4, 5, 20):
        array = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
        np.testing.assert_array_equal(ask(app, array), 3 * array)
    for rows in (0, 21):
        reply = infer(app, tensor(shape=[rows, 2], data=[0] * 2 * rows), path=NET)
        assert (reply.status, reply.error) == (
            400,
            f"the inputs have {rows} rows, but the model takes 1 to 20 in a request; send them in "
            "several requests",
        )
    assert call(app, "GET", "/v2/models/net").json["inputs"][0]["shape"] == [-1, 2]
    configuration = call(app, "GET", "/v2/models/net/config").json
    assert configuration["max_batch_size"] == 20
    assert configuration["input"][0]["dims"] == [2]


@pytest.mark.parametrize("shape", [(None, 2), ("?", 2), ("batch size", 2)])
def test_leading_sizes_without_a_name_are_rows(
    host: HostManager, tmp_path: Path, shape: Shape
) -> None:
    nodes = [helper.make_node("Add", ["x", "z"], ["y"])]
    save(tmp_path / "net.onnx", nodes, {"x": shape, "z": shape}, shape)
    app = application(served_with(host, tmp_path), Limits())
    inputs = [tensor(shape=[2, 2], data=[1, 2, 3, 4], name=name) for name in ("x", "z")]
    assert infer(app, *inputs, path=NET).json["outputs"][0]["data"] == [2.0, 4.0, 6.0, 8.0]
    reply = infer(app, inputs[0], tensor(name="z"), path=NET)
    assert reply.error == (
        "the inputs have different numbers of rows: {'x': 2, 'z': 1}; give the same number for each"
    )
    assert infer(app, inputs[0], path=NET).status == 400


@pytest.mark.parametrize(
    ("node", "output", "reason"),
    [
        (
            helper.make_node("Softmax", ["x"], ["y"], axis=0),
            ("batch", 2),
            "output 'y' of a row depends on the other rows, or on its place",
        ),
        (
            helper.make_node("CumSum", ["x", "zero"], ["y"]),
            ("batch", 2),
            "output 'y' of a row depends on the other rows, or on its place",
        ),
        (
            helper.make_node("Transpose", ["x"], ["y"]),
            (2, "batch"),
            "the leading dimension of 'y' is not the batch",
        ),
    ],
)
@pytest.mark.parametrize("max_batch", [1, 4])
def test_requests_whose_rows_depend_on_each_other_run_one_by_one(
    host: HostManager, tmp_path: Path, node: Any, output: Shape, reason: str, max_batch: int
) -> None:
    from onnx import numpy_helper

    zero = numpy_helper.from_array(np.array(0), "zero")
    save(tmp_path / "net.onnx", [node], {"x": ("batch", 2)}, output, [zero])
    models = served_with(host, tmp_path, max_batch=max_batch)
    model = models.find("net")
    assert (model.source.note, model.max_rows) == (reason, 0)
    app = application(models, Limits())
    assert infer(app, path=NET).status == 200
    assert infer(app, tensor(shape=[2, 2], data=[1, 2, 3, 4]), path=NET).status == 200


@pytest.mark.parametrize("max_batch", [1, 4])
def test_other_sizes_may_be_open(host: HostManager, tmp_path: Path, max_batch: int) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    save(tmp_path / "net.onnx", nodes, {"x": ("batch", "width")}, ("batch", "width"))
    models = served_with(
        host,
        tmp_path,
        max_batch=max_batch,
        sizes={"width": (1, 8), "none": (1, 2)},
        hints={"width": 3},
    )
    app = application(models, Limits())
    for rows, width in ((1, 1), (3, 8), (9, 5)):
        array = np.arange(rows * width, dtype=np.float32).reshape(rows, width)
        np.testing.assert_array_equal(ask(app, array), array)
    reply = infer(app, tensor(shape=[1, 9], data=[0] * 9), path=NET)
    assert reply.status == 400
    assert (
        "size 'width': axis 1 of input 'x' says 9, which is outside its range 1..8" in reply.error
    )
    assert call(app, "GET", "/v2/models/net").json["inputs"][0]["shape"] == [-1, -1]


def test_ranges_of_sizes_that_are_numbers_are_refused(host: HostManager, tmp_path: Path) -> None:
    scaling(tmp_path / "net.onnx", 3.0, ("batch", "width"))
    with pytest.raises(Refusal, match="size 'width' has to be a number.*give it by --shape"):
        served_with(host, tmp_path, sizes={"width": (1, 8)})


def test_other_open_sizes_are_given(host: HostManager, tmp_path: Path) -> None:
    scaling(tmp_path / "net.onnx", 3.0, ("batch", "width"))
    with pytest.raises(Refusal) as caught:
        served_with(host, tmp_path)
    assert str(caught.value) == (
        "model 'net', version 1: net.onnx: its sizes are open ('x' is float32<batch x width>); "
        "only the leading size of all inputs may be, as the rows of a request; give the others, as "
        "in --shape width=1"
    )
    for shapes, taken in (
        ({"width": 2, "depth": 3}, "float32<batch x 2>"),
        ({"batch": 4, "width": 2}, "float32<4 x 2>"),
        ({"x": (4, 2)}, "float32<4 x 2>"),
    ):
        models = served_with(host, tmp_path, shapes=shapes)
        assert str(models.find("net").inputs["x"]) == taken
        models.unload("net")


def test_an_input_that_is_fixed_is_none(host: HostManager, tmp_path: Path) -> None:
    nodes = [helper.make_node("Mul", ["x", "rate"], ["y"])]
    save(tmp_path / "net.onnx", nodes, {"x": ("batch", 2), "rate": ()}, ("batch", 2))
    models = served_with(host, tmp_path, constants=lambda _: {"rate": np.float32(5)})
    assert list(models.find("net").inputs) == ["x"]
    assert ask(application(models, Limits()), np.ones((3, 2), np.float32)).tolist() == [[5, 5]] * 3


def test_pieces_are_taken_back_if_one_is_refused(tmp_path: Path) -> None:
    device = ScriptedDevice("one", memory_bytes=1 << 26)
    with HostManager([device], max_queued=3) as host:
        scaling(tmp_path / "net.onnx", 3.0, ("batch", 2))
        models = served_with(host, tmp_path, max_batch=4)
        app = application(models, Limits())
        device.may_run.clear()
        try:
            reply = infer(app, tensor(shape=[40, 2], data=[0] * 80), path=NET)
        finally:
            device.may_run.set()
        assert reply.status == 503
        assert infer(app, path=NET).status == 200
