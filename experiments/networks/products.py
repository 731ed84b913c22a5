"""Forty products of float32 matrices, square, tall, wide, with long sums, of one row and of few.

Some have odd sizes, some come in batches. The right matrix is a constant, or comes at run time as
it is multiplied or transposed; the left one may come transposed, too::

    python -m experiments.networks.products FOLDER
    python -m experiments.benchmarks.duel FOLDER/*.onnx --engines glow_nb onnxruntime --seconds 0.03
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from typing_extensions import override

from experiments.networks.layers import write
from glow_nb.base.types import Array


@dataclass(frozen=True)
class Product:
    """``result[b, m, n] = sum over k of left[b, m, k] * right[b, k, n]``.

    Attributes:
        rows: Rows of each left matrix (m).
        columns: Columns of each right matrix (n).
        inner: Length of the sums (k).
        right: How the right matrix comes: "constant", "run-time" or "transposed", at run time.
        left: How the left matrix comes: "plain" or "transposed"; at run time.
        batch: How many products there are, each of matrices of its own.
    """

    rows: int
    columns: int
    inner: int
    right: str
    left: str = "plain"
    batch: int = 1

    @override
    def __str__(self) -> str:
        batch = f"{self.batch} of " if self.batch > 1 else ""
        left = ", left transposed" if self.left == "transposed" else ""
        return f"{batch}{self.rows} x {self.columns} x {self.inner} {self.right}{left}"

    @property
    def file_name(self) -> str:
        """The text in the letters of a file's name."""
        return str(self).replace(", ", "_").replace(" ", "_")

    def operands(self) -> dict[str, Array]:
        """Return the matrices as they come, seeded."""
        random = np.random.default_rng(5)
        left, right = [self.rows, self.inner], [self.inner, self.columns]
        left = left[::-1] if self.left == "transposed" else left
        right = right[::-1] if self.right == "transposed" else right
        batch = [self.batch] if self.batch > 1 else []
        made = {"left": [*batch, *left], "right": [*batch, *right]}
        return {name: random.standard_normal(shape, np.float32) for name, shape in made.items()}

    def model(self) -> onnx.ModelProto:
        """Return the product as exporters write it: transposes in front of ``MatMul``."""
        operands = self.operands()
        constants = {"right"} if self.right == "constant" else set()
        nodes, names = [], []
        for name, how in (("left", self.left), ("right", self.right)):
            names.append(name)
            if how == "transposed":
                names[-1] += "_transposed"
                order = [0, 2, 1] if self.batch > 1 else [1, 0]
                nodes.append(helper.make_node("Transpose", [name], [names[-1]], perm=order))
        nodes.append(helper.make_node("MatMul", names, ["result"]))
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
            for name, array in operands.items()
            if name not in constants
        ]
        result = helper.make_tensor_value_info("result", TensorProto.FLOAT, None)
        weights = [numpy_helper.from_array(operands[name], name) for name in sorted(constants)]
        graph = helper.make_graph(nodes, self.file_name, inputs, [result], weights)
        opsets = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


CONSTANT = (
    (1, 1000, 2048), (1, 1024, 4096), (1, 4096, 1024), (4, 1280, 1280), (8, 3072, 768),
    (8, 768, 3072), (32, 1000, 2048), (77, 1280, 1280), (128, 768, 768), (128, 3072, 768),
    (128, 768, 3072), (512, 512, 512), (1500, 512, 512), (4096, 64, 64), (49, 33, 4096),
    (1001, 127, 255),
)  # fmt: skip
RUN_TIME = (
    (1, 768, 768), (1, 4096, 1024), (2, 1024, 4096), (8, 768, 3072), (8, 4096, 512),
    (77, 1280, 1280), (128, 768, 768), (128, 768, 3072), (384, 384, 384), (1024, 1024, 1024),
    (1500, 512, 512), (101, 77, 513),
)  # fmt: skip
TRANSPOSED = (
    (1, 4096, 1024), (8, 3072, 768), (77, 1280, 1280), (128, 768, 768), (1500, 512, 512),
    (33, 101, 333),
)  # fmt: skip
TABLE = (
    *(Product(*sizes, "constant") for sizes in CONSTANT),
    *(Product(*sizes, "run-time") for sizes in RUN_TIME),
    *(Product(*sizes, "transposed") for sizes in TRANSPOSED),
    Product(768, 768, 128, "run-time", "transposed"),
    Product(128, 768, 768, "run-time", "transposed"),
    Product(65, 64, 4096, "constant", "transposed"),
    Product(128, 64, 128, "run-time", batch=12),
    Product(197, 197, 64, "transposed", batch=12),
    Product(1, 64, 255, "run-time", batch=16),
)
"""The forty products, as (rows, columns, inner)."""


def main() -> None:
    """Write the products as ONNX files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the ONNX files are written")
    for path in write([product.model for product in TABLE], parser.parse_args().folder):
        print(path)


if __name__ == "__main__":
    main()
