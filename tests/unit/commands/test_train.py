"""``glow-nb train``."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper, numpy_helper

import glow_nb
from glow_nb.base.types import Array
from glow_nb.cli import main
from glow_nb.commands.train import OPTIMIZERS, train
from tests.unit.commands.samples import call, fails
from tests.unit.train.networks import corners, normalized_model, perceptron

pytestmark = pytest.mark.jit


STEP: tuple[object, ...] = (
    *("--loss", "softmax", "--optimizer", "sgd", "--momentum", 0.9, "--rate", 0.1),
    *("--freeze", "filter", "--threads", 1),
)
"""The options of a step that several tests compile, for batches of 8."""


def write(folder: Path, samples: int = 24) -> tuple[Path, Path]:
    """Write a model and its data; return their paths."""
    model, data = folder / "model.onnx", folder / "train.npz"
    onnx.save(normalized_model(), model)
    images = np.random.default_rng(2).normal(1, 2, (samples, 2, 4, 4)).astype(np.float32)
    np.savez(data, x=images, labels=np.arange(samples) % 2)
    return model, data


def weights_of(path: Path) -> dict[str, Array]:
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


def test_a_model_is_trained_and_written(tmp_path: Path) -> None:
    model, data = write(tmp_path)
    output, checkpoint = tmp_path / "trained.onnx", tmp_path / "checkpoint"
    options = (*STEP, "--data", data, "--epochs", 3, "--batch", 8)
    options += ("--validation", data, "--checkpoint", checkpoint, "--output", output)
    result = call("train", model, *options)
    assert result.exit_code == 0, result.output
    *epochs, last = result.output.splitlines()
    assert [line.partition(":")[0] for line in epochs] == ["epoch 1", "epoch 2", "epoch 3"]
    assert "validation accuracy" in epochs[0]
    assert last == f"saved {output}"
    before, after = weights_of(model), weights_of(output)
    changed = {name for name, weight in before.items() if (after[name] != weight).any()}
    assert changed == {"scale", "shift", "mean", "variance", "dense", "offset"}
    onnx.checker.check_model(output)
    result = call("train", model, *options)
    assert result.output.startswith(f"continues from {checkpoint}: 3 epochs, 9 steps\nepoch 4: ")


def test_ir_text_is_trained(tmp_path: Path) -> None:
    model, data, output = tmp_path / "net.glow", tmp_path / "data.npz", tmp_path / "out.glow"
    glow_nb.save_text(perceptron(20), model)
    points, regions = corners()
    np.savez(data, x=points, regions=regions)
    options: tuple[object, ...] = ("--data", data, "--loss", "softmax", "--epochs", 1)
    options += ("--batch", 20, "--optimizer", "sgd", "--threads", 1)
    result = call("train", model, *options, "--output", output)
    assert result.exit_code == 0, result.output
    assert {c.name for c in glow_nb.load(output).constants} == {"w1", "b1", "w2", "b2"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--momentum", "0.9"), "--momentum 0.9: the optimizer adam has no momentum"),
        (("--data", "no.npz"), "data file no.npz: cannot be read"),
        (("--data", __file__), "not a whole .npz file of numbers"),
        (("--freeze", "u*"), "'u*' fits no weight"),
    ],
)
def test_bad_options(options: tuple[str, str], message: str, tmp_path: Path) -> None:
    model, data = write(tmp_path)
    given = {"--data": str(data), "--loss": "softmax", "--epochs": "1"}
    given |= {"--output": str(tmp_path / "out.onnx")} | dict([options])
    assert message in fails("train", model, *(text for pair in given.items() for text in pair))


def test_few_samples_are_one_batch(tmp_path: Path) -> None:
    model, data = write(tmp_path, samples=8)
    options = (*STEP, "--data", data, "--epochs", 1)
    result = call("train", model, *options, "--output", tmp_path / "trained.onnx")
    assert result.exit_code == 0, result.output
    assert "(1 steps," in result.output


def test_a_model_is_written_in_its_own_format(tmp_path: Path) -> None:
    model, data = write(tmp_path)
    options = ("--data", data, "--loss", "softmax", "--epochs", 1, "--output", "out.glow")
    assert "out.glow is not named FILE.onnx" in fails("train", model, *options, code=2)


def test_data_that_do_not_fit(tmp_path: Path) -> None:
    model, _ = write(tmp_path)
    data = tmp_path / "other.npz"
    np.savez(data, images=np.ones(3), labels=np.ones(3))
    options = ("--data", data, "--loss", "squares", "--epochs", 1, "--output", tmp_path / "o.onnx")
    assert "it must hold the inputs ['x'] and one array more" in fails("train", model, *options)


def test_the_help_tells_the_defaults_of_the_optimizers() -> None:
    """They are written there in words, and stand in the classes."""
    help = " ".join(CliRunner().invoke(main, ["train", "--help"]).output.split())
    rates = {name: made().rate for name, made in OPTIMIZERS.items()}
    decays = {name: made().weight_decay for name, made in OPTIMIZERS.items()}
    assert rates == {name: 0.001 if "adam" in name else 0.01 for name in OPTIMIZERS}
    assert decays == {name: 0.01 if name == "adamw" else 0.0 for name in OPTIMIZERS}
    assert "[default: 0.001 for adam and adamw, 0.01 for the others]" in help
    assert "[default: 0.01 for adamw, 0 for the others]" in help


def test_each_option_of_train_is_explained() -> None:
    options = [p for p in train.params if isinstance(p, click.Option)]
    assert [option.name for option in options if not option.help] == []


def test_a_constant_without_a_place_in_the_file_is_not_trained(tmp_path: Path) -> None:
    path, data = write(tmp_path)
    model = onnx.load(path)
    model.graph.node.insert(
        0, helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(TWO))
    )
    model.graph.node.append(helper.make_node("Mul", ["y", "two"], ["z"]))
    model.graph.output[0].name = "z"
    onnx.save(model, path)
    function = glow_nb.load(path, shapes={"batch": 8})
    (name,) = (c.name for c in function.constants if c.type.size == 2 and not c.is_weight)
    options = ("--data", data, "--epochs", 1, *STEP, "--output", tmp_path / "trained.onnx")
    said = fails("train", path, *options, "--train", name, "--train", "f*")
    assert f"--train: {name!r} is no initializer of" in said


TWO = np.array([2.0, 2.0], np.float32)
