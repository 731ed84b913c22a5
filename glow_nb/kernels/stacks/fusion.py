"""The fused instructions around a stack's head: before its kernel reads, and before it stores.

A kernel that can be the head of a stack takes a :class:`Fusion`, which knows its pointers. The
kernel calls ``read`` for a vector of its input, which the prologue may compute, and ``write`` for a
vector of its result, to which the epilogue is applied first; both stay in registers
(:mod:`glow_nb.llir.stack`). Without a stack, these are a load and a store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Protocol

from glow_nb.base.schema import operand_specs
from glow_nb.base.types import ElementKind
from glow_nb.fuse.loop_body import LoopBody
from glow_nb.fuse.vector_code import Vector, VectorCode
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.llir.program import (
    Buffer,
    Instruction,
    kernel_operands,
    mutated,
    read,
)
from glow_nb.llir.scalar_functions import CostClass
from glow_nb.llir.stack import StackInst

CHEAP_OPERATIONS = 3
"""Vector operations that are repeated rather than kept."""


class Place(Protocol):
    """Where the elements of one vector, or of one register tile, lie in each tensor."""

    @property
    def lanes(self) -> int:
        """Elements of a vector."""

    def load(self, pointer: str) -> str:
        """Return the load of the elements of one tensor."""

    def store(self, pointer: str, vector: str) -> str:
        """Return the store of *vector* to one tensor."""


@dataclass(frozen=True)
class Fusion:
    """A head, alone or in a stack, and the pointers of its kernel.

    Attributes:
        head: The instruction that is not data parallel.
        pointers: Name and tensor of each argument, in order, the results first.
        results: The results that the kernel writes to memory, in the order of the pointers.
        prologue: The instructions that compute the input of the head; None if it is in memory.
        epilogue: The instructions that read the result of the head; None if it is stored as it is.
    """

    head: Instruction
    pointers: tuple[tuple[str, Buffer], ...]
    results: tuple[Buffer, ...]
    prologue: LoopBody | None = None
    epilogue: LoopBody | None = None

    @classmethod
    def of(cls, instruction: Instruction) -> Fusion:
        """Return what a stack does around its head, or nothing around any other instruction.

        The pointers are ``dest0, dest1, ..., src0, src1, ...``.
        """
        results = mutated(instruction)
        operands = kernel_operands(instruction)
        names = [f"dest{number}" for number in range(len(results))]
        names += [f"src{number}" for number in range(len(operands) - len(results))]
        pointers = tuple(zip(names, operands, strict=True))
        if not isinstance(instruction, StackInst):
            return cls(instruction, pointers, results)
        head = instruction.head
        assert head is not None, f"{instruction} has no head"

        def part(members: tuple[Instruction, ...]) -> LoopBody | None:
            made = [mutated(member)[0] for member in members]
            return LoopBody(members, tuple(b for b in made if b in results)) if members else None

        return cls(head, pointers, results, part(instruction.prologue), part(instruction.epilogue))

    def named(self, *names: str) -> Fusion:
        """Return it with *names* for the pointers of a head that is alone; in a stack, as it is."""
        return self if self.prologue or self.epilogue else self._with_names(names)

    def named_by_field(self) -> Fusion:
        """Return it with what the head reads called as its fields are, and the others numbered.

        These are ``dest, result1, result2, ...`` and ``operand0, operand1, ...``.
        """
        fields = {
            spec.name: getattr(self.head, spec.name) for spec in operand_specs(type(self.head))
        }
        names = ["dest", *(f"result{number}" for number in range(1, len(self.results)))]
        numbers = count()
        for _, buffer in self.pointers[len(self.results) :]:
            own = (name for name, b in fields.items() if b is buffer and name not in names)
            names.append(next(own, None) or f"operand{next(numbers)}")
        return self._with_names(names)

    def _with_names(self, names: Iterable[str]) -> Fusion:
        operands = (buffer for _, buffer in self.pointers)
        return replace(self, pointers=tuple(zip(names, operands, strict=True)))

    @property
    def header(self) -> str:
        """The first line of the kernel."""
        names = [name for name, _ in self.pointers]
        return f"def kernel({', '.join([*names, 'scratch, thread, threads'])}):"

    @property
    def kinds(self) -> tuple[ElementKind, ...]:
        """Element kinds of the arguments."""
        return tuple(buffer.type.kind for _, buffer in self.pointers)

    @cached_property
    def names(self) -> dict[Buffer, str]:
        """A name of the pointer to each tensor."""
        return {buffer: name for name, buffer in self.pointers}

    @property
    def input(self) -> Buffer:
        """The input that the head reads element by element; maybe a register.

        The prologue makes it; without one, it is the first operand.
        """
        operands = read(self.head)
        made = self.prologue.results if self.prologue else ()
        return next((buffer for buffer in operands if buffer in made), operands[0])

    @property
    def made(self) -> Buffer:
        """The result that the head writes; maybe a register."""
        return mutated(self.head)[0]

    def tensors(
        self,
        strides_of: Callable[[Buffer], tuple[int, ...]],
        strides_of_result: Callable[[Buffer], tuple[int, ...]] | None = None,
    ) -> dict[str, tuple[int, ...]]:
        """Return the strides of every pointer over the loops of a kernel.

        Tables are left out, which are read whole.

        Args:
            strides_of: Those of a tensor that belongs to the elements of the input.
            strides_of_result: Those of one that belongs to the result, if they differ.
        """
        at_input = {self.input, *(self.prologue.arguments if self.prologue else ())}
        return {
            name: (strides_of if buffer in at_input else strides_of_result or strides_of)(buffer)
            for name, buffer in self.pointers
            if buffer not in self.tables
        }

    @cached_property
    def tables(self) -> frozenset[Buffer]:
        """The lookup tables of bytes of the instructions around the head."""
        bodies = (body for body in (self.prologue, self.epilogue) if body)
        return frozenset(table for body in bodies for table in body.tables)

    def read(self, out: SourceWriter, place: Place) -> str:
        """Return the input of the head at *place*, once what computes it is written."""
        if self.prologue is None:
            return place.load(self.names[self.input])
        return self._run_prologue(out, place, self.prologue)

    def read_again(self, out: SourceWriter, place: Place) -> str:
        """Return the input once more, computed from what :meth:`read` has stored already."""
        if self.input in self.names or self.prologue is None:
            return place.load(self.names[self.input])
        stored = self.prologue.stored
        rest = [i for i in self.prologue.instructions if mutated(i)[0] not in stored]
        return self._run_prologue(out, place, LoopBody(tuple(rest), ()))

    def _run_prologue(self, out: SourceWriter, place: Place, body: LoopBody) -> str:
        vectors = self._run(out, place, body, VectorCode(place.lanes, "p"), {})
        for buffer in body.stored:
            out.line(place.store(self.names[buffer], vectors[buffer].name))
        return vectors[self.input].name

    def write(self, out: SourceWriter, place: Place, result: str) -> None:
        """Write what becomes of *result*, a vector of the kind of the head's result."""
        if self.epilogue is not None:
            code = VectorCode(place.lanes, "q")
            vectors = self.finish(out, place, code, code.assign(result, self.made.type.kind))
            for buffer in self.epilogue.stored:
                out.line(place.store(self.names[buffer], vectors[buffer].name))
            result = vectors[self.made].name
        if self.made in self.names:  # after the loads of the epilogue: it may lie upon an operand
            out.line(place.store(self.names[self.made], result))

    def finish(
        self, out: SourceWriter, place: Place, code: VectorCode, result: Vector
    ) -> dict[Buffer, Vector]:
        """Write the epilogue on *result*, with the lines of *code*, and return all results.

        It loads everything and stores nothing: a result may lie upon an operand.
        """
        assert self.epilogue is not None
        return self._run(out, place, self.epilogue, code, {self.made: result})

    def _run(
        self,
        out: SourceWriter,
        place: Place,
        body: LoopBody,
        code: VectorCode,
        known: dict[Buffer, Vector],
    ) -> dict[Buffer, Vector]:
        """Write *body* at *place* without its stores; returns what is known then."""
        vectors = dict(known)
        for buffer in body.inputs:
            if buffer not in vectors:
                load = place.load(self.names[buffer])
                vectors[buffer] = code.assign(load, buffer.type.kind)
        vectors |= body.write(code, vectors, self.names)
        for line in code.lines:
            out.line(line)
        return vectors

    @property
    def is_cheap(self) -> bool:
        """Return whether so few operations compute the input that it may be computed again."""
        if self.prologue is None:
            return True
        trial = self.prologue.trial()
        is_plain = all(function.cost is CostClass.CHEAP for function, _ in trial.calls)
        return is_plain and trial.operations <= CHEAP_OPERATIONS
