"""The picture of a quantized graph, at sizes that take no time."""

from __future__ import annotations

from pathlib import Path

import pytest

import glow_nb
from experiments.figures import figure5_quantized_graph
from glow_nb.hlir.ops import Convolution, QuantizedConvolution, Relu


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("PIXELS", 4), ("NARROW", 4), ("WIDE", 8)):
        monkeypatch.setattr(figure5_quantized_graph, name, size)


def test_conversions_and_relu_become_part_of_the_convolutions() -> None:
    before = figure5_quantized_graph.quantized(figure5_quantized_graph.convolutions())
    after = glow_nb.optimize(before)
    counts = [
        [sum(isinstance(node, kind) for node in function) for function in (before, after)]
        for kind in (Convolution, Relu, QuantizedConvolution)
    ]
    assert counts == [[3, 0], [2, 0], [0, 3]]


def test_both_graphs_are_written(tmp_path: Path) -> None:
    figure5_quantized_graph.main(["--folder", str(tmp_path)])
    written = {path.name for path in tmp_path.iterdir()}
    assert {"figure5_before.dot", "figure5_after.dot"} <= written
