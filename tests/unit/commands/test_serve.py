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


def test_models_that_cannot_be_loaded_are_an_error(files: tuple[Path, list[str]]) -> None:
    pytest.importorskip("uvicorn", reason="the server needs uvicorn")
    folder, arguments = files
    (folder / "double.glow").write_text("func", encoding="utf-8")
    assert "double.glow:1:" in error_of(arguments)
    (folder / "double.glow").unlink()
    assert "there is no model; a folder has NAME.onnx" in error_of(arguments)


def test_requests_are_served_until_the_server_is_stopped(
    files: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("uvicorn", reason="the server needs uvicorn")
    import uvicorn

    def stop(server: uvicorn.Server, **_: object) -> None:
        server.should_exit = True

    monkeypatch.setattr(uvicorn.Server, "run", stop)
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
    assert "Warning: anybody who reaches 0.0.0.0 may use the server" in result.output
