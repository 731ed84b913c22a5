"""Dropout: elements are dropped in training alone, others in each step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array

import glow_nb
from glow_nb.hlir.ops.random import Drawn
from glow_nb.train import SGD, MeanSquaredError
from tests.unit.formats.onnx.importer.models import model as onnx_model
from tests.unit.formats.onnx.importer.models import value
from tests.unit.train.networks import (
    dropping,
)
from tests.unit.train.trainers import POINTS, REGIONS, make


class TestDropout:
    """Elements are dropped in training alone, others in each step."""

    def test_each_step_draws_anew_and_goes_on_from_a_checkpoint(self, tmp_path: Path) -> None:
        still = SGD(0.0)
        trainer, other, seeded = (make(function=dropping, optimizer=still) for _ in range(3))
        losses = [trainer.step(POINTS, REGIONS) for _ in range(3)]
        assert len(set(losses)) == 3
        other.step(POINTS, REGIONS)
        other.save(tmp_path / "checkpoint")
        seeded.load(tmp_path / "checkpoint")
        assert [seeded.step(POINTS, REGIONS) for _ in range(2)] == losses[1:]
        assert make(function=dropping, seed=1).step(POINTS, REGIONS) != losses[0]

    def test_nothing_is_dropped_in_use(self) -> None:
        trainer = make(function=dropping)
        expected = POINTS[:, :3]
        np.testing.assert_allclose(trainer.predict(POINTS)["y"], expected, rtol=1e-5, atol=1e-5)
        frozen = glow_nb.compile(trainer.freeze(POINTS), backend="interpreter")
        np.testing.assert_allclose(frozen.run(POINTS)["y"], expected, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize(
        ("opset", "inputs", "attributes"),
        [
            (7, [], {"ratio": 0.25}),
            (10, [], {"ratio": 0.25}),
            (12, ["ratio"], {}),
            (13, ["ratio"], {"seed": 7}),
            (13, ["ratio", "is_training"], {}),
            (22, ["ratio", "is_constant"], {}),
        ],
    )
    @pytest.mark.parametrize(("outputs", "rows"), [(["d"], 300), (["d", "kept"], "n")])
    def test_a_model_in_inference_mode_drops_in_training(
        self,
        opset: int,
        inputs: list[str],
        attributes: dict[str, Any],
        outputs: list[str],
        rows: Any,
    ) -> None:
        """As PyTorch's ``model.train()`` does, by the ratio that the model has."""
        weights = {
            "ratio": np.float32(0.25),
            "is_training": np.array(False),
            "w": np.ones(1, np.float32),
        }
        nodes = [
            helper.make_node("Constant", [], ["is_constant"], value=from_array(np.array(False))),
            helper.make_node("Dropout", ["x", *inputs], outputs, **attributes),
            helper.make_node("Mul", ["d", "w"], ["y"]),
        ]
        if len(outputs) > 1:
            nodes.append(helper.make_node("Cast", ["kept"], ["mask"], to=TensorProto.FLOAT))
        model = onnx_model(
            nodes,
            [value("x", (rows, 200))],
            outputs=["y", "mask"][: len(outputs)],
            weights=[from_array(np.asarray(array), name) for name, array in weights.items()],
            opset=opset,
        )
        ones = np.ones((300, 200), np.float32)
        trainer = make(
            function=model, loss=MeanSquaredError(), optimizer=SGD(1.0), output="y", trained="w"
        )
        trainer.step(ones, ones * 0)
        # The loss is the mean of (w m)^2, m being 0 or 1 / 0.75: its slope is 2 w mean(m^2).
        np.testing.assert_allclose(trainer.weights["w"], 1 - 2 / 0.75, rtol=2e-2)
        used = trainer.predict(ones)
        assert all((array == 1).all() for name, array in used.items() if name == "mask")
        np.testing.assert_array_equal(used["y"], ones * trainer.weights["w"])
        for function in (trainer.freeze(ones), glow_nb.load(model, shapes={"x": ones.shape})):
            assert not any(isinstance(node, Drawn) for node in function)

    def test_a_function_has_the_dropouts_that_its_nodes_are(self) -> None:
        """``glow_nb.load`` is the model in use: a trainer of what it returns drops nothing."""
        nodes = [
            helper.make_node("Dropout", ["x"], ["d"]),
            helper.make_node("MatMul", ["d", "w"], ["y"]),
        ]
        weights = [from_array(np.eye(4, 3, dtype=np.float32), "w")]
        model = onnx_model(nodes, [value("x", (8, 4))], weights=weights)
        losses = [
            make(function=f, loss=MeanSquaredError()).step(POINTS[:8], POINTS[:8, :3])
            for f in (model, glow_nb.load(model))
        ]
        assert losses[0] > 0.1
        assert losses[1] == 0
