"""``glow-nb serve``: what it does before it answers requests, and without what it needs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import glow_nb
from glow_nb.cli import main
from tests.unit.runtime.small_networks import scaled

DEVICES = "devices: [{name: one, kind: interpreter}]"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, list[str]]:
    """Return a folder with a model, and the arguments to serve it on any port."""
    models, devices = tmp_path / "models", tmp_path / "devices.yaml"
    models.mkdir()
    glow_nb.save_text(scaled(2.0), models / "double.glow")
    devices.write_text(DEVICES, encoding="utf-8")
    return models, ["serve", str(models), "--devices", str(devices), "--port", "0"]


def error_of(arguments: list[str]) -> str:
    """Return what the command says when it fails."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1, result.output
    return result.output


def test_the_extra_is_named_where_it_is_missing(
    files: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert error_of(files[1]) == (
        "Error: serve: starlette is not installed; "
        "pip install prometheus-client starlette uvicorn\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file or directory; check the path"),
        ("", "must hold one line, without spaces: the token"),
        ("two words", "must hold one line, without spaces: the token"),
        ("schlüssel", "the token must be of ASCII letters; make another one"),
    ],
)
def test_a_wrong_token_file_is_an_error(
    files: tuple[Path, list[str]], tmp_path: Path, text: str | None, message: str
) -> None:
    pytest.importorskip("uvicorn", reason="the server needs uvicorn")
    token = tmp_path / "token"
    if text is not None:
        token.write_text(text, encoding="utf-8")
    assert message in error_of([*files[1], "--token-file", str(token)])


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--address", "a..b", "a..b:0: cannot listen: "),
        (
            "--max-bodies",
            "127",
            "--max-bodies=127: must be at least 128, twice --max-body, as a com",
        ),
    ],
)
def test_a_value_that_no_request_could_be_answered_with_is_an_error(
    files: tuple[Path, list[str]], option: str, value: str, message: str
) -> None:
    pytest.importorskip("uvicorn", reason="the server needs uvicorn")
    assert message in error_of([*files[1], option, value])


def test_passes_that_cannot_be_left_out_are_an_error(files: tuple[Path, list[str]]) -> None:
    text = error_of([*files[1], "--without", "fold_constants,no_such_pass"])
    assert "without: no pass 'no_such_pass' would run" in text


def test_models_that_cannot_be_loaded_are_an_error(files: tuple[Path, list[str]]) -> None:
    pytest.importorskip("uvicorn", reason="the server needs uvicorn")
    folder, arguments = files
    (folder / "double.glow").write_text("func", encoding="utf-8")
    assert "double.glow:1:" in error_of(arguments)
    (folder / "double.glow").unlink()
    assert "there is no model; a folder has NAME.onnx" in error_of(arguments)


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each server stop before it answers a request."""
    uvicorn = pytest.importorskip("uvicorn", reason="the server needs uvicorn")
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)


@pytest.mark.usefixtures("stopping")
def test_what_is_served_is_said(files: tuple[Path, list[str]]) -> None:
    from tests.unit.runtime.serve.onnx_models import scaling

    folder, arguments = files
    for version in ("1", "3"):
        (folder / "net" / version).mkdir(parents=True)
        scaling(folder / "net" / version / "model.onnx", 2.0, ("batch", "width"))
    (folder / "net" / "config.pbtxt").touch()
    lines = CliRunner().invoke(main, [*arguments, "--shape", "width=2"]).output.splitlines()
    types = "x: float32<batch x 2> -> y: float32<batch x 2>"
    rows = "requests of 1 to 256 rows, which run as they are"
    assert lines[:4] == [
        f"double, version 1: {types.replace('batch', '1')}; requests of exactly these sizes",
        f"net, version 1: {types}; {rows}",
        f"net, version 3: {types}; {rows}",
        "net: config.pbtxt is ignored; options of this command say how models are served",
    ]
    assert lines[4].startswith("serving double, net on http://127.0.0.1:")
    batched = ["--shape", "width=2", "--max-batch", "2", "--max-rows", "5"]
    output = CliRunner().invoke(main, [*arguments, *batched]).output
    assert f"{types}; requests of 1 to 5 rows, which run up to 2 together" in output


@pytest.mark.usefixtures("stopping")
def test_models_take_the_sizes_and_constants_that_they_have(
    files: tuple[Path, list[str]],
) -> None:
    from tests.unit.runtime.serve.onnx_models import scaling

    folder, arguments = files
    scaling(folder / "net.onnx", 2.0, ("batch", 2))
    result = CliRunner().invoke(main, [*arguments, "--shape", "batch=3"])
    assert "net, version 1: x: float32<3 x 2> -> y: float32<3 x 2>; " in result.output
    result = CliRunner().invoke(main, [*arguments, "--constant", "x=[[1,2]]"])
    assert "net, version 1: nothing -> y: float32<1 x 2>" in result.output
    for option, given in (("--shape", "batches=3"), ("--constant", "batches=3")):
        assert error_of([*arguments, option, given]) == (
            "Error: 'batches' is given by --shape, --constant, --size or --hint, but no model has "
            "an open size or an input of that name; did you mean 'batch'?; they have "
            "['batch', 'x']\n"
        )


@pytest.mark.usefixtures("stopping")
def test_requests_are_served_until_the_server_is_stopped(
    files: tuple[Path, list[str]], tmp_path: Path
) -> None:
    folder, arguments = files
    token = tmp_path / "token"
    token.write_text("secret\n", encoding="ascii")
    (folder / "broken.glow").write_text("func", encoding="utf-8")
    result = CliRunner().invoke(main, [*arguments, "--token-file", str(token)])
    assert result.exit_code == 0, result.output
    assert "Warning: not loaded: " in result.output
    assert "serving double on http://127.0.0.1:" in result.output
    assert result.output.endswith("stopped\n")
    assert "secret" not in result.output
    result = CliRunner().invoke(main, [*arguments, "--address", "0.0.0.0"])
    assert "Warning: everyone who can reach 0.0.0.0 can use the server" in result.output
