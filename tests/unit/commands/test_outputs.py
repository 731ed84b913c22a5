"""Outputs that cannot be written are refused before any work begins."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from glow_nb.base.errors import bounded
from glow_nb.cli import main
from glow_nb.commands.outputs import OutputPath
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.ops import Relu
from glow_nb.network.files import save_text
from tests.unit.commands.samples import fails

OUTPUTS = [
    (name, option.opts[0])
    for name, command in main.commands.items()
    for option in command.params
    if isinstance(option.type, OutputPath)
]

NEEDED = {
    "calibrate": "--samples d.npz --output r.yaml",
    "export": "--output m.onnx",
    "opt": "--passes lower",
    "partition": "--devices d.yaml",
    "quantize": "--output q.onnx",
    "train": "--data d.npz --loss squares --epochs 1 --output t.onnx",
}
"""What commands ask for; none of the files is there, so that work that begins fails otherwise."""


def refused(command: str, option: str, path: Path) -> str:
    """Return what *command* says when *option* is to be written to *path*."""
    return fails(command, "no.onnx", *NEEDED.get(command, "").split(), option, path)


def test_all_files_that_are_written_are_outputs() -> None:
    names = {
        (name, option.opts[0])
        for name, command in main.commands.items()
        for option in command.params
        if isinstance(option, click.Option)
        if option.opts[0] in {"--output", "--save", "--plot", "--picture", "--checkpoint"}
    }
    assert names - {("build", "--output")} <= set(OUTPUTS)  # but for a folder


@pytest.mark.parametrize(("command", "option"), OUTPUTS)
def test_a_missing_folder_is_refused(command: str, option: str, tmp_path: Path) -> None:
    path = tmp_path / "no" / "file"
    message = f"{option} {path}: there is no folder {path.parent}; make it, or choose another one"
    assert refused(command, option, path) == f"Error: {message}\n"


@pytest.mark.parametrize(("command", "option"), OUTPUTS)
def test_a_folder_in_the_place_of_a_file_is_refused(
    command: str, option: str, tmp_path: Path
) -> None:
    message = f"{tmp_path}: not a regular file; give the path of a new or existing file"
    assert refused(command, option, tmp_path) == f"Error: {message}\n"


def test_a_device_is_refused() -> None:
    message = "--json /dev/no_device: it is a device or a stream; give the path of a file"
    assert refused("profile", "--json", Path("/dev/no_device")) == f"Error: {message}\n"


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 64)  # who may write everywhere cannot write this
    message = bounded(f"{path}: cannot be written: File name too long")
    assert refused("run", "--save", path) == f"Error: {message}\n"


def test_an_output_that_leads_to_the_model_is_refused(tmp_path: Path) -> None:
    b = Builder()
    b.save(b.emit(Relu(b.input("x", "float32<3>"))), "y")
    model, link = tmp_path / "model.glow", tmp_path / "out.glow"
    save_text(b.function(), model)
    link.symlink_to(model)
    for source, output in ((model, link), (link, model)):
        message = fails("dump", source, "--output", output)
        assert f"it would replace {model}, the file of MODEL" in message
