"""What outputs are compared with: float64, or ours where that is too much."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from glow_nb.base.types import Array
from glow_nb.tools.duel import reference
from glow_nb.tools.duel.contest import Measurement
from glow_nb.tools.duel.reference import reference_of, truth_of

WEIGHTS = np.full((3, 2), 0.1)


def write_product(folder: Path, kind: int, rows: str | int = "n") -> Path:
    """Write ``y = x @ weights`` with floats of *kind*."""
    weights = numpy_helper.from_array(
        WEIGHTS.astype(helper.tensor_dtype_to_np_dtype(kind)), "weights"
    )
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weights"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", kind, [rows, 3])],
        [helper.make_tensor_value_info("y", kind, [rows, 2])],
        [weights],
    )
    path = folder / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (TensorProto.FLOAT, np.float32),
        (TensorProto.FLOAT16, np.float16),
        (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    ],
)
def test_models_are_computed_in_float64(tmp_path: Path, kind: int, dtype: type) -> None:
    """The weights are those of the file, and open sizes those of the inputs."""
    path = write_product(tmp_path, kind)
    x: Array = np.ones((4, 3), dtype)
    found = reference_of(str(path), {"x": x}, {}, threads=1)
    assert found.name == "float64"
    wanted = x.astype(np.float64) @ WEIGHTS.astype(dtype).astype(np.float64)
    np.testing.assert_array_equal(found.outputs[0], wanted)
    assert found.outputs[0].dtype == np.float64


@pytest.mark.parametrize("limit", ["MOST_WEIGHTS", "MOST_OPERATIONS"])
def test_ours_take_the_place_of_what_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(reference, limit, 5)
    path = str(write_product(tmp_path, TensorProto.FLOAT, 4))
    ours = Measurement(outputs=[np.ones(1)])
    found = reference_of(path, {"x": np.ones((4, 3), np.float32)}, {"glow_nb": ours}, threads=1)
    assert found.name == "glow_nb in float32"
    assert found.outputs is ours.outputs


def test_ours_run_once_more_if_they_were_not_in_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def duel(path: str, feeds: object, **given: object) -> dict[str, Measurement]:
        assert (given["engines"], given["rounds"]) == (["glow_nb"], 0)
        return {"glow_nb": Measurement(outputs=[np.zeros(2)])}

    monkeypatch.setattr(reference, "duel", duel)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    assert reference_of(str(broken), {}, {}, threads=1).outputs[0].shape == (2,)


def test_casts_are_to_float64(tmp_path: Path) -> None:
    model = onnx.load(write_product(tmp_path, TensorProto.FLOAT, 1))
    cast = helper.make_node("Cast", ["y"], ["z"], to=TensorProto.FLOAT16)
    model.graph.node.append(cast)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("z", TensorProto.FLOAT16, [1, 2]))
    assert truth_of(model, {"x": np.ones((1, 3), np.float32)})["z"].dtype == np.float64
