"""The subgraph of the paper's Figure 7, and how it is written."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import glow_nb
from experiments.figures import figure7_resnet50_graph as figure7
from experiments.figures.graph_picture import write_graph
from glow_nb.base.errors import OptionError
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from glow_nb.hlir.verify import verify


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


def test_edges_of_values_in_registers_are_dotted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    write_graph(residual(), tmp_path / "seven.dot", in_registers={"sum0"})
    text = (tmp_path / "seven.dot").read_text(encoding="utf-8")
    assert text.count("style = dotted") == 1
    assert "dot -Tpng" in capsys.readouterr().out
