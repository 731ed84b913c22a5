"""``glow-nb run`` on the interpreter."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glow_nb
from glow_nb.base.errors import GlowWarning, OptionError
from glow_nb.base.types import Array, TensorType
from glow_nb.commands.run import best_classes, describe_array
from glow_nb.network import compiling
from tests.unit.commands.samples import call, fails, save_array, write_dense, write_graph, write_sum
from tests.unit.formats.onnx.importer.models import model, value

INTERPRETER = ("--backend", "interpreter")


def test_random_inputs_are_said_and_seeded(tmp_path: Path) -> None:
    model = write_dense(tmp_path)
    result = call("run", model, *INTERPRETER, "--threads", 3)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert re.fullmatch(rf"model {model}: interpreter, 3 threads, ready in \d+\.\d\d s", lines[0])
    assert lines[1] == "input x: float32<2 x 3>, random with seed 0"
    assert re.fullmatch(r"output y: float32<2 x 12>, min 0, max [\d.]+, mean [\d.]+", lines[2])
    assert re.fullmatch(r"  best of row 0: (\d+ \([\d.]+\)(, )?){5}", lines[3])
    assert re.fullmatch(r"time \d+\.\d+ ms, the first run", lines[5])
    other = call("run", model, *INTERPRETER, "--seed", 5).output.splitlines()
    assert other[1] == "input x: float32<2 x 3>, random with seed 5"
    assert other[2] != lines[2]
    assert "\x1b" not in result.output


def reshaping(folder: Path) -> tuple[Path, tuple[str, ...]]:
    """Write a model whose input decides shapes; return its file, and the options that feed it."""
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"])]
    inputs = [value("x", ("n", 3)), value("s", (2,), TensorProto.INT64)]
    path = folder / "reshape.onnx"
    onnx.save(model(nodes, inputs, ["y"]), path)
    shape = save_array(folder / "s.npy", np.array([3, -1]))
    x = save_array(folder / "x.npy", np.ones((2, 3), np.float32))
    return path, ("--input", f"s={shape}", "--input", f"x={x}")


def test_an_input_that_decides_shapes_may_be_given(tmp_path: Path) -> None:
    path, inputs = reshaping(tmp_path)
    assert "output y: float32<3 x 2>" in call("run", path, *inputs, *INTERPRETER).output


def test_inputs_bind_sizes_of_what_is_profiled_and_reported(tmp_path: Path) -> None:
    path, inputs = reshaping(tmp_path)
    assert "stack   y" in call("profile", path, *inputs, "--runs", 1, *INTERPRETER).output
    page = tmp_path / "page.html"
    call("report", path, *inputs, "--runs", 1, "--output", page, *INTERPRETER)
    assert "float32\\u003c2 x 3\\u003e" in page.read_text(encoding="utf-8")


def test_inputs_from_files_and_saved_outputs(tmp_path: Path) -> None:
    model = write_sum(tmp_path)
    a = save_array(tmp_path / "a.npy", np.arange(4, dtype=np.int32))
    b = save_array(tmp_path / "b.npy", np.full(4, 0.5, np.float32))
    out = tmp_path / "out.npz"
    result = call(
        "run", model, "--input", f"a={a}", "--input", f"b={b}", "--save", out, *INTERPRETER
    )
    assert result.exit_code == 0, result.output
    assert "input a: int32<4>, from file" in result.output
    assert result.output.endswith(f"saved {out}\n")
    with np.load(out) as archive:
        np.testing.assert_array_equal(archive["y"], [0.5, 1.5, 2.5, 3.5])


def test_ir_text_runs(tmp_path: Path) -> None:
    x = save_array(tmp_path / "x.npy", np.array([[1, 2], [-1, 3], [0, -4]], np.float32))
    out = tmp_path / "out.npz"
    result = call("run", write_graph(tmp_path), "--input", x, "--save", out, *INTERPRETER)
    assert result.exit_code == 0, result.output
    with np.load(out) as archive:
        np.testing.assert_array_equal(archive["y"], [[1, 4], [0, 6], [0, 0]])


def test_repeat_gives_best_and_median(tmp_path: Path) -> None:
    result = call("run", write_graph(tmp_path), "--repeat", 3, *INTERPRETER)
    assert re.search(r"time [\d.]+ ms at best, [\d.]+ ms median of 3 runs\n$", result.output)


def test_renamed_output_is_said(tmp_path: Path) -> None:
    model = write_dense(tmp_path, result="../y")
    result = call("run", model, "--save", tmp_path / "out.npz", *INTERPRETER)
    assert '("../y" as output_0)' in result.output or "(../y as output_0)" in result.output


class TestSymbolicDimensions:
    def test_bound_by_option(self, tmp_path: Path) -> None:
        result = call("run", write_dense(tmp_path, "n"), "--shape", "n=5", *INTERPRETER)
        assert "input x: float32<5 x 3>, random" in result.output
        assert "and 1 more rows" in result.output

    def test_bound_by_whole_shape(self, tmp_path: Path) -> None:
        result = call("run", write_dense(tmp_path, "n"), "--shape", "x=7x3", *INTERPRETER)
        assert "input x: float32<7 x 3>, random" in result.output

    def test_bound_by_input(self, tmp_path: Path) -> None:
        x = save_array(tmp_path / "x.npy", np.ones((6, 3), np.float32))
        result = call("run", write_dense(tmp_path, "n"), "--input", x, *INTERPRETER)
        assert "input x: float32<6 x 3>, from file" in result.output

    def test_unbound(self, tmp_path: Path) -> None:
        message = fails("run", write_dense(tmp_path, "n"), *INTERPRETER)
        assert "input 'x' is [n, 3]" in message
        assert "--shape n=1" in message

    def test_unknown(self, tmp_path: Path) -> None:
        assert "'m'" in fails("run", write_dense(tmp_path, "n"), "--shape", "m=1", *INTERPRETER)

    def test_text_has_none(self, tmp_path: Path) -> None:
        message = fails("run", write_graph(tmp_path), "--shape", "n=1", *INTERPRETER)
        assert "its sizes are fixed" in message


class TestErrors:
    @pytest.fixture
    def model(self, tmp_path: Path) -> Path:
        return write_dense(tmp_path)

    def test_wrong_dtype(self, tmp_path: Path, model: Path) -> None:
        x = save_array(tmp_path / "x.npy", np.ones((2, 3)))
        message = fails("run", model, "--input", f"x={x}", *INTERPRETER)
        assert "dtype is float64, the network takes float32" in message

    def test_wrong_shape(self, tmp_path: Path, model: Path) -> None:
        x = save_array(tmp_path / "x.npy", np.ones((3, 2), np.float32))
        message = fails("run", model, "--input", x, *INTERPRETER)
        assert "shape is [3, 2], the network takes [2, 3]" in message

    def test_missing_input(self, tmp_path: Path) -> None:
        a = save_array(tmp_path / "a.npy", np.ones(4, np.int32))
        message = fails("run", write_sum(tmp_path), "--input", f"a={a}", *INTERPRETER)
        assert "input(s) ['b'] are not fed" in message

    @pytest.mark.parametrize("command", ["run", "profile", "report"])
    @pytest.mark.parametrize(
        ("batch", "options", "said"),
        [
            ("n", ("--shape", "n=2"), "shape is [4, 3], the network takes [2, 3]"),
            (2, (), "shape is [4, 3], the network takes [2, 3]"),
            ("n", ("--size", "n=1..3"), "size 'n' is 4 in the arrays of --input"),
            ("n", ("--shape", "x=5x3"), "shape is [4, 3], the network takes [5, 3]"),
            ("n", ("--shape", "m=5"), "no symbolic dimension 'm'"),
        ],
    )
    def test_inputs_are_checked_before_anything_is_compiled(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        command: str,
        batch: int | str,
        options: tuple[str, ...],
        said: str,
    ) -> None:
        def compile(*arguments: object, **options: object) -> None:
            raise OptionError("compiled")

        monkeypatch.setattr(glow_nb, "compile", compile)
        path = write_dense(tmp_path, batch)
        fitting = save_array(tmp_path / "one.npy", np.ones((2, 3), np.float32))
        wrong = save_array(tmp_path / "x.npy", np.ones((4, 3), np.float32))
        more = ("--output", tmp_path / "page.html") if command == "report" else ()
        assert said in fails(command, path, "--input", wrong, *options, *more)
        if "m=5" not in options and "x=5x3" not in options:
            assert "compiled" in fails(command, path, "--input", fitting, *options, *more)

    def test_inputs_of_text_are_checked_before_it_is_compiled(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(glow_nb, "compile", None)
        x = save_array(tmp_path / "x.npy", np.ones((2, 2), np.float32))
        assert "shape is [2, 2], the network takes [3, 2]" in fails(
            "run", write_graph(tmp_path), "--input", x
        )

    def test_missing_model(self) -> None:
        assert "nowhere.onnx: cannot be read" in fails("run", "nowhere.onnx")
        assert "nowhere.glow" in fails("run", "nowhere.glow")

    def test_save_needs_its_suffix(self, model: Path) -> None:
        assert "not named FILE.npz" in fails("run", model, "--save", "out.txt", code=2)

    def test_save_spares_the_constants(self, tmp_path: Path) -> None:
        model = write_graph(tmp_path)
        message = fails("run", model, "--save", tmp_path / "net.npz", *INTERPRETER)
        assert "choose another name" in message

    @pytest.mark.parametrize("shape", ["n", "n=", "=4", "n=-1", "n=1.5", "n=axb", "n=" + "9" * 40])
    def test_malformed_shape(self, model: Path, shape: str) -> None:
        assert "NAME=SIZE" in fails("run", model, "--shape", shape, code=2)

    def test_unknown_backend(self, model: Path) -> None:
        assert "'cpu', 'interpreter'" in fails("run", model, "--backend", "gpu", code=2)

    def test_zero_threads(self, model: Path) -> None:
        fails("run", model, "--threads", 0, code=2)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([1.0, 2.0, 6.0]), "min 1, max 6, mean 3"),
        (np.array([1, 2, 6], np.uint8), "min 1, max 6, mean 3"),
        (np.array([np.nan, 1, np.inf]), "min 1, max 1, mean 1, not finite 2"),
        (np.array([np.nan]), "not finite 1"),
        (np.array([True, False, True]), "2 true of 3"),
        (np.empty((0, 3)), "empty"),
        (np.float32(4), "min 4, max 4, mean 4"),
    ],
)
def test_describe_array(array: Array, expected: str) -> None:
    assert describe_array(np.asarray(array)) == expected


def test_best_classes_only_of_scores() -> None:
    scores = np.arange(12, dtype=np.float32)
    expected = ["  best of row 0: 11 (11), 10 (10), 9 (9), 8 (8), 7 (7)"]
    for shape in ((1, 12), (1, 12, 1, 1)):
        array = scores.reshape(shape)
        assert list(best_classes(TensorType.of(array), array)) == expected
    others: list[Array] = [scores, scores.reshape(2, 6), scores.reshape(1, 12).astype(np.int32)]
    for other in others:
        assert not list(best_classes(TensorType.of(other), other))


def test_more_threads_than_cores_get_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "available_cores", lambda: 2)
    model = write_dense(tmp_path)
    wanted = "threads=3: this process may use 2 cores, "
    with pytest.warns(GlowWarning, match=wanted) as caught:
        glow_nb.compile(str(model), backend="interpreter", threads=3)
    assert caught[0].filename == __file__
    assert call("run", model, "--backend", "interpreter", "--threads", 2).stderr == ""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        stderr = call("run", model, "--backend", "interpreter", "--threads", 3).stderr
    assert stderr.startswith(f"Warning: {wanted}")
    assert stderr.count("\n") == 1


def test_all_values_are_saved(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Abs", ["x"], ["a"], name="abs_1"),
        helper.make_node("Sqrt", ["a"], ["y"]),
    ]
    path, out = tmp_path / "net.onnx", tmp_path / "all.npz"
    onnx.save(model(nodes, [value("x", (2, 3))], ["y"]), path)
    x = save_array(tmp_path / "x.npy", np.full((2, 3), -4, np.float32))
    result = call("run", path, "--input", f"x={x}", "--save-all", out, *INTERPRETER)
    assert f"saved 2 values to {out}" in result.output
    with np.load(out) as saved:
        assert {name: saved[name][0, 0] for name in saved} == {"y": 2, "a": 4}
    refused = call("run", path, "--save-all", "x", *INTERPRETER)
    assert "'--save-all': x is not named FILE.npz" in refused.output


def test_all_values_of_ir_text_are_those_of_the_text(tmp_path: Path) -> None:
    out = tmp_path / "all.npz"
    call("run", write_graph(tmp_path), "--save-all", out, *INTERPRETER)
    graph = glow_nb.load(write_graph(tmp_path))
    with np.load(out) as saved:
        names = {node.name for node in graph if node.result_types}
        assert set(saved) == {*(output.name for output in graph.outputs), *names}
