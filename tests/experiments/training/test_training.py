"""What examples of training are made of, at sizes that take no time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import glow_nb
from experiments.benchmarks import training_memory
from experiments.benchmarks.duel_training import Result, compare
from experiments.figures.figure2_gradient import regression, with_step
from experiments.networks.training import CASES
from experiments.training import digits as train_digits
from experiments.training.digits import network, write_model
from experiments.training.text import python_reference, windows
from glow_nb.base.types import Array
from glow_nb.train.selection import select

SHIPPED = Path(train_digits.__file__).parents[1] / "digits.onnx"


def test_the_regression_of_figure_2_learns() -> None:
    function = with_step(regression())
    state: dict[str, Array] = {}
    inputs = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    feeds = {"A": inputs, "expected": inputs[:, :2]}
    losses = [float(glow_nb.evaluate(function, feeds, state)["loss"]) for _ in range(20)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] / 3


@pytest.mark.parametrize("name", CASES)
def test_networks_have_the_weights_of_their_models(name: str) -> None:
    model = CASES[name].make(2)
    function = glow_nb.load(model)
    initializers = {tensor.name for tensor in model.graph.initializer}
    assert {weight.name for weight in select(function, None, ()).weights} == initializers
    inputs, classes = CASES[name].data(1)[0]
    assert len(inputs) == len(classes) == CASES[name].batch


def test_the_network_for_digits_takes_any_batch() -> None:
    assert [network(batch).outputs[0].type.shape for batch in (1, 7)] == [(1, 10), (7, 10)]


def test_models_of_digits_say_how_well_they_read(tmp_path: Path) -> None:
    written = write_model(network(3), 0.98765, tmp_path / "digits.onnx")
    shipped = onnx.load(SHIPPED)
    assert onnx.load(tmp_path / "digits.onnx") == written
    told = [{p.key: p.value for p in model.metadata_props} for model in (written, shipped)]
    rest = " of the 360 tested digits of scikit-learn, none of which it was trained on"
    assert told == [{"accuracy": f"{share}{rest}"} for share in ("0.9877", "0.9917")]


def test_the_network_that_ships_gives_the_same_in_onnxruntime() -> None:
    images = np.random.default_rng(0).random((360, 8, 8, 1)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(SHIPPED).run(None, {"image": images})
    found = glow_nb.compile(SHIPPED, backend="interpreter").run(images)["scores"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_windows_show_what_comes_next() -> None:
    text = python_reference()
    read, after = next(windows(text.numbers, 1, seed=0))
    np.testing.assert_array_equal(read[:, 1:], after[:, :-1])
    assert text.encoded("if a\N{SNOWMAN}") == [text.alphabet.index(letter) for letter in "if a"]


def test_differences_are_those_of_losses_and_outputs() -> None:
    ours, theirs = (Result([1.0, 2.0 + n], np.array([4.0, -8.0 + n])) for n in (0.0, 0.5))
    assert compare(ours, theirs) == (0.5, 0.5 / 7.5)


@pytest.mark.slow
@pytest.mark.jit
def test_both_ways_to_train_are_measured() -> None:
    rows = list(training_memory.measure("mlp", threads=1, rounds=1))
    assert [row.recompute for row in rows] == [None, "auto"]
    assert all(row.arena_bytes >= row.bound_bytes > 0 for row in rows)
    assert str(rows[0]).startswith("| mlp | all kept | ")
