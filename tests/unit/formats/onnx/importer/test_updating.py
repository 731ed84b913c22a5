"""Models after training."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from glow_nb.formats.onnx.importer.updating import in_inference_mode
from tests.unit.train.networks import in_training_mode, normalized_model

IMAGES = np.random.default_rng(2).normal(1, 2, (6, 2, 4, 4)).astype(np.float32)


@pytest.mark.parametrize("opset", [9, 14])
def test_a_model_that_trains_becomes_one_for_use(opset: int) -> None:
    plain = normalized_model()
    plain.opset_import[0].version = opset
    model = in_training_mode(plain, opset)
    model.graph.output.append(helper.make_tensor_value_info("moved_mean", 1, [3]))
    used = onnxruntime.InferenceSession(in_inference_mode(model).SerializeToString())
    expected = onnxruntime.InferenceSession(plain.SerializeToString())
    y, mean = used.run(None, {"x": IMAGES})
    np.testing.assert_array_equal(y, expected.run(None, {"x": IMAGES})[0])
    np.testing.assert_array_equal(mean, np.zeros(3))


def test_a_result_that_is_left_out_is_not_read() -> None:
    model = in_training_mode(normalized_model(), 9)
    (normalization,) = (n for n in model.graph.node if n.op_type == "BatchNormalization")
    del normalization.output[3:]
    normalization.output.extend(["", ""])
    model.graph.node.append(helper.make_node("Clip", ["y", "", ""], ["z"]))  # "" again
    used = in_inference_mode(model).graph.node
    assert [len(n.output) for n in used if n.op_type == "BatchNormalization"] == [1]


def test_no_dropout_drops_anything_within_branches_either() -> None:
    dropout = helper.make_node("Dropout", ["x", "ratio", "is_training"], ["y"])
    y = helper.make_tensor_value_info("y", 1, ["n"])
    branch = helper.make_graph([dropout], "branch", [], [y])
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node(
                    "If", ["is_training"], ["z"], then_branch=branch, else_branch=branch
                )
            ],
            "model",
            [helper.make_tensor_value_info("x", 1, ["n"])],
            [helper.make_tensor_value_info("z", 1, ["n"])],
            [
                numpy_helper.from_array(np.array(0.5, np.float32), "ratio"),
                numpy_helper.from_array(np.array(True), "is_training"),
            ],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    session = onnxruntime.InferenceSession(in_inference_mode(model).SerializeToString())
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x)
    onnx.checker.check_model(in_inference_mode(model))
