"""``glow-nb build``: what it writes, and what it says of bad arguments."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.unit.bundle.bundles import needs_elf
from tests.unit.commands.samples import call
from tests.unit.network.saved.models import dense_model

pytestmark = [needs_elf, pytest.mark.jit]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "dense-1.onnx"
    onnx.save(dense_model(), path)
    return path


def test_it_writes_a_bundle_that_is_called_like_the_file(model: Path, tmp_path: Path) -> None:
    done = call("build", model, "--output", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "function dense_1_run: 1 input, 1 output" in done.output
    assert (tmp_path / "out" / "dense_1.h").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--name", "a-b"), "no identifier of C"),
        (("--target", "x86_64-linux"), "bundles are made for ['x86_64-unknown-linux-gnu', 'aarch"),
        (("--cpu", "haswel"), "did you mean 'haswell'?"),
        (("--target", "aarch64-unknown-linux-gnu", "--cpu", "haswell"), "no processor of aarch64"),
        (("--backend", "interpreter"), "no machine code"),
        (("--cpu", "x86-64-v2", "--tune"), "tune: it measures on this machine"),
    ],
)
def test_bad_arguments_are_told(
    model: Path, tmp_path: Path, arguments: tuple[str, ...], problem: str
) -> None:
    done = call("build", model, "--output", tmp_path / "out", *arguments)
    assert done.exit_code != 0
    assert problem in " ".join(done.output.split()), done.output
    assert not (tmp_path / "out").exists()


def test_help_says_that_runs_are_for_one_thread() -> None:
    assert "[default: 1]" in call("build", "--help").output


def test_help_says_that_the_interpreter_has_no_code_to_build() -> None:
    text = " ".join(call("build", "--help").output.split())
    assert "has no machine code: give cpu" in text


@pytest.fixture
def open_model(tmp_path: Path) -> Path:
    model = dense_model()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    onnx.save(model, tmp_path / "open.onnx")
    return tmp_path / "open.onnx"


def test_open_sizes_are_told_by_runs_in_the_ranges_of_options(
    open_model: Path, tmp_path: Path
) -> None:
    options = ("--size", "batch=1..16", "--hint", "batch=4")
    done = call("build", open_model, "--output", tmp_path / "out", *options)
    assert "size batch: 1 to 16" in done.output
    assert "#define OPEN_SIZE_0_GREATEST 16" in (tmp_path / "out" / "open.h").read_text()
    done = call("build", open_model, "--output", tmp_path / "out", "--shape", "batch=2")
    assert "size batch" not in done.output
    assert "#define OPEN_RUN_INPUT_0_BYTES" in (tmp_path / "out" / "open.h").read_text()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--size", "batch=1"), "is not NAME=LEAST..GREATEST"),
        (("--size", "batch=9..2"), "the range holds no size"),
        (("--size", "rows=1..2"), "no open size of this name"),
        (("--size", "batch=1..2", "--size", "batch=1..3"), "it is given twice"),
        (("--hint", "batch=x"), "is not NAME=SIZE"),
        (("--size", "batch=1..2", "--hint", "batch=3"), "outside the range 1..2"),
    ],
)
def test_ranges_that_mean_nothing_are_told(
    open_model: Path, tmp_path: Path, options: tuple[str, ...], problem: str
) -> None:
    done = call("build", open_model, "--output", tmp_path / "out", *options)
    assert done.exit_code != 0
    assert problem in " ".join(done.output.split()), done.output
