"""Bundles that are refused, or replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import glow_nb
from glow_nb.base.errors import (
    CompileError,
    GlowError,
    OptionError,
    UnsupportedError,
)
from tests.unit.bundle.bundles import (
    needs_elf,
)
from tests.unit.network.saved.models import dense_model

pytestmark = [needs_elf, pytest.mark.jit]


@pytest.fixture(scope="module")
def net() -> glow_nb.Network:
    return glow_nb.compile(dense_model(), threads=1)


@pytest.mark.parametrize("name", ["resnet-50", "", "string", "1a"])
def test_a_bad_name_is_refused(net: glow_nb.Network, tmp_path: Path, name: str) -> None:
    with pytest.raises(OptionError, match="name="):
        net.build(tmp_path / "out", name=name)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_else_is_refused(net: glow_nb.Network, tmp_path: Path) -> None:
    net.build(tmp_path / "out", name="dense")
    (tmp_path / "out" / "mine.txt").write_text("keep me")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "manifest.json").write_text('{"format": "something"}')
    (tmp_path / "file").write_text("")
    for place in ("other", "file"):
        with pytest.raises(OptionError, match="is no folder with a bundle"):
            net.build(tmp_path / place, name="dense")
    (tmp_path / "out" / "result_output_0.npy").write_bytes(b"")
    message = r"no part of the bundle: mine\.txt, result_output_0\.npy; move that"
    with pytest.raises(OptionError, match=message):
        net.build(tmp_path / "out", name="dense")
    assert (tmp_path / "out" / "mine.txt").exists()


def test_a_folder_that_cannot_be_made_is_told_before_anything_is_compiled(tmp_path: Path) -> None:
    with pytest.raises(GlowError, match=r"out: cannot be written: there is no folder .*absent"):
        glow_nb.build("no model", tmp_path / "absent" / "out", name="net")
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked").chmod(0o500)
    if not os.access(tmp_path / "locked", os.W_OK):  # root may always write
        with pytest.raises(GlowError, match="may not be written to"):
            glow_nb.build("no model", tmp_path / "locked" / "out", name="net")


def test_a_bundle_is_replaced_as_a_whole_or_stays(
    net: glow_nb.Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    net.build(folder, name="first")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(*_: object) -> str:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("glow_nb.bundle.writing.header_of", lambda *_, **__: fail())
        with pytest.raises(GlowError, match="No space left"):
            net.build(folder, name="second")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    net.build(folder, name="second")
    assert not (folder / "first.h").exists() and (folder / "second.h").exists()


def test_a_backend_without_machine_code_is_refused(tmp_path: Path) -> None:
    net = glow_nb.compile(dense_model(), backend="interpreter")
    with pytest.raises(UnsupportedError, match="no machine code"):
        net.build(tmp_path / "out")
    with pytest.raises(UnsupportedError, match="no machine code"):
        glow_nb.build(dense_model(), tmp_path / "out", backend="interpreter", cpu="x86-64-v2")


def test_a_shared_library_without_a_c_compiler_is_refused(
    net: glow_nb.Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(UnsupportedError, match="takes a C compiler, and there is no 'no-such"):
        net.build(tmp_path / "out", shared=True)
    monkeypatch.setenv("CC", "false")
    with pytest.raises(CompileError, match="does not link"):
        net.build(tmp_path / "out", shared=True)
    monkeypatch.setenv("CC", "true")
    with pytest.raises(CompileError, match="true: it does not link the library: it ends with 0"):
        net.build(tmp_path / "out", shared=True)
    monkeypatch.setenv("CC", "cc '-O2")
    with pytest.raises(OptionError, match="CC=.*: no command"):
        net.build(tmp_path / "out", shared=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("wrong", [{"cpu": 5}, {"cpu": None}, {"target": ["x86"]}, {"target": ""}])
def test_what_names_no_processor_is_refused(
    net: glow_nb.Network, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        net.build(tmp_path / "out", **wrong)


def test_neither_the_current_folder_nor_a_path_too_long_is_written(
    net: glow_nb.Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for place in (".", tmp_path):
        with pytest.raises(OptionError, match="is the current folder"):
            net.build(place)
    with pytest.raises(GlowError, match="cannot be written: File name too long"):
        net.build("x" * 300)
    assert not list(tmp_path.iterdir())
