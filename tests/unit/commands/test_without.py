"""Passes that commands leave out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import glow_nb
from glow_nb.cli import main
from glow_nb.hlir.ops import MatMul, Relu


@pytest.fixture
def model(tmp_path: Path) -> Path:
    builder = glow_nb.Builder("main")
    left = builder.constant("left", np.ones((3, 4), np.float32))
    right = builder.constant("right", np.ones((4, 5), np.float32))
    product = builder.emit(MatMul(left, right))
    x = builder.emit(Relu(builder.input("x", "float32<2 x 3>")))
    builder.save(builder.emit(MatMul(x, product)), "y")
    path = tmp_path / "model.glow"
    glow_nb.save_text(builder.function(), path)
    return path


def output_of(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("run",),
        ("info", "--kernels"),
        ("profile", "--runs", "1"),
        ("dump", "--level", "llir"),
        ("dump", "--after", "fold_constants"),
        ("dump", "--after-each-pass", "steps"),
        ("diff", "--pass", "lower"),
        ("bisect",),
    ],
    ids=" ".join,
)
def test_commands_refuse_what_is_no_pass(model: Path, arguments: tuple[str, ...]) -> None:
    command, *options = arguments
    given = (command, model, *options, "--backend", "interpreter", "--without", "no_such")
    assert "without: no pass 'no_such' would run" in output_of(*given, code=1)


def test_a_pass_that_is_left_out_changes_the_program(model: Path) -> None:
    usual = output_of("dump", model, "--level", "llir", "--backend", "interpreter")
    given = ("--backend", "interpreter", "--without", "fold_constants, stack_instructions")
    ablated = output_of("dump", model, "--level", "llir", *given)
    assert (usual.count("mat_mul @out"), ablated.count("mat_mul @out")) == (1, 2)
    assert "output y" in output_of("run", model, *given)
    text = output_of("dump", model, "--after", "fold_constants", *given, code=1)
    assert "there is no such step" in text


@pytest.mark.jit
def test_bench_refuses_what_is_no_pass(model: Path) -> None:
    assert "no pass 'no_such' would run" in output_of(
        "bench", model, "--without", "no_such", code=1
    )
