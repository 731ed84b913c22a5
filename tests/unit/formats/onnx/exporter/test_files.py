"""Exported files: replaced as a whole, with large constants beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import glow_nb
from glow_nb.base.errors import (
    GlowError,
    MemoryLimitError,
    OptionError,
    UnsupportedError,
)
from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.exporter import files
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from tests.unit.formats.onnx.exporter.exported import dense, of


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_text("what was there")
    model = glow_nb.export_onnx(dense(), path)
    assert onnx.load(path) == model
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.onnx"]


def test_a_file_that_cannot_be_written_stays(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.mkdir()
    with pytest.raises(GlowError, match="not a regular file"):
        glow_nb.export_onnx(dense(), path)
    with pytest.raises(GlowError, match="cannot be written"):
        glow_nb.export_onnx(dense(), tmp_path / "missing" / "model.onnx")
    with pytest.raises(OptionError, match="is no path"):
        glow_nb.export_onnx(dense(), "")
    assert path.is_dir()


def test_a_failed_export_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_text("what was there")
    with pytest.raises(UnsupportedError):
        glow_nb.export_onnx(of(ops.BitCast, "float32<4>", kind=ElementKind.INT32), path, opset=20)
    assert path.read_text() == "what was there"


def large() -> Function:
    """Return a function with a constant that does not fit where the limit is 4 KiB."""
    b = Builder("large")
    x = b.input("x", "float32<1 x 2048>")
    weights = np.arange(2048, dtype=np.float32).reshape(1, 2048)
    small = b.constant("small", np.full((1, 1), 2, np.float32))
    b.save(b.emit(ops.Mul(b.emit(ops.Add(x, b.constant("w", weights))), small)), "y")
    return b.function()


def test_constants_beyond_the_limit_go_to_a_file_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_MESSAGE_BYTES", 4096)
    path = tmp_path / "model.onnx"
    model = glow_nb.export_onnx(large(), path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    onnx.checker.check_model(str(path), full_check=True)
    places = {t.name: t.data_location for t in model.graph.initializer}
    assert places == {"w": onnx.TensorProto.EXTERNAL, "small": onnx.TensorProto.DEFAULT}
    feeds = {"x": np.ones((1, 2048), np.float32)}
    expected = evaluate(large(), feeds)["y"]
    session = onnxruntime.InferenceSession(path)
    np.testing.assert_array_equal(session.run(None, feeds)[0], expected)
    np.testing.assert_array_equal(evaluate(import_onnx(path), feeds)["y"], expected)


def test_constants_beyond_the_limit_need_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_MESSAGE_BYTES", 4096)
    with pytest.raises(MemoryLimitError, match="8196 bytes, and an ONNX model in one piece"):
        glow_nb.export_onnx(large())
