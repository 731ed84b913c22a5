"""Losses of drawn operators, to be differentiated: weighted sums of all results.

The numbers stay away from where operators have no derivative, such as the ends of a clip or equal
elements of a maximum: no two are equal, and none is near a multiple of a quarter, as attributes are
drawn to be. None is nearer to 0 than a quarter, since differences are bad near a pole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf
from random import Random

import numpy as np

from glow_nb.base.schema import attribute_specs, operands_of
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate, evaluate_node
from glow_nb.hlir.graph import Function, Node, Placeholder, Value
from glow_nb.hlir.ops import Add, ConvertTo, Mul, ReduceSum
from tests.property.asked_types import plain
from tests.property.drawn_operators import (
    SIZES,
    STARTS,
    NotDrawnError,
    default_of,
    draw_arguments,
    draw_numbers,
    made,
)

RANGES = ((-4, 4), (-2, 2), (-1, 1), (0, 2), (1, 3))
"""Where floats are drawn from: the first range in which all results are numbers and not huge.

The last one has no roots of negative numbers; it is for results without elements.
"""

LARGEST = 1e100
"""Results are smaller: second derivatives are those of sums of squares, which must be numbers, too.
A product of a thousand numbers up to 4 may be larger."""


@dataclass(frozen=True)
class DrawnLoss:
    """A function, of which one output is a float, and what to feed it.

    Attributes:
        function: The function.
        feeds: For each input an array.
        output: The output that counts.
    """

    function: Function
    feeds: dict[str, Array]
    output: str = "loss"

    @property
    def wrt(self) -> tuple[str, ...]:
        """The inputs of floats."""
        return tuple(p.name for p in self.function.inputs if p.type.kind.is_float)

    def at(self, feeds: dict[str, Array]) -> float:
        """Return the loss for other *feeds*."""
        return float(evaluate(self.function, feeds)[self.output].item())


def of_kind(kind: ElementKind, type: TensorType) -> TensorType:
    """Return *type*, of *kind* if it is of floats."""
    return plain(type).with_kind(kind) if type.kind.is_float else plain(type)


def is_differentiable(node: Node) -> None:
    """Raise VerifyError unless *node* makes float64 of float64, and no other floats.

    Attributes may only be infinite if they are so by default: such a bound bounds nothing.
    """
    for spec in attribute_specs(type(node)):
        value = getattr(node, spec.name)
        if isinstance(value, float) and isinf(value):
            is_default = spec.has_default and isinf(default_of(type(node), spec))
            node.require(is_default, f"{spec.name} is infinite")
    wide = node.map_operands(lambda v: Placeholder("x", of_kind(ElementKind.FLOAT64, v.type)))
    operands = {value.type.kind for value in operands_of(wide)}
    results = {type.kind for type in wide.result_types if type.kind.is_float}
    is_wide = results == {ElementKind.FLOAT64} and ElementKind.FLOAT64 in operands
    wide.require(is_wide, "it does not make floats of floats")


def draw_loss(
    node_classes: Sequence[type[Node]],
    seed: int,
    kind: ElementKind = ElementKind.FLOAT64,
    sizes: Sequence[int] = SIZES,
) -> DrawnLoss:
    """Return the loss of one node of each class, with floats of *kind*."""
    builder, random, feeds = Builder(), Random(seed), dict[str, Array]()
    parts: list[Value] = []
    for node_class in node_classes:
        node, numbers = _draw_node(node_class, random, kind, sizes)
        inputs = {p: builder.input("x", p.type) for p in numbers}
        feeds |= {inputs[p].name: array for p, array in numbers.items()}
        node = builder.emit(node.map_operands(inputs.__getitem__))
        floats = (result for result in node.results if result.type.kind.is_float)
        parts += (_weighted(builder, result, kind, random) for result in floats)
    loss = parts[0]
    for part in parts[1:]:
        loss = builder.emit(Add(loss, part))
    builder.save(loss, "loss")
    return DrawnLoss(builder.function(), feeds)


def _draw_node(
    node_class: type[Node], random: Random, kind: ElementKind, sizes: Sequence[int]
) -> tuple[Node, dict[Placeholder, Array]]:
    """Return a node of finite results, which are not huge, and the numbers of its operands."""
    for _ in range(STARTS):
        arguments = draw_arguments(node_class, random.randrange(2**32), is_differentiable, sizes)
        inputs: list[Placeholder] = []

        def operand(type: TensorType, inputs: list[Placeholder] = inputs) -> Placeholder:
            inputs.append(Placeholder("x", of_kind(kind, type)))
            return inputs[-1]

        node = node_class(**{name: made(given, operand) for name, given in arguments.items()})
        for low, high in RANGES:
            numbers = _drawn_numbers(inputs, low, high, random)
            results = evaluate_node(node, dict(numbers.items()))
            floats = [r for r in results if ElementKind.of(r.dtype).is_float]
            tells = any(r.size for r in floats) or (low, high) == RANGES[-1]
            if tells and all((abs(np.float64(r)) < LARGEST).all() for r in floats):
                return node, numbers
    raise NotDrawnError(f"{node_class.opcode}: no numbers that were drawn give numbers")


def _drawn_numbers(
    inputs: list[Placeholder], low: int, high: int, random: Random
) -> dict[Placeholder, Array]:
    """Return numbers for *inputs*: from *low* to *high*, no two equal, those of floats."""
    numbers = {p: draw_numbers(p.type, random) for p in inputs}
    floats = [p for p in inputs if p.type.kind.is_float]
    distinct = _distinct(sum(p.type.size for p in floats), low, high, random)
    for p in floats:
        part, distinct = np.split(distinct, [p.type.size])
        numbers[p] = part.reshape(p.type.shape).astype(p.type.kind.dtype)
    return numbers


def _distinct(count: int, low: int, high: int, random: Random) -> Array:
    """Return *count* numbers, each from the middle of a cell of its own, many to a quarter."""
    rng = np.random.default_rng(random.randrange(2**32))
    quarters = np.array([q for q in range(4 * low, 4 * high) if q not in (-1, 0)])
    share = count // len(quarters) + 2
    cells = rng.permutation(len(quarters) * share)[:count]
    places = (cells % share + rng.uniform(0.2, 0.8, count)) / share
    return (quarters[cells // share] + places) / 4


def _weighted(builder: Builder, value: Value, kind: ElementKind, random: Random) -> Value:
    """Return the sum of *value*, each element times a weight of its own, as a number of *kind*."""
    type = value.type
    numbers = np.random.default_rng(random.randrange(2**32)).uniform(0.5, 1.5, type.shape)
    weights = builder.constant("weights", numbers.astype(type.kind.dtype))
    weighted = builder.emit(Mul(value, weights))
    total = builder.emit(ReduceSum(weighted, tuple(range(type.rank)), keep_dims=False))
    return total if type.kind is kind else builder.emit(ConvertTo(total, kind))
