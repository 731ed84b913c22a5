"""What rules build with: nodes that fold to constants where they can, and small conveniences."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import TypeGuard, TypeVar

import numpy as np
import onnx
from typing_extensions import override

from glow_nb.base.errors import ModelError, UnboundInput, UnsupportedError
from glow_nb.base.noted import keep, trial
from glow_nb.base.open_size_error import OpenSizeError
from glow_nb.base.payload import Recipe
from glow_nb.base.schema import map_operands, operands_of
from glow_nb.base.size import same, symbols_of
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.formats.onnx.importer.constants import MAX_GROWTH_BYTES, Constants
from glow_nb.formats.onnx.importer.decided import DecidedSizes
from glow_nb.formats.onnx.importer.dependence import inputs_behind, is_of_a_run, require_no_sizes
from glow_nb.formats.onnx.importer.open_numbers import OpenNumbers
from glow_nb.formats.onnx.importer.open_numbers import folded as folded_numbers
from glow_nb.formats.onnx.importer.ratio import Number, as_ratio, whole_numbers
from glow_nb.formats.onnx.importer.tensors import Numbers
from glow_nb.formats.onnx.importer.unrolling import Unrolling
from glow_nb.formats.onnx.schema.counting import Count, count_after
from glow_nb.formats.onnx.schema.element_kinds import kind_of, type_name
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate_node
from glow_nb.hlir.graph import Constant, Node, Value, producer_of
from glow_nb.hlir.ops import (
    AsQuantized,
    ConvertTo,
    Dequantize,
    DequantizeLinear,
    Div,
    Reshape,
    Sizes,
    Transpose,
)
from glow_nb.hlir.ops.random import Drawn
from glow_nb.hlir.recipe import folded

N = TypeVar("N", bound=Node)
T = TypeVar("T")


def is_number(value: Value) -> TypeGuard[Constant]:
    """True for a constant that nodes fold into; a weight is trained, so that nodes stay apart."""
    return isinstance(value, Constant) and not value.is_weight


LateFold = ConvertTo | Reshape | Transpose
"""What is done to large weights, and never fails: the numbers are made where they are packed."""

Recognized = AsQuantized | Dequantize | DequantizeLinear
"""How constants that are stored as integers become floats; passes look for it."""


class AlreadyReportedError(UnsupportedError):
    """A node depends on others that cannot be imported; they have been noted."""


class Context(Constants):
    """The function under construction, as a rule sees it.

    Attributes:
        producer: The tool that wrote the model, if the model names it; else empty.
        for_training: Whether operators that tell training from inference are in training.
        unrolling: Counts the steps of loops.
        streams: Gives each node that draws random numbers a stream of its own.
        counts: The number of valid elements, for each value with a data-dependent size.
        decides: Whether data-dependent numbers may be sizes; see
            :func:`~glow_nb.formats.onnx.importer.decided.with_decided_sizes`.
        decided: The sizes that are so.
    """

    decides: bool = False

    def __init__(self, builder: Builder, producer: str = "", *, for_training: bool = False) -> None:
        """Build with *builder* what *producer* wrote."""
        super().__init__(builder)
        self.producer = producer
        self.for_training = for_training
        self.unrolling = Unrolling()
        self.streams = count()
        self.counts: dict[Value, Count] = {}
        self.decided = DecidedSizes()

    @override
    def emit(self, node: Node, name: str | None = None) -> Value:
        """Append a node with one result and return its value, a constant if it can be one."""
        (value,) = self.emit_all(node, name)
        return value

    @override
    def emit_all(self, node: Node, name: str | None = None) -> tuple[Value, ...]:
        """Append a node and return its results.

        A node that draws random numbers stays a node, so that it can get another generator, and one
        that makes floats of integers, since the integers are what passes look for. So does one
        whose result has a quantized type.
        """
        name = name or f"{self.stem}_{node.opcode}"
        values: tuple[Value, ...] | None = self._fold_open(node, name)
        if not values:
            node = map_operands(node, self.as_computed)
            values = self._fold(node, name)
        if values is None:
            emitted = self.builder.emit(node, name)
            self._carry_counts(emitted)
            values = emitted.results
        self._note(node, values)
        return values

    def emitted(
        self, result: Value | tuple[Value | None, ...], name: str | None = None
    ) -> tuple[Value | None, ...]:
        """Return what a rule returned as values; a node that it left to emit is called *name*."""
        if isinstance(result, Node) and not result.name:
            return self.emit_all(result, name)
        return result if isinstance(result, tuple) else (result,)

    def _note(self, node: Node, results: tuple[Value, ...]) -> None:
        if self.trace is not None:
            self.trace.note(node, results)

    def _carry_counts(self, node: Node) -> None:
        """Note which slices of the results count, if only some of an operand do.

        Raises:
            UnsupportedError: The node would compute with those that do not.
        """
        counted = [value for value in operands_of(node) if value in self.counts]
        if not counted:
            return
        count = count_after(node, self.counts)
        if count is None:
            raise self.mixes(counted[0])
        self.counts.update(dict.fromkeys(node.results, count))

    def mixes(self, counted: Value) -> UnsupportedError:
        """Return the error of a node that would compute with what does not count of a value."""
        self.decided.are_wanted = True
        return self.unsupported(
            f"it reads {counted}, whose size is data-dependent, and would mix its valid part with "
            "padding; only functions of single elements, moves of whole slices and gathers may "
            "read it"
        )

    def emit_counted(self, node: Node, axes: Sequence[int | None]) -> tuple[Value, ...]:
        """Append a node whose last result says how many slices of the others count.

        Args:
            node: The node.
            axes: For each of the other results the axis that is counted, None if all of it counts.

        Returns:
            The other results: cut if they are constants, with their counts noted if not.
        """
        *found, number = self.emit_all(node)
        if isinstance(number, Constant):
            return tuple(map(partial(self._cut, int(number.array)), found, axes))
        if self.decides:
            return tuple(map(partial(self._first, number), found, axes))
        for value, axis in zip(found, axes, strict=True):
            if axis is not None:
                self.counts[value] = Count(number, axis)
        return tuple(found)

    def _first(self, number: Value, value: Value, axis: int | None) -> Value:
        """Return the first *number* slices of *value*."""
        if axis is None:
            return value
        size = self.decided.size_of(self, number, high=value.type.shape[axis])
        return self.part(value, axis, 0, size)

    def _cut(self, size: int, value: Value, axis: int | None) -> Value:
        if axis is None or not isinstance(value, Constant):
            return value
        return self.constant(value.array[(*(slice(None),) * axis, slice(size))])

    def _fold_open(self, node: Node, name: str) -> tuple[Value, ...]:
        """Return the results of a *node* that reads open numbers, if they are such again."""
        if not any(isinstance(value, OpenNumbers) for value in operands_of(node)):
            return ()
        try:
            results = self.for_all_runs(partial(folded_numbers, node))
        except OpenSizeError:  # it needs numbers, which a run has
            results = None
        pairs = zip(results or (), node.result_types, strict=results is not None)
        return tuple(self.sized(numbers, type, name) for numbers, type in pairs)

    def as_computed(self, value: Value) -> Value:
        """Return *value* as one that a run computes, if it is a tensor of open numbers."""
        if not isinstance(value, OpenNumbers):
            return value
        ratios = list(map(as_ratio, value.numbers))
        above = self._size_vector([ratio.numerator for ratio in ratios], value.type)
        below = [ratio.denominator for ratio in ratios]
        if all(number == 1 for number in below):
            return above
        return self.emit(Div(above, self._size_vector(below, value.type)))

    def _size_vector(self, numbers: Sequence[int], type: TensorType) -> Value:
        sizes = self.builder.emit(Sizes(tuple(numbers)), f"{self.stem}_sizes")
        return self.reshape(self.convert(sizes, type.kind), type.shape)

    def sized(self, numbers: Sequence[Number], type: TensorType, name: str | None = None) -> Value:
        """Return a tensor of *type* of *numbers*, some of which may be open sizes."""
        if symbols_of(*whole_numbers(numbers)):
            return OpenNumbers(name or self.stem, type, tuple(numbers))
        known = [each if isinstance(each, int) else float(each) for each in numbers]
        return self.constant(np.array(known, type.kind.dtype).reshape(type.shape), name)

    def _fold(self, node: Node, name: str) -> tuple[Value, ...] | None:
        """Return the results of *node* as constants called *name*, None if it stays a node."""
        operands = list(operands_of(node))
        if isinstance(node, Drawn | Recognized) or not all(map(is_number, operands)):
            return None
        if any(type.is_quantized for type in node.result_types) or node.symbols:
            return None  # which arrays are not
        made = sum(type.size_bytes for type in node.result_types)
        read = sum(operand.type.size_bytes for operand in operands)
        if made > max(MAX_GROWTH_BYTES, 2 * read):
            return None
        self.spend(made)
        return self._evaluated(node, name)

    def _evaluated(self, node: Node, name: str) -> tuple[Constant, ...]:
        """Return the results of a *node* that reads only constants."""
        operands = [v for v in operands_of(node) if isinstance(v, Constant)]
        if isinstance(node, LateFold) and any(isinstance(v.payload, Recipe) for v in operands):
            late = folded(node, self.builder.unique_name(name))
            return (dataclasses.replace(late, is_weight=False),)
        try:
            arrays = evaluate_node(node, {})
        except (ArithmeticError, IndexError, ValueError) as error:
            raise ModelError(f"{self.place}: its value cannot be computed: {error}") from error
        return tuple(self.constant(array, name) for array in arrays)

    @override
    def known(self, value: Value, what: str) -> Array:
        if isinstance(value, Constant):
            return value.array
        if isinstance(value, OpenNumbers):
            value.refuse()
        self.decided.are_wanted |= is_of_a_run(value)
        names = inputs_behind(value)
        if not names:
            require_no_sizes(value)
            return self._computed(value)
        raise UnboundInput(
            f"{self.place}: {what} must be known when the model is compiled, but it is computed "
            f"from inputs {names}; give those by constants={{name: array}}",
            names,
        )

    def _computed(self, value: Value) -> Array:
        """Return the numbers of a value that depends on constants, but was too large to fold."""
        arrays: dict[Value, Array] = {}
        pending = [value]
        while pending:
            node = producer_of(pending[-1])
            assert node is not None
            missing = [v for v in operands_of(node) if v not in arrays and producer_of(v)]
            if missing:
                pending += missing
                continue
            self.spend(sum(type.size_bytes for type in node.result_types))
            arrays.update(zip(node.results, evaluate_node(node, arrays), strict=True))
            pending.pop()
        return arrays[value]

    @override
    def known_integers(self, value: Value, what: str) -> tuple[int, ...]:
        if isinstance(value, OpenNumbers) and value.type.rank <= 1 and value.integers is not None:
            return value.integers
        array = self.known(value, what)
        if array.ndim > 1 or array.dtype.kind not in "iu":
            raise ModelError(
                f"{self.place}: {what} must be a list of integers, it is {TensorType.of(array)}"
            )
        return tuple(int(n) for n in array.reshape(-1))

    def for_all_runs(self, answer: Callable[[], T | None]) -> T | None:
        """Return the *answer*; None if it is not the same for all data-dependent sizes."""
        with trial() as notes:
            found = answer()
        if any(self.decided.has(guard.left - guard.right) for guard in notes):
            return None
        keep(notes)
        return found

    def known_integer(self, value: Value, what: str) -> int:
        """Return a known tensor of one integer as a number."""
        numbers = self.known_integers(value, what)
        if len(numbers) != 1:
            raise self.wrong(f"{what} must be one number, it is {list(numbers)}")
        return numbers[0]

    @abstractmethod
    def subgraph(self, graph: onnx.GraphProto, operands: Sequence[Value] = ()) -> tuple[Value, ...]:
        """Import a graph inside a node, its inputs being *operands*; return its outputs."""

    @abstractmethod
    def check_steps(self, graph: onnx.GraphProto, steps: int) -> None:
        """Raise ModelError if *steps* of a loop, each a graph, make too many nodes."""

    @abstractmethod
    def check_branches(self, *graphs: onnx.GraphProto) -> None:
        """Raise ModelError if *graphs*, the branches of an If, make too many nodes together."""

    @abstractmethod
    def branch(self, graph: onnx.GraphProto, condition: Value, taken_if: bool) -> tuple[Value, ...]:
        """Import a graph that *condition*, which a run decides, may leave out; return its outputs.

        Raises:
            UnboundInput: The graph cannot be imported, which may not matter if it is left out.
        """

    @abstractmethod
    def named(self, name: str) -> Value:
        """Return the tensor that an attribute of the node calls *name*."""

    @abstractmethod
    def numbers(self, tensor: onnx.TensorProto) -> Numbers:
        """Return the numbers of a tensor attribute."""

    @abstractmethod
    def dense(self, tensor: onnx.SparseTensorProto) -> Array:
        """Return the numbers of a sparse tensor attribute, zeros among them."""

    @override
    def kind(self, code: int) -> ElementKind:
        try:
            return kind_of(code, self.place)
        except UnsupportedError:
            raise self.unsupported(f"element type {type_name(code)}") from None

    @override
    def wrong(self, message: str) -> ModelError:
        """Return the error that says what is wrong with the node being imported."""
        return ModelError(f"{self.place}: {message}")

    @override
    def moved(self, node: Node, value: Value) -> Value:
        """Return what *node* makes of *value*: a constant of the same numbers in another order."""
        if not is_number(value):
            return self.emit(node)
        (constant,) = self._evaluated(node, f"{value.name}_{node.opcode}")
        self._note(node, (constant,))
        return constant


def broadcast_shape(context: Context, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that *shapes* broadcast to by NumPy's rules."""
    rank = max(map(len, shapes))
    result = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if 1 not in (size, result[axis]) and not same(size, result[axis]):
                raise context.wrong(f"shapes {[list(s) for s in shapes]} do not broadcast")
            if result[axis] == 1:
                result[axis] = size
    return tuple(result)
