"""A random ONNX graph under construction; ONNX Runtime computes each node as it is added.

So kind, shape and numbers of every tensor are known, and with each comes how far two right answers
may lie apart: a node with such operands is computed again with operands that far off.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import helper

from glow_nb.base.types import Array
from tests.property.onnx_draws.reference import (
    STEP,
    RefusedError,
    Single,
    distance,
    model_of,
    rounding,
)
from tests.unit.formats.onnx.importer.models import value, weight

T = TypeVar("T")
Shape = tuple[int, ...]
Recipe = Callable[["Drawing", str], None]

FLOATS = ("float32", "float64", "float16")
INTS = ("int32", "int64")
BYTES = ("int8", "uint8")
WHOLE = (*INTS, *BYTES, "int16", "uint16", "uint32", "uint64")
NUMBERS = (*FLOATS, *WHOLE)
ANY = (*NUMBERS, "bool")

RECIPES: dict[tuple[str, str], Recipe] = {}
"""Domain and operator to what adds a node of it, with random operands and attributes."""


def recipe(*names: str, domain: str = "") -> Callable[[Recipe], Recipe]:
    def register(function: Recipe) -> Recipe:
        for name in names:
            assert (domain, name) not in RECIPES, name
            RECIPES[domain, name] = function
        return function

    return register


@dataclass
class Tensor:
    """What is known of a tensor: its numbers, and how far off another right answer may be."""

    array: Array
    error: float = 0.0
    is_operand: bool = True


class Drawing:
    """A random ONNX graph under construction."""

    def __init__(self, seed: int, opset: int | None = None) -> None:
        self.source = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.opset = opset or self.source.choice(
            [10, 11, 12, 13, 14, 16, 17, 17, 18, 19, 20, 21, 22, 23]
        )
        self.float = self.source.choice(["float32"] * 7 + ["float64", "float16"])
        self.reuse = self.source.choice([0.5, 0.9])
        self.weights = self.source.choice([0.0, 0.3, 0.8])
        self.sizes = self.source.choice([[1, 2, 3, 4, 5, 7]] * 9 + [[0, 1, 2, 3]])
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: dict[str, Tensor] = {}
        self.fed: list[str] = []
        self.held: list[str] = []
        self._names = (f"t{n}" for n in itertools.count())

    # What is drawn.

    def one_of(self, *choices: T) -> T:
        return self.source.choice(choices)

    def chance(self, probability: float = 0.5) -> bool:
        return self.source.random() < probability

    def whole(self, least: int, most: int) -> int:
        if most < least:
            raise RefusedError
        return self.source.randint(least, most)

    def number(self, least: float, most: float) -> float:
        return round(self.source.uniform(least, most), 3)

    def some(self, **attributes: Any) -> dict[str, Any]:
        """Return a random part of *attributes*: the rest have their defaults."""
        return {name: given for name, given in attributes.items() if self.chance(0.6)}

    def axis(self, rank: int, *, is_negative: bool = True) -> int:
        axis = self.whole(0, rank - 1)
        return axis - rank if is_negative and self.chance(0.3) else axis

    def axes(self, rank: int) -> list[int]:
        chosen = self.source.sample(range(rank), self.whole(min(1, rank), rank))
        return [axis - rank if self.chance(0.3) else axis for axis in chosen]

    def shape(self, ranks: Sequence[int] = (0, 1, 2, 2, 3, 3, 4, 5)) -> Shape:
        return tuple(self.source.choice(self.sizes) for _ in range(self.source.choice(ranks)))

    def kind(self, kinds: Sequence[str]) -> str:
        usual = [kind for kind in kinds if kind not in FLOATS or kind == self.float]
        return self.source.choice(usual or list(kinds))

    def array(self, kind: str, shape: Shape, low: float = -3, high: float = 3) -> Array:
        if kind == "bool":
            return self.numbers.random(shape) < 0.5
        dtype = np.dtype(kind)
        if kind in FLOATS:
            return self.numbers.uniform(low, high, shape).astype(dtype)
        least = max(int(low * 3 if low < 0 else low), int(np.iinfo(dtype).min))
        return self.numbers.integers(least, int(high * 3), shape, endpoint=True).astype(dtype)

    def since(self, opset: int) -> None:
        """Refuse to draw an operator that ONNX defines from *opset* on."""
        if self.opset < opset:
            raise RefusedError

    # Operands.

    def fresh(self, array: Array, *, is_fed: bool | None = None) -> str:
        """Return the name of a new tensor: an input, or a weight."""
        name = next(self._names)
        self.tensors[name] = Tensor(np.asarray(array))
        if is_fed is None:
            is_fed = not self.chance(self.weights)
        (self.fed if is_fed else self.held).append(name)
        return name

    def known(self, *numbers: int, kind: str = "int64") -> str:
        return self.fresh(np.array(numbers, kind), is_fed=False)

    def known_scalar(self, number: float, kind: str) -> str:
        return self.fresh(np.array(number, kind), is_fed=False)

    def tensor(
        self,
        kinds: Sequence[str] = FLOATS,
        ranks: Sequence[int] = (0, 1, 2, 2, 3, 3, 4, 5),
        shape: Shape | None = None,
        low: float = -3,
        high: float = 3,
        **options: Any,
    ) -> str:
        """Return a tensor that fits: one that is there, or a new one of numbers in a range."""
        fitting = [
            name
            for name, tensor in self.tensors.items()
            if tensor.is_operand
            and tensor.array.dtype.name in kinds
            and (tensor.array.ndim in ranks if shape is None else tensor.array.shape == shape)
            and self._lies_in(tensor.array, low, high)
        ]
        if fitting and self.chance(self.reuse) and not options:
            return self.source.choice(fitting)
        shape = self.shape(ranks) if shape is None else shape
        return self.fresh(self.array(self.kind(kinds), shape, low, high), **options)

    def _lies_in(self, array: Array, low: float, high: float) -> bool:
        if array.dtype == bool or (low, high) == (-3, 3):
            return True
        return not array.size or bool(array.min() >= low and array.max() <= 3 * high)

    def like(self, name: str, shape: Shape | None = None, **options: Any) -> str:
        """Return a tensor of the kind of *name*, and of its shape unless that is given."""
        wanted = self.shape_of(name) if shape is None else shape
        return self.tensor((self.kind_of(name),), shape=wanted, **options)

    def broadcastable(self, name: str, **options: Any) -> str:
        """Return a tensor of the kind of *name* that broadcasts with it."""
        shape = [n if self.chance(0.7) else 1 for n in self.shape_of(name)]
        if self.chance(0.1) and len(shape) < 4:
            shape = [*self.shape((1,)), *shape]
        shape = shape[self.whole(0, len(shape)) if self.chance(0.4) else 0 :]
        return self.like(name, tuple(shape), **options)

    def shape_of(self, name: str) -> Shape:
        return tuple(self.tensors[name].array.shape)

    def kind_of(self, name: str) -> str:
        return str(self.tensors[name].array.dtype.name)

    def rank_of(self, name: str) -> int:
        return self.tensors[name].array.ndim

    # Nodes.

    def add(
        self,
        op: str,
        operands: Iterable[str],
        results: int = 1,
        *,
        domain: str = "",
        is_operand: bool = True,
        **attributes: Any,
    ) -> list[str]:
        """Append a node and return the names of its results.

        Raises:
            RefusedError: ONNX Runtime does not take it, or a right answer may be another one.
        """
        operands = list(operands)
        names = [next(self._names) for _ in range(results)]
        given = {key: each for key, each in attributes.items() if each is not None}
        node = helper.make_node(op, operands, names, domain=domain, **given)
        read = list(dict.fromkeys(filter(None, operands)))
        single = Single(node, {name: self.tensors[name].array for name in read}, self.opset)
        arrays = single.run({})
        for name, error in zip(names, self._errors(single, arrays, read), strict=True):
            array = arrays[names.index(name)]
            is_usable = bool(np.all(np.isfinite(array))) if array.dtype.kind == "f" else True
            if array.size and is_usable and array.dtype.kind != "b":
                is_usable = bool(np.abs(array.astype(np.float64)).max() < 1e4)
            self.tensors[name] = Tensor(array, error, is_usable and is_operand)
        self.nodes.append(node)
        return names

    def _errors(self, single: Single, arrays: list[Array], read: list[str]) -> list[float]:
        """Return how far other right answers may lie from *arrays*, one number for each."""
        off = {name: self.tensors[name] for name in read if self.tensors[name].error}
        worst = [rounding(array, single.operands.values()) for array in arrays]
        self._note_rounding(single, arrays, worst)
        for _ in range(2 if off else 0):
            moved = {
                n: np.asarray(t.array + 4 * t.error * self._signs(t.array), t.array.dtype)
                for n, t in off.items()
            }
            again = single.run(moved)
            for index, (array, other) in enumerate(zip(arrays, again, strict=True)):
                worst[index] = max(worst[index], distance(array, other))
        return worst

    def _note_rounding(self, single: Single, arrays: list[Array], worst: list[float]) -> None:
        """Let *worst* tell what rounding all operands does, if it takes no other choice."""
        rounded = {
            name: np.asarray(
                array * (1 + STEP[array.dtype.name] / 8 * self._signs(array)), array.dtype
            )
            for name, array in single.operands.items()
            if array.dtype.name in STEP
        }
        if not rounded:
            return
        with suppress(RefusedError):
            for index, other in enumerate(single.run(rounded)):
                worst[index] = max(worst[index], 2 * distance(arrays[index], other))

    def _signs(self, array: Array) -> Array:
        return self.numbers.choice([-1, 1], array.shape)

    # The whole.

    def feeds(self) -> dict[str, Array]:
        return {name: self.tensors[name].array for name in self.fed}

    def outputs(self) -> list[str]:
        """Return what no node reads, and some of the rest."""
        made = [name for node in self.nodes for name in node.output if name]
        read = {name for node in self.nodes for name in node.input}
        return [name for name in made if name not in read or self.chance(0.15)]

    def model(self, outputs: Sequence[str], *, has_open_sizes: bool = False) -> onnx.ModelProto:
        """Return the model; its sizes may be left *open*, each with a name of its own."""
        infos = []
        for name in self.fed:
            array = self.tensors[name].array
            sizes = [f"{name}_{i}" if has_open_sizes else n for i, n in enumerate(array.shape)]
            infos.append(value(name, sizes, helper.np_dtype_to_tensor_dtype(array.dtype)))
        weights = [weight(name, self.tensors[name].array) for name in self.held]
        return model_of(self.nodes, infos, outputs, weights, self.opset)

    def check(self, got: dict[str, Array], outputs: Sequence[str]) -> None:
        """Check the results *got*."""
        assert list(got) == list(outputs)
        for name in outputs:
            tensor = self.tensors[name]
            assert got[name].shape == tensor.array.shape, name
            assert got[name].dtype == tensor.array.dtype, name
            np.testing.assert_allclose(
                got[name], tensor.array, rtol=0, atol=8 * tensor.error, err_msg=name
            )


def draw(seed: int, steps: int, names: Sequence[tuple[str, str]] | None = None) -> Drawing:
    """Return a graph of up to *steps* random nodes, of the operators in *names* if given."""
    drawing = Drawing(seed)
    chosen = sorted(RECIPES) if names is None else list(names)
    for _ in range(4 * steps):
        if len(drawing.nodes) >= steps:
            break
        domain, name = drawing.source.choice(chosen)
        mark = (len(drawing.fed), len(drawing.held), len(drawing.nodes), list(drawing.tensors))
        try:
            RECIPES[domain, name](drawing, name)
        except RefusedError:
            _take_back(drawing, *mark)
    return drawing


def _take_back(drawing: Drawing, fed: int, held: int, nodes: int, tensors: list[str]) -> None:
    del drawing.fed[fed:], drawing.held[held:], drawing.nodes[nodes:]
    drawing.tensors = {name: drawing.tensors[name] for name in tensors}
