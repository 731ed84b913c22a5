"""Small models on disk, and a way to call the command on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper

from glow_nb.cli import main
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.ops import Convolution
from glow_nb.network.files import save_text

GRAPH = """\
constant %w : float32<2 x 2> = dense [1.0, 0.0, 0.0, 2.0]
func @main(%x : float32<3 x 2>) -> (%y : float32<3 x 2>) {
  %product = mat_mul(%x, %w) : float32<3 x 2>
  %positive = relu(%product) : float32<3 x 2>
  %y_save = save(%positive, %y)
}
"""


def call(*arguments: object, text: str | None = None) -> Result:
    """Run ``glow-nb`` with *arguments* in this process, *text* being its standard input."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=text)


def fails(*arguments: object, code: int = 1) -> str:
    """Run ``glow-nb``, which must end with *code* and one message; return standard error."""
    result = call(*arguments)
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.stderr
    assert result.stderr.count("Error: ") == 1
    return result.stderr


def write_graph(folder: Path) -> Path:
    """Write :data:`GRAPH` to a file."""
    path = folder / "net.glow"
    path.write_text(GRAPH)
    return path


def write_dense(folder: Path, batch: int | str = 2, name: str = "x", result: str = "y") -> Path:
    """Write an ONNX model ``y = relu(x W)`` of 3 columns to 12, as wide as scores of classes."""
    weights = np.random.default_rng(0).normal(size=(3, 12)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", [name, "w"], ["product"]),
            helper.make_node("Relu", ["product"], [result]),
        ],
        "dense",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 3])],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, [batch, 12])],
        [numpy_helper.from_array(weights, "w")],
    )
    return _save(graph, folder / "dense.onnx")


def write_sum(folder: Path) -> Path:
    """Write an ONNX model ``y = float(a) + b`` of an int32 and a float32 input."""
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["a"], ["converted"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["converted", "b"], ["y"]),
        ],
        "sum",
        [
            helper.make_tensor_value_info("a", TensorProto.INT32, [4]),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, [4]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
    )
    return _save(graph, folder / "sum.onnx")


def write_convolution(folder: Path) -> Path:
    """Write the graph of a 3x3 convolution of 32 channels to 32 on 24 x 24 pixels."""
    random = np.random.default_rng(0)
    b = Builder()
    x = b.input("x", "float32<1 x 24 x 24 x 32>")
    filter = b.constant("w", random.normal(size=(32, 3, 3, 32)).astype(np.float32))
    bias = b.constant("b", random.normal(size=32).astype(np.float32))
    ones = (1, 1)
    made = Convolution(x, filter, bias, kernel=(3, 3), stride=ones, pads=ones * 2, dilation=ones)
    b.save(b.emit(made), "y")
    path = folder / "convolution.glow"
    save_text(b.function(), path)
    return path


def _save(graph: onnx.GraphProto, path: Path) -> Path:
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def save_array(path: Path, array: object) -> Path:
    """Write *array* to the ``.npy`` file *path*."""
    np.save(path, np.asarray(array))
    return path


def without_progress(text: str) -> str:
    """Return what a command wrote beside how far it is, which it tells every few seconds."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("compiling "))
