"""The picture of a quantized graph, at sizes that take no time."""

from __future__ import annotations

from pathlib import Path

import pytest

import glow_nb
from glow_nb.hlir.ops import Convolution, QuantizedConvolution, Relu


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    from experiments.figures import figure5_quantized_graph

    for name, size in (("PIXELS", 4), ("NARROW", 4), ("WIDE", 8)):
        monkeypatch.setattr(figure5_quantized_graph, name, size)


def test_conversions_and_relu_become_part_of_the_convolutions() -> None:
    from experiments.figures.figure5_quantized_graph import (
        boxes_of,
        convolutions,
        quantized,
        side_by_side,
    )

    before = quantized(convolutions())
    after = glow_nb.optimize(before)
    counts = [
        [sum(isinstance(node, kind) for node in function) for function in (before, after)]
        for kind in (Convolution, Relu, QuantizedConvolution)
    ]
    assert counts == [[3, 0], [2, 0], [0, 3]]
    titles = [box.title for box in boxes_of(before).boxes.values()]
    assert [titles.count(name) for name in ("filter", "bias", "dequantize linear")] == [3, 3, 0]
    titles = [box.title for box in boxes_of(after).boxes.values()]
    assert sorted(titles) == sorted(
        ["x", "quantize", "y", *3 * ["quantized convolution", "filter", "bias"]]
    )
    colours = {box.title: box.colour for box in side_by_side((before, after)).boxes.values()}
    assert colours["quantized convolution"] == colours["convolution"]


def test_the_picture_and_both_graphs_are_written(tmp_path: Path) -> None:
    from experiments.figures.figure5_quantized_graph import main

    main(["--output", str(tmp_path / "five.png")])
    assert {path.name for path in tmp_path.iterdir()} == {
        "five.png",
        "five_before.dot",
        "five_after.dot",
    }
