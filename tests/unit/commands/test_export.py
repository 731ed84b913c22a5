"""``glow-nb export``: a graph as an ONNX model."""

from __future__ import annotations

from pathlib import Path

import onnx

import glow_nb
from tests.unit.commands.samples import (
    GRAPH,
    call,
    fails,
    write_convolution,
    write_dense,
    write_graph,
)


def test_text_becomes_a_model(tmp_path: Path) -> None:
    output = tmp_path / "net.onnx"
    result = call("export", write_graph(tmp_path), "--output", output)
    assert result.exit_code == 0, result.output
    assert result.stderr == f"wrote {output}: opset 20, 2 nodes, 1 constant\n"
    model = onnx.load(output)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["MatMul", "Relu"]
    assert call("export", "-", "--output", output, text=GRAPH).exit_code == 0
    assert onnx.load(output) == model


def test_passes_run_before(tmp_path: Path) -> None:
    model, output = write_convolution(tmp_path), tmp_path / "net.onnx"
    assert call("export", model, "--passes", "INFERENCE", "--output", output).exit_code == 0
    assert isinstance(glow_nb.load(output), glow_nb.Function)
    assert "--passes lowr: there is no such step; did you mean 'lower'?" in fails(
        "export", model, "--passes", "lowr", "--output", output
    )


def test_sizes_and_operator_set_are_given(tmp_path: Path) -> None:
    model, output = write_dense(tmp_path, "n"), tmp_path / "net.onnx"
    made = call("export", model, "--shape", "n=5", "--opset", 21, "--output", output)
    assert made.exit_code == 0, made.output
    exported = onnx.load(output)
    assert exported.opset_import[0].version == 21
    sizes = exported.graph.input[0].type.tensor_type.shape.dim
    assert [size.dim_value for size in sizes] == [5, 3]
    message = fails("export", model, "--shape", "n=5", "--opset", 7, "--output", output)
    assert "opset=7: models of the operator sets 20 to" in message
    assert onnx.load(output) == exported


def test_a_program_is_no_graph(tmp_path: Path) -> None:
    program, output = tmp_path / "program.glow", tmp_path / "net.onnx"
    dump = ("dump", write_graph(tmp_path), "--level", "llir", "--backend", "interpreter")
    program.write_text(call(*dump).output)
    assert "ONNX has models of graphs only" in fails("export", program, "--output", output)
    assert not output.exists()


def test_what_a_backend_made_is_not_in_onnx(tmp_path: Path) -> None:
    model, output = write_convolution(tmp_path), tmp_path / "net.onnx"
    passes = ("--passes", "select_packed_operators")
    message = fails("export", model, *passes, "--output", output)
    assert "no composition of operators, for " in message
    assert "_convolution %convolution;" in message


def test_the_output_is_needed(tmp_path: Path) -> None:
    assert "Missing option '--output'" in fails("export", write_graph(tmp_path), code=2)
