"""Operators that have the channels last here, as ONNX has them: ``[N, C, ...]``."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, cast

import numpy as np
from typing_extensions import override

from glow_nb.base.schema import attributes_of, fields_of, operand_specs
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Node, Placeholder, Value
from glow_nb.hlir.permutation import Permutation, permute


def to_first(rank: int) -> Permutation:
    """Return the permutation from ``[N, ..., C]`` to ``[N, C, ...]``."""
    return (0, rank - 1, *range(1, rank - 1))


def to_last(rank: int) -> Permutation:
    """Return the permutation from ``[N, C, ...]`` to ``[N, ..., C]``."""
    return (0, *range(2, rank), 1)


class ChannelsFirst(Node):
    """Base of the operators with the channels first: each is an operator of the graph, transposed.

    Attributes:
        plain: The operator itself.
        images: Its operands whose channels are moved; those of all results are.
    """

    plain: ClassVar[type[Node]]
    images: ClassVar[tuple[str, ...]]

    @property
    def channels_last(self) -> Node:
        """The operator of the graph, on placeholders."""
        operands: dict[str, Any] = {}
        for spec in operand_specs(type(self)):
            value = getattr(self, spec.name)
            operands[spec.name] = value and Placeholder(value.name, self._last(spec.name, value))
        return self.plain(**operands, **attributes_of(self), name=self.name)

    def _last(self, name: str, value: Value) -> TensorType:
        type = value.type
        if name not in self.images:
            return type
        return type.with_shape(permute(type.shape, to_last(type.rank)))

    @override
    def infer_types(self) -> tuple[TensorType, ...]:
        return tuple(
            type.with_shape(permute(type.shape, to_first(type.rank)))
            for type in self.channels_last.result_types
        )

    @override
    def evaluate(self, *operands: Any) -> Any:
        specs = operand_specs(type(self))
        moved = (
            array.transpose(to_last(array.ndim)) if spec.name in self.images else array
            for spec, array in zip(specs, operands, strict=True)
        )
        result = self.channels_last.evaluate(*moved)
        results = tuple(map(_first, result if isinstance(result, tuple) else (result,)))
        return results if isinstance(result, tuple) else results[0]


def _first(array: Array) -> Array:
    return np.ascontiguousarray(array.transpose(to_first(array.ndim)))


def channels_first_class(plain: type[Node], images: tuple[str, ...]) -> type[ChannelsFirst]:
    """Return the class of *plain* with the channels of its *images* and results first."""
    fields: list[Any] = []
    for spec in fields_of(plain):
        default = {"default": getattr(plain, spec.name)} if spec.has_default else {}
        fields.append((spec.name, spec.annotation, dataclasses.field(**default)))
    name = f"ChannelsFirst{plain.__name__}"
    namespace = {"plain": plain, "images": images, "data_parallel": False}
    made = dataclasses.make_dataclass(
        name,
        fields,
        bases=(ChannelsFirst,),
        namespace={**namespace, "opcode": f"channels_first_{plain.opcode}"},
        frozen=True,
        eq=False,
        repr=False,
    )
    fields_of(made)
    return cast("type[ChannelsFirst]", made)
