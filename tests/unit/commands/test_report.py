"""``glow-nb report``: pages of networks, and of two of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from glow_nb.report.data import Report
from glow_nb.report.page import read_page
from tests.unit.commands.samples import call, fails, write_dense, write_graph

QUICK = ("--backend", "interpreter", "--threads", 1, "--runs", 0)


def page(path: Path, *arguments: object) -> Report:
    result = call("report", *arguments, *QUICK, "--output", path)
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines()[-1] == f"wrote {path}"
    return read_page(path)


def test_a_model_becomes_a_page(tmp_path: Path) -> None:
    model = write_dense(tmp_path)
    report = page(tmp_path / "report.html", model, "--title", "a <title>")
    (one,) = report.compilations
    assert one.title == "a <title>"
    facts = dict(one.facts)
    assert facts["file"] == model.name
    assert facts["options"] == "--backend interpreter --threads 1"


def test_the_path_of_a_model_is_not_among_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = write_dense(tmp_path)
    (one,) = page(tmp_path / "report.html", f"./{model.name}").compilations
    assert dict(one.facts)["options"] == "--backend interpreter --threads 1"


def test_options_of_another_compilation_come_behind_those_of_the_line(tmp_path: Path) -> None:
    model = write_dense(tmp_path)
    more = ("--without", "fold_constants", "--against-options", "--without '' --precision bfloat16")
    report = page(tmp_path / "report.html", model, *more)
    assert report.comparison is not None
    (one, other) = report.compilations
    assert one.title == f"{model.stem} with --without '' --precision bfloat16"
    assert other.title == f"{model.stem} with --without fold_constants"
    assert dict(one.facts)["precision"] == "bfloat16"
    assert dict(other.facts)["precision"] == "float32"
    assert dict(other.facts)["options"].startswith("--without fold_constants --backend")
    assert "bfloat16" not in dict(other.facts)["options"]
    assert dict(one.facts)["options"].endswith("--precision bfloat16")
    names = [{row.name for row in each.parts[0].passes} for each in (one, other)]
    assert ["fold_constants" in each for each in names] == [True, False]


def test_another_model_or_an_earlier_page_is_compared_with(tmp_path: Path) -> None:
    model, graph = write_dense(tmp_path), write_graph(tmp_path)
    before, after = tmp_path / "before.html", tmp_path / "after.html"
    assert [c.title for c in page(before, model, "--against", graph).compilations] == [
        graph.stem,
        model.stem,
    ]
    report = page(after, graph, "--against", before)
    assert [c.title for c in report.compilations] == [model.stem, graph.stem]
    again = page(tmp_path / "again.html", model, "--against", before)
    assert [c.title for c in again.compilations] == [f"{model.stem} in before.html", model.stem]


@pytest.mark.parametrize("options", [(), ("--shape", "n=2"), ("--shape", "x=2x3")])
def test_models_share_the_sizes_that_one_of_them_leaves_open(
    tmp_path: Path, options: tuple[object, ...]
) -> None:
    opened, fixed = tmp_path / "open", tmp_path / "fixed"
    opened.mkdir()
    fixed.mkdir()
    one, other = write_dense(opened, "n"), write_dense(fixed, 2)
    for pair in ((one, "--against", other), (other, "--against", one)):
        report = page(tmp_path / "report.html", *pair, *options)
        assert [dict(each.facts)["input x"] for each in report.compilations] == [
            "float32<2 x 3>",
            "float32<2 x 3>",
        ]
    more = (*QUICK, "--output", tmp_path / "report.html", "--shape", "m=2")
    assert "no symbolic dimension 'm'" in fails("report", one, "--against", other, *more)


def test_programs_have_pages(tmp_path: Path) -> None:
    program = tmp_path / "program.glow"
    dumped = call("dump", write_graph(tmp_path), "--level", "llir", "--output", program)
    assert dumped.exit_code == 0, dumped.output
    (one,) = page(tmp_path / "report.html", program).compilations
    missing = {stage.key: bool(stage.missing) for stage in one.parts[0].stages}
    assert missing["lowered"]
    assert not missing["program"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none.onnx",), "none.onnx"),
        (("MODEL", "--against", "none.onnx"), "none.onnx"),
        (("MODEL", "--against", "none.html"), "none.html: cannot be read"),
        (("MODEL", "--against", "none.html", "--against-options", "--threads 2"), "is a page"),
        (("MODEL", "--against-options", "'"), '--against-options "\'": No closing quotation'),
        (("MODEL", "--against-options", "--title both"), "belong outside of the quotes"),
        (("MODEL", "--against-options", "--output b.html"), "belong outside of the quotes"),
        (("MODEL", "--input", "q=none.npy"), "q"),
    ],
)
def test_what_is_wrong_is_one_error(
    tmp_path: Path, arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = write_dense(tmp_path)
    given = [str(model) if one == "MODEL" else one for one in arguments]
    assert said in fails("report", *given, *QUICK, "--output", "report.html")
    assert not Path("report.html").exists()


def test_options_that_do_not_exist_are_named(tmp_path: Path) -> None:
    model = write_dense(tmp_path)
    more = ("--against-options", "--speed 3", "--output", tmp_path / "report.html")
    assert "--against-options '--speed 3': No such" in fails("report", model, *QUICK, *more, code=2)
    help = ("--against-options", "--help", "--output", tmp_path / "report.html")
    assert "--against-options '--help': No such" in fails("report", model, *QUICK, *help, code=2)
    two = ("--against-options", "other.onnx", "--output", tmp_path / "report.html")
    fails("report", model, *QUICK, *two, code=2)


@pytest.mark.parametrize(
    ("options", "said", "code"),
    [
        ("--threads 0", "'--threads': 0 is not in the range", 2),
        ("--without nothing", "without: no pass 'nothing'", 1),
        ("--shape n=4", "n", 1),
    ],
)
def test_an_error_names_the_options_that_it_comes_from(
    tmp_path: Path, options: str, said: str, code: int
) -> None:
    more = ("--against-options", options, "--output", tmp_path / "report.html")
    message = fails("report", write_dense(tmp_path), *QUICK, *more, code=code)
    assert f"Error: --against-options '{options}': " in message and said in message
