"""Checkpoints: what is read back, and files that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glow_nb.errors import GlowError, ModelError
from glow_nb.train import Adam
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


@pytest.mark.parametrize(
    "about",
    [
        [],
        {"steps": 1},
        {"steps": "1"},
        {"fit": {"begin": 0, "unknown": 1}},
        {"weights": ["unknown"]},
    ],
)
def test_a_damaged_one_is_refused(about: Any, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    make().save(path)
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    texts = header["__metadata__"]
    whole = json.loads(texts["checkpoint"])
    changed = {**whole, **about} if len(about) and about != {"steps": 1} else about
    texts["checkpoint"] = json.dumps(changed)
    written = json.dumps(header).encode()
    path.write_bytes(len(written).to_bytes(8, "little") + written + data[8 + size :])
    with pytest.raises(ModelError, match="checkpoint: a checkpoint that is damaged: "):
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
