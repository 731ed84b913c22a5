"""The instructions that replace one, from the operators and buffers that a rule returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from glow_nb.base.errors import GlowError
from glow_nb.base.pattern import Given, Item, Number, Pattern, opcode_of
from glow_nb.base.schema import fields_of, operand_specs
from glow_nb.base.types import TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Placeholder
from glow_nb.hlir.known import has_number
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import Activation, Buffer, Instruction, Program, Weight, mutated


class NewBuffers:
    """Makes activations and weights under names that a program does not have yet.

    Attributes:
        weights: Those that were made.
    """

    def __init__(self, program: Program) -> None:
        """Take no name of *program*."""
        markers = (buffer.name for i in program for buffer in mutated(i))
        self._names = Builder(taken={*markers, *(buffer.name for buffer in program.declared)})
        self.weights: list[Weight] = []

    def activation(self, name: str, type: TensorType) -> Activation:
        """Return a new region of the arena."""
        return Activation(self._names.unique_name(name), type)

    def number(self, value: float, beside: TensorType) -> Weight:
        """Return a constant of one element that broadcasts to the type *beside*."""
        array = np.full((1,) * beside.rank, value, beside.kind.dtype)
        type = TensorType.of(array)
        self.weights.append(Weight(self._names.unique_name("number"), type, array))
        return self.weights[-1]


class InstructionWriter:
    """Writes what comes instead of the instruction *root*, last what makes its results.

    Attributes:
        made: The instructions, in order.
    """

    def __init__(
        self, root: Instruction, origins: tuple[str, ...], buffers: NewBuffers, subject: str
    ) -> None:
        """Call all instructions like *root*, with these *origins*. *subject* begins errors."""
        self.made: list[Instruction] = []
        self._root, self._buffers, self._subject = root, buffers, subject
        self._common: dict[str, Any] = {"name": root.name, "origins": origins}

    def write(self, found: Any) -> None:
        """Write what a rule returned: instructions, an operator of buffers, or a buffer.

        Raises:
            GlowError: It is none of these, or is of another type than what is written to.
        """
        if isinstance(found, Instruction):
            found = (found,)
        if isinstance(found, Sequence) and all(isinstance(i, Instruction) for i in found):
            self.made += (i if i.name else dataclasses.replace(i, **self._common) for i in found)
            return
        if isinstance(found, Buffer):
            found = Given(found)
        if isinstance(found, Given):
            found = Item((CopyInst,), {"src": found})
        if not isinstance(found, Item) or not found.is_exact:
            raise GlowError(
                f"{self._subject}: its replacement of {self._root!r} is {found!r:.80}; it must be "
                "an operator, instructions, a buffer, or None to keep the instruction"
            )
        self._instruction(found, lambda _: mutated(self._root))

    def _instruction(
        self, item: Item, dests: Callable[[tuple[TensorType, ...]], Sequence[Buffer]]
    ) -> Sequence[Buffer]:
        """Write what *item* computes into *dests* of the types, and return these."""
        (cls,) = item.classes
        operands = {spec.name for spec in operand_specs(cls)} | {"predicate"}
        values = {name: self._built(value) for name, value in item.fields.items()}
        beside = next((v.type for v in values.values() if isinstance(v, Buffer)), None)
        for name, value in values.items():
            if isinstance(value, Number):
                if beside is None:
                    raise GlowError(f"{self._subject}: {item!r} has no operand except numbers")
                if not has_number(beside.kind, value.value):
                    raise GlowError(
                        f"{self._subject}: {item!r}: {beside.kind.value} cannot represent "
                        f"{value.value!r}; give the rule a condition (when=...)"
                    )
                values[name] = self._buffers.number(value.value, beside)
        if issubclass(cls, Instruction):
            return self._plain(cls, values)
        assert issubclass(cls, Node)
        placed = {n: _placeholders(v) if n in operands else v for n, v in values.items()}
        types = cls(**placed).result_types
        into = dests(types)
        self._check(item, types, into)
        kind = instruction_for(cls)
        outs = (s.name for s in fields_of(kind) if s.qualifier and s.qualifier.name == "out")
        results = dict(zip(outs, into, strict=True))
        self.made.append(kind(**results, **values, **self._common))
        return into

    def _plain(self, cls: type[Instruction], values: dict[str, Any]) -> Sequence[Buffer]:
        """Write an instruction that is given as such, by default into what the root writes."""
        outs = [s.name for s in operand_specs(cls) if s.qualifier and s.qualifier.name == "out"]
        for name, dest in zip(outs, mutated(self._root), strict=False):
            values.setdefault(name, dest)
        self.made.append(cls(**values, **self._common))
        return [values[name] for name in outs]

    def _built(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._built, value))
        if isinstance(value, Given):
            return value.value
        if isinstance(value, Item) and value.is_exact:
            return self._temporary(value)
        if isinstance(value, Pattern) and not isinstance(value, Number):
            raise GlowError(
                f"{self._subject}: {value!r} cannot be built; return operators, buffers and "
                "numbers (the value of a wildcard is passed to the parameter of its name)"
            )
        return value

    def _temporary(self, item: Item) -> Buffer:
        """Write what *item* computes into a new activation."""
        (cls,) = item.classes
        if not issubclass(cls, Node):
            raise GlowError(
                f"{self._subject}: {item!r} is an operand of another instruction; write operands "
                "as operators, so that their type is known"
            )
        name = f"{self._root.name or self._root.opcode}_{opcode_of(cls)}"
        (dest,) = self._instruction(
            item, lambda types: [self._buffers.activation(name, type) for type in types]
        )
        return dest

    def _check(self, item: Pattern, types: Sequence[TensorType], into: Sequence[Buffer]) -> None:
        wanted = tuple(buffer.type for buffer in into)
        if wanted != tuple(types):
            before, after = (", ".join(map(str, each)) for each in (wanted, types))
            raise GlowError(
                f"{self._subject}: it would replace {self._root!r}, which makes {before}, by "
                f"{item!r}, which makes {after}; give it a condition (when=...)"
            )


def _placeholders(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_placeholders, value))
    return Placeholder(value.name, value.type) if isinstance(value, Buffer) else value


def buffers_in(values: Sequence[Any]) -> Iterator[Buffer]:
    """Yield the buffers among *values*, and in tuples of these."""
    for value in values:
        if isinstance(value, tuple):
            yield from buffers_in(value)
        elif isinstance(value, Buffer):
            yield value
