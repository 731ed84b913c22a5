"""Graphs as pictures, and the subgraph of the paper's Figure 7."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import GlowError, OptionError
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from glow_nb.hlir.verify import verify

drawn = pytest.importorskip("glow_nb.tools.plots.graph", exc_type=ImportError)
figure7 = pytest.importorskip("experiments.figures.figure7_resnet50_graph", exc_type=ImportError)


def residual() -> Function:
    """Return ``relu(x w + b) + x``, twice, with a name that is no word."""
    b = glow_nb.Builder("main")
    value: glow_nb.Value = b.emit(ops.Tanh(b.input("$x$ 中", "float32<4 x 4>")), "entry")
    for index in range(2):
        w = b.constant(f"w{index}", np.ones((4, 4), np.float32))
        product = b.emit(ops.Relu(b.emit(ops.MatMul(value, w))), f"branch{index}")
        value = b.emit(ops.Relu(b.emit(ops.Add(product, value), f"sum{index}")), f"out{index}")
    b.save(b.emit(ops.Split(value, axis=0, sizes=(1, 3))).results[1], "y")
    return b.function()


def test_every_node_and_constant_has_a_box() -> None:
    drawing = drawn.drawing_of(residual(), in_registers={"sum0"})
    titles = [box.title for box in drawing.boxes.values()]
    assert titles.count("mat mul") == titles.count("rhs") == 2
    assert titles.count("relu") == 4
    assert titles[-1] == "y"
    assert [source.name for source, _ in drawing.dashed] == ["sum0"]
    order = list(drawing.boxes)
    assert all(order.index(source) < order.index(target) for source, target in drawing.edges)
    assert "3 × 4" in drawing.edges.values()


def test_draws_a_png(tmp_path: Path) -> None:
    drawing = drawn.drawing_of(residual())
    drawn.draw(drawing, tmp_path / "g.png", title="a $title", subtitle="b", note="c" * 200)
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(GlowError, match="cannot be written"):
        drawn.draw(drawing, tmp_path / "missing" / "g.png", title="")


def test_the_block_is_what_lies_between_fork_and_join() -> None:
    function = residual()
    verify(function)
    for number in (1, 2):
        block = figure7.residual_block(function, number)
        verify(block)
        assert [node.opcode for node in block] == ["mat_mul", "relu", "add", "relu", "save"]
        assert block.inputs[0].name == ("entry", "out0")[number - 1]
    with pytest.raises(OptionError, match="has 2 residual blocks"):
        figure7.residual_block(function, 3)


def test_values_in_registers_are_found() -> None:
    net = glow_nb.compile(residual(), backend="interpreter")
    assert {"branch0", "sum0"} <= figure7.names_in_registers(net.program)
