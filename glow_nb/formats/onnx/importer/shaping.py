"""Values of another shape, order or kind: what most rules of the importer need."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from glow_nb.base.errors import ModelError
from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops import Broadcast, ConvertTo, Reshape, Slice, Transpose


class Shaping(ABC):
    """Gives values another shape, order or kind; a node is emitted only where one is needed."""

    @abstractmethod
    def emit(self, node: Node, name: str | None = None) -> Value:
        """Append a node with one result and return its value."""

    @abstractmethod
    def moved(self, node: Node, value: Value) -> Value:
        """Return what *node*, which changes no number, makes of *value*."""

    @abstractmethod
    def wrong(self, message: str) -> ModelError:
        """Return the error that the model is wrong."""

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Return *value* with another shape; weights are not copied."""
        shape = tuple(shape)
        if shape == value.type.shape:
            return value
        return self.moved(Reshape(value, shape), value)

    def transpose(self, value: Value, permutation: Sequence[int]) -> Value:
        """Return *value* with its axes reordered; weights are not copied."""
        permutation = tuple(permutation)
        if permutation == tuple(range(value.type.rank)):
            return value
        return self.moved(Transpose(value, permutation), value)

    def convert(self, value: Value, kind: ElementKind) -> Value:
        """Return *value* with another element kind."""
        return value if value.type.kind is kind else self.emit(ConvertTo(value, kind))

    def part(self, value: Value, axis: int, begin: int, size: int) -> Value:
        """Return *size* elements of *value* along *axis*, from *begin* on."""
        shape = value.type.shape
        if size == shape[axis]:
            return value
        starts = tuple(begin if i == axis else 0 for i in range(len(shape)))
        stops = tuple(begin + size if i == axis else n for i, n in enumerate(shape))
        return self.emit(Slice(value, starts=starts, stops=stops, steps=(1,) * len(shape)))

    def broadcast(self, value: Value, shape: Sequence[int]) -> Value:
        """Return *value* repeated to *shape* by NumPy's rules."""
        shape = tuple(shape)
        value = self.with_rank(value, len(shape))
        return value if value.type.shape == shape else self.emit(Broadcast(value, shape))

    def with_rank(self, value: Value, rank: int) -> Value:
        """Return *value* with dimensions of size 1 put in front to give *rank*."""
        missing = rank - value.type.rank
        if missing < 0:
            raise self.wrong(f"{value} has more than the {rank} dimensions it must fit")
        return self.reshape(value, (*(1,) * missing, *value.type.shape))

    def aligned(self, *values: Value) -> tuple[Value, ...]:
        """Return *values* with the same rank, as elementwise operators want them."""
        rank = max(value.type.rank for value in values)
        return tuple(self.with_rank(value, rank) for value in values)

    def channels_last(self, value: Value) -> Value:
        """Return an ``[N, C, ...]`` value as ``[N, ..., C]``."""
        rank = value.type.rank
        return self.transpose(value, (0, *range(2, rank), 1)) if rank > 2 else value

    def channels_first(self, value: Value) -> Value | Node:
        """Return an ``[N, ..., C]`` value as ``[N, C, ...]``."""
        rank = value.type.rank
        return self.transpose(value, (0, rank - 1, *range(1, rank - 1))) if rank > 2 else value
