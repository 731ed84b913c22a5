"""Commands that are asked for a picture check that they can draw it before they work."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.unit.commands.samples import fails


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("quantize --ranges no.yaml --output new.onnx --samples no.npz", "--picture"),
        ("profile", "--roofline"),
        ("info", "--memory-map"),
        ("partition --devices no.yaml", "--plot"),
    ],
)
def test_a_missing_package_is_told_before_files_are_read(
    command: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in ("no.onnx", "no.yaml", "no.npz"):
        Path(name).write_bytes(b"")  # reading it would be the first error
    name, *options = command.split()
    message = fails(name, "no.onnx", *options, option, "picture.png")
    assert f"{option}: matplotlib is not installed; pip install matplotlib pillow" in message
    assert not Path("new.onnx").exists() and not Path("picture.png").exists()
