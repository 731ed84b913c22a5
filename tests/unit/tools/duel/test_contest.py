"""Engines in turn: what is said of times and outputs, whatever the times are."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from glow_nb.base.distance import largest_distance, relative_error
from glow_nb.base.errors import OptionError
from glow_nb.base.types import Array
from glow_nb.tools.duel import contest, engines
from glow_nb.tools.duel.contest import Measurement, Ratios, duel, open_contest, ratios_of
from glow_nb.tools.duel.engines import open_engine, require_installed
from glow_nb.tools.duel.entrants import entrants_of
from glow_nb.tools.duel.worker import load_inputs, load_outputs, save_inputs, save_outputs
from tests.unit.commands.samples import write_convolution, write_dense


def test_ratios_are_those_of_the_best_peer() -> None:
    results = {
        "glow_nb": Measurement(times=[3.0, 2.0]),
        "onnxruntime": Measurement(times=[5.0, 4.0]),
        "openvino": Measurement(times=[3.0, 9.0]),
    }
    assert ratios_of(results) == Ratios(minima=1.5, medians=4.5 / 2.5)
    assert ratios_of({"glow_nb": results["glow_nb"], "openvino": Measurement()}) is None
    assert ratios_of({"openvino": Measurement(times=[1.0])}) is None


def test_ratios_are_of_those_that_compute_in_the_same_floats() -> None:
    results = {
        "glow_nb": Measurement(times=[2.0], computes="float32"),
        "glow_nb bfloat16": Measurement(times=[1.0], computes="bfloat16"),
        "onnxruntime": Measurement(times=[3.0], computes="float32"),
        "openvino bfloat16": Measurement(times=[2.0], computes="bfloat16"),
        "openvino default": Measurement(times=[1.0], computes="bfloat16"),
    }
    assert ratios_of(results) == Ratios(1.5, 1.5)
    assert ratios_of(results, "bfloat16") == Ratios(2.0, 2.0)
    assert ratios_of(results, "default") == Ratios(0.5, 0.5)
    results["openvino bfloat16"].computes = "float32"  # the processor has no instruction for it
    assert ratios_of(results, "bfloat16") is None


def test_engines_take_part_once_for_each_precision_they_have() -> None:
    assert list(entrants_of(["glow_nb", "onnxruntime", "openvino"], ["bfloat16", "default"])) == [
        *("glow_nb bfloat16", "onnxruntime", "openvino bfloat16"),
        *("glow_nb", "openvino default"),
    ]
    with pytest.raises(OptionError, match="'bfloat': .* did you mean 'bfloat16'"):
        entrants_of(["glow_nb"], ["bfloat"])
    with pytest.raises(OptionError, match="no precision: give one"):
        entrants_of(["glow_nb"], [])


OPENVINO = """
class Compiled:
    outputs = ["y"]

    def __init__(self, hint):
        self.hint = hint

    def create_infer_request(self):
        return self

    def infer(self, feeds):
        self.data = next(iter(feeds.values())) * {"f32": 1, "bf16": 2, None: 4}[self.hint]

    def get_output_tensor(self, index):
        return self

    def get_property(self, name):
        return self

    def get_type_name(self):
        return self.hint or "f16"


class Core:
    def compile_model(self, path, device, config):
        assert config["INFERENCE_NUM_THREADS"] == 1
        return Compiled(config.get("INFERENCE_PRECISION_HINT"))
"""
"""An engine that multiplies by what it is asked to compute in."""


def test_openvino_is_told_the_precision_or_chooses_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "openvino.py").write_text(OPENVINO)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "openvino", raising=False)
    results = duel(
        "model.onnx",
        {"x": np.ones(1)},
        threads=1,
        engines=["openvino"],
        precisions=["float32", "bfloat16", "default"],
        rounds=1,
        seconds=0.0,
    )
    found = {name: (result.computes, result.outputs[0][0]) for name, result in results.items()}
    assert found == {
        "openvino": ("float32", 1),
        "openvino bfloat16": ("bfloat16", 2),
        "openvino default": ("f16", 4),
    }


def test_files_are_imported_before_a_model_is_read(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text("raise ValueError('it is imported')")
    found = duel(
        "model.onnx",
        {},
        threads=1,
        engines=["glow_nb"],
        rounds=0,
        seconds=0.0,
        options={"imported": [str(file)]},
    )
    assert "own.py: line 1: ValueError: it is imported" in found["glow_nb"].missing


@pytest.mark.jit
def test_glow_nb_is_compiled_in_the_precision(tmp_path: Path) -> None:
    path = str(write_convolution(tmp_path))
    feeds = {"x": np.random.default_rng(1).normal(size=(1, 24, 24, 32)).astype(np.float32)}
    found = {}
    for asked, computes in (("bfloat16", "bfloat16"), ("default", "float32")):
        run = open_engine("glow_nb", path, 1, precision=asked)
        assert run.computes == computes
        (found[asked],) = run(feeds)
        assert found[asked].dtype == np.float32
    assert 1e-4 < relative_error([found["default"]], [found["bfloat16"]]) < 0.02
    dense = str(write_dense(tmp_path))
    assert open_engine("onnxruntime", dense, 1, precision="bfloat16").computes == "float32"


def test_arrays_cross_the_folder(tmp_path: Path) -> None:
    feeds: dict[str, Array] = {
        "a/b": np.arange(3),
        "file": np.ones((2, 2), np.float32),
        "arr_0": np.zeros(1),
    }
    save_inputs(tmp_path, feeds)
    loaded = load_inputs(tmp_path)
    assert list(loaded) == list(feeds)
    assert all((loaded[name] == feeds[name]).all() for name in feeds)
    save_outputs(tmp_path, "glow_nb", [np.full(i, i) for i in range(12)])
    assert [array.size for array in load_outputs(tmp_path, "glow_nb")] == list(range(12))


def test_engines_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "is_installed", lambda engine: engine == "glow_nb")
    require_installed(["glow_nb"])
    with pytest.raises(OptionError, match="openvino: .* pip install onnxruntime openvino"):
        require_installed(["glow_nb", "onnxruntime", "openvino"])
    with pytest.raises(OptionError, match="unknown engine 'tvm'"):
        open_engine("tvm", "model.onnx", 1)


def test_one_that_is_missing_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(contest, "is_installed", lambda engine: False)
    results = duel(
        "model.onnx", {}, threads=1, engines=["openvino"], rounds=1, seconds=0.0
    )  # fmt: skip
    assert results["openvino"].missing == "it is not installed"


def test_threads_of_a_peer_rest_between_runs_if_others_are_in_the_process(tmp_path: Path) -> None:
    run = open_engine("onnxruntime", str(write_dense(tmp_path)), 2)
    run({"x": np.ones((2, 3), np.float32)})
    began = time.process_time()
    time.sleep(0.03)
    assert time.process_time() - began < 0.015  # a thread that waits in a loop takes all of it


@pytest.mark.jit
def test_engines_answer_in_turn(tmp_path: Path) -> None:
    turns: list[tuple[int, int]] = []
    results = duel(
        str(write_dense(tmp_path)),
        {"x": np.ones((2, 3), np.float32)},
        threads=1,
        engines=["glow_nb", "onnxruntime"],
        rounds=2,
        seconds=0.0,
        progress=lambda done, total: turns.append((done, total)),
    )
    assert turns == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [len(result.times) for result in results.values()] == [2, 2]
    assert largest_distance(results["glow_nb"].outputs, results["onnxruntime"].outputs) < 1e-5
    assert ratios_of(results) is not None


def test_engines_may_take_turns_for_several_results(tmp_path: Path) -> None:
    feeds = {"x": np.ones((2, 3), np.float32)}
    model = str(write_dense(tmp_path))
    with open_contest(model, feeds, threads=1, engines=["onnxruntime", "none"]) as contest:
        some, others = contest.new_results(), contest.new_results()
        contest.take_turns(some, 2, 0.0)
        contest.take_turns(others, 1, 0.0)
    assert len(some["onnxruntime"].times) == 2
    assert len(others["onnxruntime"].times) == 1
    assert others["none"].missing == "it is not installed"


def test_an_engine_that_refuses_says_why(tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"no model")
    results = duel(
        str(path), {}, threads=1, engines=["onnxruntime", "glow_nb"], rounds=1, seconds=0.0
    )
    assert "INVALID_PROTOBUF" in results["onnxruntime"].missing
    assert "not an ONNX model" in results["glow_nb"].missing
    assert results["glow_nb"].times == []
