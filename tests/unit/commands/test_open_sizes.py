"""Commands on models whose sizes stay open, by ``--size`` and ``--hint``, or runs decide."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from glow_nb.commands import bench
from glow_nb.commands.size_ranges import in_words_of_options
from glow_nb.tools.duel.contest import Measurement
from tests.unit.commands.samples import call, fails, save_array, write_dense, write_graph
from tests.unit.formats.onnx.importer.models import model, value

INTERPRETER = ("--backend", "interpreter")


def write_places(folder: Path, rows: int | str = 4) -> Path:
    """Write a model whose runs decide a size."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Cast", ["places"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["floats"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["turned", "floats"], ["y"]),
    ]
    path = folder / "places.onnx"
    onnx.save(model(nodes, [value("x", (rows, 3))], ["y"]), path)
    return path


class TestRun:
    def test_random_inputs_are_of_the_example(self, tmp_path: Path) -> None:
        result = call(
            "run", write_dense(tmp_path, "n"), "--size", "n=1..8", "--hint", "n=5", *INTERPRETER
        )
        assert result.exit_code == 0, result.output
        assert "input x: float32<5 x 3>, random with seed 0" in result.output
        assert "output y: float32<5 x 12>" in result.output

    def test_inputs_of_any_size_in_the_range(self, tmp_path: Path) -> None:
        path = write_dense(tmp_path, "n")
        for rows in (2, 7):
            x = save_array(tmp_path / "x.npy", np.ones((rows, 3), np.float32))
            result = call("run", path, "--size", "n=1..8", "--input", x, *INTERPRETER)
            assert f"input x: float32<{rows} x 3>, from file" in result.output
        x = save_array(tmp_path / "x.npy", np.ones((9, 3), np.float32))
        message = fails("run", path, "--size", "n=1..8", "--input", x, *INTERPRETER)
        assert "9" in message and "8" in message

    def test_sizes_that_the_run_decides(self, tmp_path: Path) -> None:
        result = call("run", write_places(tmp_path, "n"), "--hint", "n=2", *INTERPRETER)
        assert "output y: float32<6 x 6>" in result.output

    def test_all_values(self, tmp_path: Path) -> None:
        out = tmp_path / "all.npz"
        call("run", write_dense(tmp_path, "n"), "--hint", "n=2", "--save-all", out, *INTERPRETER)
        with np.load(out) as archive:
            assert {name: archive[name].shape for name in archive} == {
                "product": (2, 12),
                "y": (2, 12),
            }


@pytest.mark.parametrize(
    "command", [("run",), ("profile",), ("dump",), ("dump", "--level", "source"), ("plans",)]
)
class TestErrors:
    def test_unknown_size(self, tmp_path: Path, command: tuple[str, ...]) -> None:
        message = fails(*command, write_dense(tmp_path, "n"), "--size", "m=1..8")
        assert "--size m=" in message and "['n']" in message

    def test_hint_outside_of_the_range(self, tmp_path: Path, command: tuple[str, ...]) -> None:
        path = write_dense(tmp_path, "n")
        message = fails(*command, path, "--size", "n=1..8", "--hint", "n=9")
        assert "--hint n=9: it is outside the range 1..8" in message

    def test_range_of_what_has_a_size(self, tmp_path: Path, command: tuple[str, ...]) -> None:
        path = write_dense(tmp_path, "n")
        message = fails(*command, path, "--size", "n=1..8", "--shape", "n=2")
        assert "--size and --shape both speak of 'n'" in message

    def test_fixed_sizes(self, tmp_path: Path, command: tuple[str, ...]) -> None:
        for path in (write_dense(tmp_path), write_graph(tmp_path)):
            message = fails(*command, path, "--size", "n=1..8")
            assert "--size" in message and "sizes=" not in message


def test_sizes_that_are_neither_fixed_nor_open_get_both_options(tmp_path: Path) -> None:
    for command in ("run", "profile"):
        message = fails(command, write_dense(tmp_path, "n"))
        assert "give sizes: --shape n=1, or leave them open: --hint n=1" in message


def test_the_graph_and_the_program_keep_their_sizes(tmp_path: Path) -> None:
    path, sizes = write_dense(tmp_path, "n"), ("--size", "n=1..8", "--hint", "n=5")
    graph = call("dump", path, *sizes, *INTERPRETER).output
    assert "<n in 1..8 like 5>" in graph
    assert "float32<n x 12>" in call("dump", path, "--level", "llir", *sizes, *INTERPRETER).output
    changed = call("diff", path, "--pass", "schedule", *sizes, *INTERPRETER)
    assert changed.exit_code == 0, changed.output


@pytest.mark.parametrize(
    "command",
    [
        ("dump",),
        ("dump", "--after-each-pass", "steps"),
        ("diff", "--pass", "lower"),
        ("bisect",),
        ("plans",),
    ],
)
def test_what_shows_one_program_says_what_shows_several(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    message = fails(*command, write_places(tmp_path))
    assert "it has data-dependent sizes (places)" in message
    assert "glow-nb profile" in message


def test_the_imported_graph_is_shown_whose_sizes_runs_decide(tmp_path: Path) -> None:
    assert "decide_size" in call("dump", write_places(tmp_path), "--after", "import").output


class TestInfo:
    def test_stages_are_added_up(self, tmp_path: Path) -> None:
        for rows in (4, "n"):
            result = call("info", write_places(tmp_path, rows), "--compile", "--json", *INTERPRETER)
            assert result.exit_code == 0, result.output
            report = json.loads(result.output)
            assert {row["family"] for row in report["kernels"]} >= {"non_zero"}
            assert report["arena_bytes"] >= report["arena_lower_bound_bytes"]

    def test_they_have_no_one_picture(self, tmp_path: Path) -> None:
        picture = tmp_path / "memory.png"
        message = fails("info", write_places(tmp_path), "--memory-map", picture, *INTERPRETER)
        assert "--memory-map" in message and "2 stages" in message


@pytest.mark.jit
def test_profile_of_stages(tmp_path: Path) -> None:
    sizes = ("--hint", "n=2", "--runs", 2)
    result = call("profile", write_places(tmp_path, "n"), *sizes, "--json", "-")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    kernels = report["kernels"]
    assert kernels[0]["family"] == "non_zero" and len(kernels) > 1
    assert report["run_min_seconds"] >= sum(kernel["min_seconds"] for kernel in kernels)


class TestBench:
    def test_engines_get_the_open_model(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found: dict[str, object] = {}

        def duel(path: str, feeds: dict[str, np.ndarray], **given: object) -> object:
            found.update(given, path=path, shape=feeds["x"].shape)
            return {"glow_nb": Measurement(times=[0.5])}

        monkeypatch.setattr(bench, "duel", duel)
        path = write_dense(tmp_path, "n")
        call("bench", path, "--size", "n=1..8", "--hint", "n=3")
        assert (found["path"], found["shape"]) == (str(path), (3, 3))
        sizes = {"sizes": {"n": (1, 8)}, "hints": {"n": 3}}
        assert found["options"] == {"without": (), "imported": [], **sizes}

    def test_inputs_need_a_size(self, tmp_path: Path) -> None:
        message = fails("bench", write_dense(tmp_path, "n"), "--size", "n=1..8")
        assert "--hint n=1" in message

    def test_unknown_size(self, tmp_path: Path) -> None:
        message = fails("bench", write_dense(tmp_path, "n"), "--size", "m=1..8", "--hint", "n=3")
        assert "--size m=...: the model has no open size" in message


def test_errors_speak_of_options() -> None:
    text = "sizes={'n': (1, 8)}: too wide; give hints={\"n\": 3} or sizes={'a[0]': ...}"
    expected = "--size n=1..8: too wide; give --hint n=3 or --size a[0]=..."
    assert in_words_of_options(text) == expected
