"""The sweep over kinds of layers: what is drawn, what is measured, and what is said of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.benchmarks import kinds as experiment
from experiments.benchmarks.kinds import differs, is_wrong, row_of, table
from experiments.networks.drawn import KINDS, draw
from glow_nb.codegen.pool import WORKERS_VARIABLE
from glow_nb.network.saved.kept import NETWORKS_VARIABLE
from glow_nb.tools.duel.contest import Measurement
from glow_nb.tools.duel.engines import open_onnxruntime


def test_a_model_depends_on_kind_seed_and_number_alone() -> None:
    one, same, other = (draw("running_sum", 1, index) for index in (0, 0, 1))
    assert one.model == same.model and one.says == same.says
    assert all(np.array_equal(one.feeds[name], same.feeds[name]) for name in one.feeds)
    assert one.model != other.model
    assert one.model != draw("running_sum", 2, 0).model


def test_two_kinds_are_measured_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "kinds.json"
    options = ["--only", "clip", "running_sum", "--models", "1", "--rounds", "1", "--seconds", "0"]
    options += ["--engines", "glow_nb", "onnxruntime", "--warm", "--output", str(path)]
    monkeypatch.setattr(sys, "argv", ["kinds", *options])
    for name in (WORKERS_VARIABLE, NETWORKS_VARIABLE, "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "0")  # so that it is as before when this test ends
    experiment.main()
    rows = json.loads(path.read_text())["rows"]
    assert [row["kind"] for row in rows] == ["clip", "running_sum"]
    for row in rows:
        assert row["ratio"] > 0 and not is_wrong(row) and not row["missing"]
        assert row["seconds"].keys() == {"glow_nb", "onnxruntime"}
    said = capsys.readouterr().out
    assert "| running sum | 1 |" in said and "2 models of 2 kinds, seed 1" in said
    monkeypatch.setattr(sys, "argv", ["kinds", "--table", str(path), "--warm"])
    experiment.main()
    assert said.endswith(capsys.readouterr().out)


def test_an_engine_that_does_not_run_is_left_out_and_told() -> None:
    drawn = draw("clip", 1, 0)
    results = experiment.measure(drawn, ["missing_engine"], 1, 0.0)
    row = row_of("clip", 0, drawn, results)
    assert row["missing"] == {"missing_engine": "it is not installed"}
    assert row["ratio"] is None and not is_wrong(row)


def test_the_worst_kind_stands_first() -> None:
    drawn = draw("clip", 1, 0)

    def row(kind: str, ours: float) -> experiment.Row:
        times = {"glow_nb": ours, "onnxruntime": 1.0, "openvino": 3.0}
        return row_of(kind, 0, drawn, {name: Measurement(2.0, [t]) for name, t in times.items()})

    rows = [row("a", 0.5), row("a", 1.0), row("b", 4.0), row("b", 1.0)]
    text = table({"measured": "Here.", "kinds": ["a", "b"], "seed": 3, "rows": rows})
    assert text.splitlines()[-2:] == [
        "| b | 2 | 0.50 | 0.25 | 2.0 |",
        "| a | 2 | 1.41 | 1.00 | 2.0 |",
    ]
    assert "geometric mean 0.84, 3 at 1 or above, 1 below 0.9, worst 0.25; 8 s" in text


@pytest.mark.parametrize(
    ("kind", "error", "is_far"),
    [("float32", 1e-5, False), ("float32", 1e-3, True), ("uint8", 1, False), ("uint8", 3, True),
     ("int64", 0, False), ("int64", 1, True), ("float64", 1e-7, True)],
)  # fmt: skip
def test_how_far_results_may_be_apart_depends_on_their_kind(
    kind: str, error: float, is_far: bool
) -> None:
    expected = np.full(3, 100 if kind == "uint8" else 1).astype(kind)
    assert (differs([expected], [expected + np.array(error).astype(kind)]) > 1) is is_far


def test_results_are_right_that_are_those_of_a_peer() -> None:
    drawn, zeros, ones = draw("clip", 1, 0), [np.zeros(2, np.float32)], [np.ones(2, np.float32)]
    results = {
        "glow_nb": Measurement(1.0, [1.0], zeros),
        "onnxruntime": Measurement(1.0, [1.0], ones),
        "openvino": Measurement(1.0, [1.0], zeros),
    }
    assert not is_wrong(row_of("clip", 0, drawn, results))
    del results["openvino"]
    assert is_wrong(row_of("clip", 0, drawn, results))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_onnx_runtime_takes_what_is_drawn(kind: str) -> None:
    for index in range(5):
        drawn = draw(kind, 1, index)
        assert open_onnxruntime(drawn.model.SerializeToString(), 1)(drawn.feeds)
