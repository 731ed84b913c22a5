"""Errors in lower precision: what is computed of the outputs of engines."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest

from experiments.benchmarks import accuracy_of_bits
from glow_nb.base.types import Array
from glow_nb.tools.duel.engines import Arrays, OpenedEngine
from glow_nb.tools.duel.reference import truth_of
from tests.unit.commands.samples import write_dense


def test_errors_are_relative_and_of_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(
        engine: str, path: str, threads: int, options: object, *, precision: str
    ) -> OpenedEngine:
        factor = 1.0 if precision == "float32" else 1 + 2.0**-8

        def run(feeds: Arrays) -> list[Array]:
            exact = truth_of(onnx.load(path), feeds).values()
            return [factor * output for output in exact]

        return OpenedEngine(run, "float32" if engine == "openvino" else precision)

    monkeypatch.setattr(accuracy_of_bits, "open_engine", opened)
    engines = {
        f"{engine} {precision}": lambda path, asked=(engine, precision): accuracy_of_bits.of_floats(
            path, *asked
        )
        for engine, precision in (
            ("glow_nb", "float32"),
            ("glow_nb", "bfloat16"),
            ("openvino", "bfloat16"),
        )
    }
    monkeypatch.setattr(accuracy_of_bits, "ENGINES", engines)
    full, fewer, refused = accuracy_of_bits.errors_of(onnx.load(write_dense(tmp_path)))
    assert full == 0
    assert np.isclose(fewer, 2.0**-8, rtol=1e-6)
    assert math.isnan(refused)
