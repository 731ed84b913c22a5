"""A stack: several instructions that run as one kernel (paper 5.2).

All instructions of a stack are data parallel, except at most one, the *head*. Those
after the head are its *epilogue*, data parallel over the shape of its result: the kernel of the
head applies them before it stores. Those before it are its *prologue*, data parallel over the shape
of the one operand of the head that they make: the kernel computes them as it reads that operand.
Without a head, all are called the epilogue, and the kernel is a plain loop.

A value that only the stack itself reads is a :class:`Register`: it has a type and a name but no
memory. ::

    stack {
      %scaled = register float32<64 x 1000>
      mul @out %scaled, @in %x, @in %factor from %scaled
      %softmax = register float32<64 x 1000>
      softmax @out %softmax, @in %scaled {axis = 1} from %softmax
      add @out %y, @in %softmax, @in %x from %y
    }

The body is in order: an instruction reads only values from outside or from earlier instructions. A
kernel is free to run the prologue for one element, then the head, then the epilogue, or to compute
a part of the prologue again, as long as it reads an element of a source before it stores a result
at the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Self

from typing_extensions import override

from glow_nb.base.schema import map_operands
from glow_nb.llir.program import (
    Buffer,
    Instruction,
    ManyIn,
    ManyOut,
    Register,
    define_instruction,
    mutated,
    read,
)
from glow_nb.llir.scalar import tables_of


@define_instruction("stack")
class StackInst(Instruction):
    """Run the instructions of *body*, in order, as one kernel.

    Attributes:
        results: The results that the body writes to memory, in order.
        sources: The buffers that it reads from memory, in order of first use.
        body: The instructions in order: prologue, head, epilogue. Made by :meth:`of`, which
            derives the other two.
    """

    results: ManyOut
    sources: ManyIn
    body: tuple[Instruction, ...]

    @classmethod
    def of(cls, body: Iterable[Instruction]) -> Self:
        """Return the stack of *body*; the stack has the name of the last instruction."""
        body = tuple(body)
        results: dict[Buffer, None] = {}
        sources: dict[Buffer, None] = {}
        for instruction in body:
            reads = (b for b in read(instruction) if b not in results)
            sources.update((b, None) for b in reads if not isinstance(b, Register))
            writes = mutated(instruction)
            results.update((b, None) for b in writes if not isinstance(b, Register))
        return cls(tuple(results), tuple(sources), body, name=body[-1].name if body else "")

    @property
    def head(self) -> Instruction | None:
        """The instruction that is not data parallel, if there is one."""
        return next((instruction for instruction in self.body if not instruction.scalar), None)

    @property
    def prologue(self) -> tuple[Instruction, ...]:
        """The instructions before the head."""
        return self.body[: self.body.index(self.head)] if self.head else ()

    @property
    def epilogue(self) -> tuple[Instruction, ...]:
        """The instructions after the head; all, if there is none."""
        return self.body[self.body.index(self.head) + 1 :] if self.head else self.body

    @property
    def fused_operand(self) -> Buffer | None:
        """The operand of the head that the prologue makes; None if there is no prologue."""
        return next(iter(self._read_of_prologue()), None)

    @property
    @override
    def imported_names(self) -> tuple[str, ...]:
        """The imported names of all members, each once, in order."""
        return tuple(dict.fromkeys(name for i in self.body for name in i.imported_names))

    @override
    def map_operands(self, function: Callable[[Buffer], Buffer]) -> Self:
        body = tuple(map_operands(instruction, function) for instruction in self.body)
        same = all(new is old for new, old in zip(body, self.body, strict=True))
        return self if same else type(self).of(body)

    @override
    def verify(self) -> None:
        self.require(len(self.body) >= 1, "it has no instructions")
        known: set[Buffer] = set()
        for instruction in self.body:
            if not (instruction is self.head or instruction.scalar):
                self.require(
                    False,
                    f"{instruction} is not data parallel, and {self.head} is the head already",
                )
            if len(mutated(instruction)) != 1:
                self.require(False, f"{instruction} has several results")
            (result,) = mutated(instruction)
            for buffer in read(instruction):
                self.require(
                    not isinstance(buffer, Register) or buffer in known,
                    f"register {buffer!r} is read before it is written",
                )
            for table in tables_of(instruction):
                self.require(table not in known, f"table {table!r} is made in the same stack")
            self.require(result not in known, f"{result!r} is written twice")
            known.add(result)
        self._verify_shapes(self.epilogue, mutated(self.head or self.body[0])[0])
        if self.prologue:
            self._verify_prologue()

    def _verify_shapes(self, instructions: Iterable[Instruction], like: Buffer) -> None:
        for instruction in instructions:
            (result,) = mutated(instruction)
            if result.type.shape != like.type.shape:
                self.require(
                    False,
                    f"{instruction} has shape {list(result.type.shape)}, "
                    f"{like!r} has {list(like.type.shape)}",
                )

    def _verify_prologue(self) -> None:
        fused = self._read_of_prologue()
        self.require(
            len(fused) == 1,
            f"{self.head} must read one operand that is computed before it, it reads "
            f"{', '.join(map(repr, fused)) or 'none'}",
        )
        self._verify_shapes(self.prologue, fused[0])
        made = self._made_by_prologue()
        for member in self.epilogue:
            for buffer in read(member):
                self.require(buffer not in made, f"{member} reads {buffer!r} from before the head")

    def _made_by_prologue(self) -> set[Buffer]:
        return {buffer for member in self.prologue for buffer in mutated(member)}

    def _read_of_prologue(self) -> list[Buffer]:
        """Return the operands of the head that its prologue makes."""
        made = self._made_by_prologue()
        return [buffer for buffer in read(self.head) if buffer in made] if self.head else []


def tables_in(instruction: Instruction) -> frozenset[Buffer]:
    """Return the tables in which members of a stack, or *instruction* itself, look bytes up."""
    return frozenset(b for member in members_of(instruction) for b in tables_of(member))


def members_of(instruction: Instruction) -> tuple[Instruction, ...]:
    """Return the body of a stack, or *instruction* alone."""
    return instruction.body if isinstance(instruction, StackInst) else (instruction,)


def without(instruction: Instruction, member: Instruction) -> Instruction | None:
    """Return *instruction* without one *member*; a single remaining instruction is no stack.

    The result is None if nothing that writes to memory remains.
    """
    body = [other for other in members_of(instruction) if other is not member]
    if all(isinstance(buffer, Register) for other in body for buffer in mutated(other)):
        return None
    return body[0] if len(body) == 1 else StackInst.of(body)
