"""A model of one layer or one block, and the random numbers that decide what it is."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from glow_nb.base.types import Array

T = TypeVar("T")
Shape = Sequence[int]
Draw = Callable[["Drawing"], str | Sequence[str]]
"""Draws a model; returns the names of its results."""

KINDS: dict[str, Draw] = {}
"""What is drawn, by kind; the families of this folder enter theirs."""

OPSET = 21
LEAST_BYTES = 1 << 18
"""Inputs and constants together take so many bytes in most models."""

DRAWS = 16
"""A model is drawn so many times at most: inputs of some kinds always are small."""

FLOATS = ("float32", "float32", "float32", "float64", "float16")
"""Kinds of floats, those that models have most of most often."""
INTEGERS = ("int32", "int64", "uint8", "int8")


def kind(draw: Draw) -> Draw:
    """Enter *draw* into :data:`KINDS` by its name."""
    assert draw.__name__ not in KINDS, draw.__name__
    KINDS[draw.__name__] = draw
    return draw


@dataclass(frozen=True)
class Drawn:
    """A model that was drawn.

    Attributes:
        model: It has no open size.
        feeds: Numbers for its inputs.
        says: Its operators with their shapes and attributes, for a line of a report.
    """

    model: onnx.ModelProto
    feeds: dict[str, Array]
    says: str


def draw(name: str, seed: int, index: int) -> Drawn:
    """Return model *index* of the kind *name*: the same for the same arguments, at all times.

    It is drawn again while its tensors are small: of those, calls take longer than kernels.
    """
    numbers = np.random.default_rng([seed, index, zlib.crc32(name.encode())])
    for last in range(1, DRAWS + 1):
        drawing = Drawing(numbers)
        results = KINDS[name](drawing)
        if drawing.size_bytes >= LEAST_BYTES or last == DRAWS:
            return drawing.finish(name, results)
    raise AssertionError("DRAWS is not positive")


class Drawing:
    """An ONNX model under construction; values are names.

    Attributes:
        numbers: The source of all that is random.
        opset: Of the model.
    """

    def __init__(self, numbers: np.random.Generator) -> None:
        self.numbers, self.opset = numbers, OPSET
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._feeds: dict[str, Array] = {}
        self._says: list[str] = []
        self._shapes: dict[str, str] = {}

    @property
    def size_bytes(self) -> int:
        """Bytes of inputs and constants."""
        constants = sum(len(tensor.raw_data) for tensor in self._weights)
        return constants + sum(array.nbytes for array in self._feeds.values())

    def whole(self, least: int, most: int) -> int:
        """Return a whole number from *least* to *most*; each power of two is as likely as others.

        Two in three are multiples of 8 if there is one: the sizes of networks mostly are.
        """
        number = round(float(np.exp(self.numbers.uniform(np.log(least), np.log(most)))))
        even = round(number / 8) * 8
        return (
            even if least <= even <= most and self.chance(2 / 3) else min(max(number, least), most)
        )

    def one_of(self, *choices: T) -> T:
        """Return one of *choices*."""
        return choices[self.numbers.integers(len(choices))]

    def chance(self, probability: float = 0.5) -> bool:
        """Return true with *probability*."""
        return bool(self.numbers.uniform() < probability)

    def array(self, *shape: int, kind: str = "float32") -> Array:
        """Return floats around 0 with deviation 1, whole numbers below 100, or truth values."""
        dtype = np.dtype(kind)
        if dtype.kind == "f":
            return self.numbers.standard_normal(shape).astype(dtype)
        if dtype.kind == "b":
            return self.numbers.integers(0, 2, shape).astype(dtype)
        return self.numbers.integers(-100 if dtype.kind == "i" else 0, 100, shape).astype(dtype)

    def feed(self, array: Array) -> str:
        """Return the name of an input that is fed *array*."""
        name = f"input_{len(self._inputs)}"
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        self._inputs.append(helper.make_tensor_value_info(name, element, array.shape))
        self._feeds[name] = array
        self._shapes[name] = f"{array.dtype}[{' x '.join(map(str, array.shape))}]"
        return name

    def input(self, *shape: int, kind: str = "float32") -> str:
        """Return the name of an input of random numbers."""
        return self.feed(self.array(*shape, kind=kind))

    def constant(self, array: Array | Sequence[int]) -> str:
        """Return the name of a constant; a list is one of int64."""
        array = np.asarray(array, None if isinstance(array, np.ndarray) else np.int64)
        tensor = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), "")
        few = np.array2string(array, threshold=8) if array.size <= 8 else f"{array.dtype}"
        shape = "" if array.size <= 8 else f"[{' x '.join(map(str, array.shape))}]"
        return self.tensor(tensor, f"{few}{shape}")

    def tensor(self, tensor: onnx.TensorProto, says: str) -> str:
        """Return the name of a constant of which reports say *says*."""
        tensor.name = f"constant_{len(self._weights)}"
        self._weights.append(tensor)
        self._shapes[tensor.name] = says
        return tensor.name

    def weights(self, *shape: int, sums: int, kind: str = "float32") -> str:
        """Return the name of random weights for sums of so many products."""
        return self.constant((self.array(*shape) / np.sqrt(sums)).astype(kind))

    def node(
        self, operator: str, *inputs: str, results: int = 1, domain: str = "", **attributes: Any
    ) -> Any:
        """Add a node; return the name of its result, or a list of names if there are *results*."""
        names = [f"{operator.lower()}_{len(self._nodes)}_{n}" for n in range(results)]
        self._nodes.append(helper.make_node(operator, inputs, names, domain=domain, **attributes))
        said = [self._shapes[name] for name in inputs if self._shapes.get(name)]
        said += [f"{name}={value}" for name, value in attributes.items()]
        self._says.append(f"{operator}({', '.join(said)})")
        return names if results > 1 else names[0]

    def cast(self, x: str, kind: str) -> str:
        """Return *x* as numbers of *kind*."""
        return str(self.node("Cast", x, to=getattr(TensorProto, _onnx_name(kind))))

    def finish(self, name: str, results: str | Sequence[str]) -> Drawn:
        """Return the model called *name* with these *results*."""
        names = [results] if isinstance(results, str) else results
        ends = [onnx.ValueInfoProto(name=result) for result in names]
        graph = helper.make_graph(self._nodes, name, self._inputs, ends, self._weights)
        opsets = [helper.make_opsetid(domain, 1) for domain in self._domains()]
        opsets.append(helper.make_opsetid("", self.opset))
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return Drawn(onnx.shape_inference.infer_shapes(model), self._feeds, " ".join(self._says))

    def _domains(self) -> set[str]:
        return {node.domain for node in self._nodes if node.domain}


def _onnx_name(kind: str) -> str:
    return {"float32": "FLOAT", "float64": "DOUBLE"}.get(kind, kind.upper())
