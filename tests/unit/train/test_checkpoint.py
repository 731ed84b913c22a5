"""Checkpoints: what is read back, and files that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import GlowError, ModelError
from glow_nb.base.types import ElementKind
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import MatMul
from glow_nb.network.tensor_files import read_tensors, tensor_bytes
from glow_nb.train import Adam, Epoch, MeanSquaredError
from glow_nb.train.checkpoint import FORMAT, Checkpoint, read_checkpoint, write_checkpoint
from glow_nb.train.fitting import FitState
from tests.unit.train.networks import dropping, perceptron
from tests.unit.train.trainers import POINTS, REGIONS, make


def test_that_of_another_network_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    make(frozen="b*").save(path)
    trainer = make()
    before = trainer.weights
    with pytest.raises(ModelError, match=r"'b1' is absent there and float32<16> here.*'b2'"):
        trainer.load(path)
    for name, weight in trainer.weights.items():
        np.testing.assert_array_equal(weight, before[name])


def test_what_a_checkpoint_does_not_hold_begins_anew(tmp_path: Path) -> None:
    """Momentum and random numbers of steps that were made since then are forgotten."""
    for function in (perceptron, dropping):
        trainer, other = make(function=function, seed=5), make(function=function, seed=6)
        trainer.save(tmp_path / "checkpoint")
        losses = [trainer.step(POINTS, REGIONS) for _ in range(3)]
        other.step(POINTS, REGIONS)
        for loaded in (trainer, other, make(function=function)):
            loaded.load(tmp_path / "checkpoint")
            assert [loaded.step(POINTS, REGIONS) for _ in range(3)] == losses


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float64"])
def test_weights_of_every_float_go_on(kind: str, tmp_path: Path) -> None:
    dtype = ElementKind(kind).dtype

    def build(batch: int) -> Function:
        b = Builder("narrow")
        w = b.constant("w", np.eye(4, 3).astype(dtype))
        b.save(b.emit(MatMul(b.input("x", f"{kind}<{batch} x 4>"), w)), "y")
        return b.function()

    points, path = POINTS[:8].astype(dtype), tmp_path / "checkpoint"
    trainer, other = (make(function=build, loss=MeanSquaredError()) for _ in range(2))
    trainer.step(points, points[:, :3])
    trainer.save(path)
    other.load(path)
    for one in (trainer, other):
        assert one.weights["w"].dtype == dtype
        one.step(points, points[:, :3])
    np.testing.assert_array_equal(trainer.weights["w"], other.weights["w"])


def test_states_of_storage_kinds_come_back(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    values = {"w": POINTS, "table": np.arange(-8, 8).astype(ElementKind.INT4.dtype)}
    fit = FitState(begin=1, batch=2, history=[vars(Epoch(1, 3, 0.5, {"loss": 0.25}, 0.1))])
    written = Checkpoint(values, ["w"], ["momentum"], 5, 1, 7, fit)
    write_checkpoint(path, written)
    found = read_checkpoint(path)
    for name, array in values.items():
        np.testing.assert_array_equal(found.values[name], array, strict=True)
    assert {**vars(found), "values": values} == vars(written)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ([], "its checkpoint is .*, and should have the fields"),
        ({"unknown": 1}, "its checkpoint is .*, and should have the fields"),
        ({"steps": "1"}, "'steps' of its checkpoint is '1'"),
        ({"epochs": True}, "'epochs' of its checkpoint is True"),
        ({"seed": 1 << 63}, "'seed' of its checkpoint is 9223372036854775808"),
        ({"seed": -1}, "'seed' of its checkpoint is -1"),
        ({"fit": {"begin": 0}}, r"its fit is {'begin': 0}, and should have the fields \['begin'"),
        ({"fit": vars(FitState(0, history=[3]))}, "its epoch is 3, and should"),  # type: ignore[list-item]
        ({"fit": vars(FitState(0, total="x"))}, "'total' of its fit is 'x'"),  # type: ignore[arg-type]
        ({"weights": ["unknown"]}, "its weight 'unknown' has no value"),
        ({"weights": [["w1"]]}, r"its weight \['w1'\] has no value"),
        ({"weights": ["w1", "b1"], "kept": ["other"]}, r"'w1.other' is float32<3>, its weight is"),
    ],
)
def test_a_damaged_one_is_refused(change: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    make().save(path)
    arrays, texts = read_tensors(path, ModelError, "a checkpoint")
    about = json.loads(texts["checkpoint"])
    texts["checkpoint"] = json.dumps({**about, **change} if isinstance(change, dict) else change)
    path.write_bytes(tensor_bytes({**arrays, "w1.other": arrays["b2"]}, texts))
    with pytest.raises(ModelError, match=f"checkpoint: a checkpoint that is damaged: {message}"):
        make().load(path)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_one_that_is_no_json_is_damaged(text: str, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(tensor_bytes({}, {"format": FORMAT, "checkpoint": text}))
    with pytest.raises(ModelError, match="a checkpoint that is damaged: .* is no JSON; give anoth"):
        make().load(path)


def test_that_of_another_optimizer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    make(optimizer=Adam()).save(path)
    with pytest.raises(ModelError, match=r"kept \['moment', .*SGD keeps \['momentum'\]"):
        make().load(path)


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"\x02" + bytes(7) + b"{}"])
def test_another_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="checkpoint: (cannot be read|its format is None)"):
        make().load(path)
    with pytest.raises(ModelError, match="nothing: cannot be read"):
        make().load(tmp_path / "nothing")


def test_one_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GlowError, match="cannot be written"):
        make().save(tmp_path / "no" / "folder")
