"""``glow-nb info`` and the numbers and tables that commands print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import glow_nb
from glow_nb.base.errors import OptionError
from glow_nb.base.quantities import byte_count, count_of, scaled
from tests.unit.commands.samples import call, fails, write_dense, write_graph
from tests.unit.formats.onnx.importer.models import model, value, weight

INTERPRETER = ("--backend", "interpreter")


def test_text(tmp_path: Path) -> None:
    result = call("info", write_dense(tmp_path), "--threads", 1, *INTERPRETER)
    assert result.exit_code == 0, result.output
    facts = dict(line.split("  ", 1) for line in result.output.splitlines() if "  " in line)
    facts = {name: value.strip() for name, value in facts.items()}
    assert facts["input x"] == "float32<2 x 3>"
    assert facts["output y"] == "float32<2 x 12>"
    assert facts["parameters"] == "36 (144 B)"
    assert facts["multiply-adds"] == "72"
    assert facts["FLOPs"] == "168"
    assert "1.000 of its lower bound" in facts["arena"]
    rows = [line.split() for line in result.output.splitlines()]
    assert ["mat_mul", "1", "1", "72", "0", "85.7", "%"] in rows
    assert ["relu", "1"] in [row[:2] for row in rows]
    assert ["mat_mul", "1", "0"] in rows
    assert "\x1b" not in result.output
    assert not any(line.endswith(" ") for line in result.output.splitlines())


def test_json(tmp_path: Path) -> None:
    result = call("info", write_dense(tmp_path, "n"), "--shape", "n=2", "--json", *INTERPRETER)
    report = json.loads(result.stdout)
    assert report["inputs"] == {"x": "float32<2 x 3>"}
    assert report["multiply_adds"] == 72
    assert report["flops"] == 168
    assert report["arena_bytes"] >= report["arena_lower_bound_bytes"] > 0
    assert {row["operator"] for row in report["operators"]} >= {"mat_mul", "relu"}
    assert sum(row["instructions"] for row in report["kernels"]) == 2


def test_long_names_are_not_cut(tmp_path: Path) -> None:
    name = "input_" + 60 * "very_" + "long"
    assert f"input {name} " in call("info", write_dense(tmp_path, name=name), *INTERPRETER).output


def test_names_do_not_style_the_text(tmp_path: Path) -> None:
    result = call("info", write_dense(tmp_path, name="[red]x\x1b[31m"), *INTERPRETER)
    assert '"[red]x\\u001b[31m"' in result.output
    assert "\x1b" not in result.output


def test_program_text_has_instructions_for_operators(tmp_path: Path) -> None:
    path = tmp_path / "program.glow"
    call("dump", write_graph(tmp_path), "--level", "llir", "--output", path, *INTERPRETER)
    report = json.loads(call("info", path, "--json", *INTERPRETER).stdout)
    assert {"mat_mul"} < {row["operator"] for row in report["operators"]}
    assert report["flops"] == 0


def test_memory_map(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "map.png"
    result = call("info", write_dense(tmp_path), "--memory-map", picture, *INTERPRETER)
    assert result.exit_code == 0, result.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    message = fails(
        "info", write_dense(tmp_path), "--memory-map", tmp_path / "no" / "map.png", *INTERPRETER
    )
    assert "there is no folder" in message


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "0"), (999, "999"), (1000, "1.00 k"), (4_089_184_256, "4.09 G"), (2.5e12, "2.50 T")],
)
def test_scaled(number: float, expected: str) -> None:
    assert scaled(number) == expected


def test_byte_count() -> None:
    assert [byte_count(n) for n in (0, 1023, 1024, 2**20, 3 * 2**30)] == [
        "0 B",
        "1023 B",
        "1.00 KiB",
        "1.00 MiB",
        "3.00 GiB",
    ]


def test_count_of() -> None:
    assert [count_of(n, "node") for n in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]


def test_kernels_are_listed_with_their_nodes(tmp_path: Path) -> None:
    model = write_dense(tmp_path)
    plain = call("info", model, *INTERPRETER).output
    listed = call("info", model, "--kernels", *INTERPRETER).output
    assert listed.startswith(plain)
    title, head, row = listed.removeprefix(plain).split("\n", 1)[1].splitlines()[:3]
    assert title.strip() == "instructions"
    assert head.split() == ["number", "family", "nodes", "of", "the", "model"]
    report = json.loads(call("info", model, "--json", *INTERPRETER).stdout)
    nodes = [name for row in report["instructions"] for name in row["nodes"]]
    assert {"product", "y"} <= set(nodes)
    assert row.split()[:2] == ["0", report["instructions"][0]["family"]]


def test_nothing_is_compiled_unless_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_dense(tmp_path)
    compiled = call("info", model, "--compile", *INTERPRETER).output
    assert "kernels" in compiled

    def refuse(*arguments: object, **options: object) -> None:
        raise OptionError("compiled")

    monkeypatch.setattr(glow_nb, "compile", refuse)
    output = call("info", model).output
    assert output.endswith("\nnot compiled; --compile shows memory and kernels, too\n")
    assert "arena" not in output
    facts = ("input x", "output y", "parameters", "multiply-adds", "FLOPs")
    for line in compiled.splitlines():
        if line.startswith(facts):
            assert line in output.splitlines()
    rows = [line.split() for line in output.splitlines()]
    assert ["mat_mul", "1", "72", "0", "85.7", "%"] in rows
    report = json.loads(call("info", model, "--json").stdout)
    assert report["flops"] == 168
    assert "arena_bytes" not in report
    for asking in (("--compile",), ("--kernels",), ("--memory-map", "map.png"), ("--threads", 1)):
        assert fails("info", model, *asking) == "Error: compiled\n"


def test_open_sizes_are_shown_with_what_does_not_depend_on_them(tmp_path: Path) -> None:
    result = call("info", write_dense(tmp_path, "batch"))
    assert result.exit_code == 0, result.output
    facts = dict(line.split("  ", 1) for line in result.output.splitlines() if "  " in line)
    facts = {name: value.strip() for name, value in facts.items()}
    assert facts["input x"] == "float32<batch x 3>"
    assert facts["output y"] == "float32<batch x 12>"
    assert facts["size batch"] == "dimension 0 of x"
    assert facts["one program"] == "for any batch"
    assert facts["parameters"] == "36 (144 B)"
    assert (facts["MatMul"], facts["Relu"]) == ("1", "1")
    assert "--shape NAME=SIZE fixes one" in result.output


def test_parameters_are_as_many_for_open_sizes_as_for_given_ones(tmp_path: Path) -> None:
    """The import adds zeros for the bias that is not there; shapes are no parameters."""
    path, text = tmp_path / "model.onnx", tmp_path / "model.glow"
    filter = weight("filter", np.ones((8, 4, 1, 1), np.float32))
    scale = numpy_helper.from_array(np.ones((3, 1), np.float32))
    nodes = [
        helper.make_node("Conv", ["x", "filter"], ["c"]),
        helper.make_node("Constant", [], ["scale"], value=scale),
        helper.make_node("Mul", ["c", "scale"], ["m"]),
        helper.make_node("Reshape", ["m", "shape"], ["y"]),
    ]
    given = [filter, weight("shape", np.array([-1, 24])), weight("unused", np.float32(1))]
    onnx.save(model(nodes, [value("x", ("batch", 4, 3, 1))], weights=given), path)
    for options in ((), ("--shape", "batch=2"), ("--size", "batch=1..4")):
        report = json.loads(call("info", path, *options, "--json").stdout)
        assert (report["parameters"], report["parameter_bytes"]) == (35, 140), options
    dumped = call("dump", path, "--shape", "batch=2", "--after", "import", "--output", text)
    assert dumped.exit_code == 0, dumped.output
    assert json.loads(call("info", text, "--json").stdout)["parameters"] == 32


def test_open_sizes_as_json(tmp_path: Path) -> None:
    report = json.loads(call("info", write_dense(tmp_path, "batch"), "--json").stdout)
    assert report["inputs"] == {"x": "float32<batch x 3>"}
    assert report["sizes"] == {"batch": "dimension 0 of x"}
    assert (report["parameters"], report["parameter_bytes"]) == (36, 144)
    assert report["operators"] == [
        {"operator": "MatMul", "imported": 1},
        {"operator": "Relu", "imported": 1},
    ]


def test_sizes_for_which_one_program_is_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    inputs = [value("x", ("batch", 4)), value("z", ("batch", 4))]
    nodes = [
        helper.make_node("Add", ["x", "z"], ["a"]),
        helper.make_node("Reshape", ["a", "shape"], ["y"]),
    ]
    onnx.save(model(nodes, inputs, weights=[weight("shape", np.array([-1, 8]))]), path)
    report = json.loads(call("info", path, "--json").stdout)
    assert report["sizes"] == {"batch": "dimension 0 of x, z"}
    assert report["fitting"] == {"batch": "2, 4, 6, ..."}
    shown = call("info", path, "--size", "batch=2..9").output
    assert "for batch in 2..9" in shown and "so batch is" in shown and "2, 4, 6, ..." in shown


def test_open_sizes_of_unknown_rank_and_without_names(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    inputs = [value("x", None), value("z", ("?", None, 3))]
    body = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["r"])], "b", [], [helper.make_empty_tensor_value_info("r")]
    )
    nodes = [
        helper.make_node("If", ["c"], ["a"], then_branch=body, else_branch=body),
        helper.make_node("Add", ["a", "z"], ["y"]),
    ]
    onnx.save(model(nodes, inputs, weights=[weight("c", np.array(True))]), path)
    report = json.loads(call("info", path, "--json").stdout)
    assert report["sizes"] == {
        "x": "any number of dimensions",
        "z[0]": "dimension 0 of z",
        "z[1]": "dimension 1 of z",
    }
    assert {row["operator"]: row["imported"] for row in report["operators"]} == {
        "Neg": 2,
        "Add": 1,
        "If": 1,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--size", "rows=1..2"), "no open size of this name"),
        (("--hint", "batch=0"), "outside the range 1.."),
        (("--size", "batch=1..2", "--hint", "batch=3"), "outside the range 1..2"),
        (("--shape", "other=2", "--size", "other=1..9"), "both speak of 'other'"),
    ],
)
def test_wrong_ranges_are_errors_and_no_facts_about_the_model(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    """Two sizes are open, so that one is left beside one that is given."""
    path = tmp_path / "relu.onnx"
    relu = helper.make_node("Relu", ["x"], ["y"])
    onnx.save(model([relu], [value("x", ("batch", "other"))]), path)
    assert message in fails("info", path, *options)


def test_a_program_for_all_sizes_is_compiled(tmp_path: Path) -> None:
    path = write_dense(tmp_path, "batch")
    output = call(
        "info", path, "--compile", "--size", "batch=1..9", "--hint", "batch=4", *INTERPRETER
    ).output
    assert re.search(r"one program +for batch in 1\.\.9\n", output)
    assert re.search(r"compiled for +interpreter", output) and "mat_mul" in output
    assert "multiply-adds" in call("info", path, "--shape", "batch=2").output
    message = fails("info", path, "--shape", "batch=2", "--size", "batch=1..9")
    assert "its sizes are fixed; leave --size ['batch'] out" in message


def test_sizes_that_are_numbers_in_one_program_are_listed_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    own = weight("w", np.ones(5, np.float32))
    onnx.save(model(nodes, [value("x", ("batch", "n"))], weights=[own]), path)
    report = json.loads(call("info", path, "--json").stdout)
    assert report["program"] == "any batch" and "n" in report["specialized"]
    assert report["specialized"]["n"].startswith("5: ")
    assert re.search(r"a number for n +5: ", call("info", path).output)


def test_text_with_open_sizes_is_told_and_bound(tmp_path: Path) -> None:
    path = tmp_path / "open.glow"
    path.write_text(
        "func @main<n in 1..64 like 8>(%x : float32<n x 4>) -> (%y : float32<n x 4>) {\n"
        "  %t = tanh(%x) : float32<n x 4>\n  %y_save = save(%t, %y)\n}\n"
    )
    assert re.search(r"one program +for n in 1\.\.64\n", call("info", path).output)
    assert "float32<3 x 4>" in call("info", path, "--shape", "n=3").output
    assert "has no size 'm'" in fails("info", path, "--shape", "m=3")
    assert "float32<3 x 4>" in call("dump", path, "--shape", "n=3").output


def test_defaults_do_not_leave_sizes_open(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"])]
    own = weight("w", np.ones(3, np.float32))
    onnx.save(model(nodes, [value("x"), value("w", (3,))], weights=[own]), path)
    output = call("info", path, *INTERPRETER).output
    assert "multiply-adds" in output
