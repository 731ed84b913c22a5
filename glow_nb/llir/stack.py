"""A stack: several instructions that run as one kernel (paper 5.2).

The first instruction, the *head*, may be data parallel or one whose kernel can do more with its
results before it stores them (a convolution, a matrix product). All others are data parallel over
the shape of the head's result. What only the stack itself reads is a :class:`Register`: it has a
type and a name but no memory.

::

    stack {
      %conv1 = register float32<1 x 56 x 56 x 64>
      packed_convolution @out %conv1, @in %x, @in %filter, @in %bias {...} from %conv1
      relu @out %relu1, @in %conv1 from %relu1
    }
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Self

from typing_extensions import override

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
from glow_nb.schema import map_operands


@define_instruction("stack")
class StackInst(Instruction):
    """Run *body* in order on each element of one shape.

    Attributes:
        results: What the body writes to memory, in order.
        sources: What it reads from memory, in order of first use.
        body: The instructions, the head first. Made by :meth:`of`, which derives the other two.
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
    def head(self) -> Instruction:
        """The first instruction."""
        return self.body[0]

    @property
    @override
    def imported_names(self) -> tuple[str, ...]:
        """Those of all members, each once, in order."""
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
        shape = mutated(self.head)[0].type.shape
        for instruction in self.body:
            self.require(
                instruction is self.head or bool(instruction.scalar),
                f"{instruction} is not data parallel and not the first",
            )
            self.require(len(mutated(instruction)) == 1, f"{instruction} has several results")
            (result,) = mutated(instruction)
            self.require(
                result.type.shape == shape,
                f"{instruction} has shape {list(result.type.shape)}, its head {list(shape)}",
            )
            for buffer in read(instruction):
                self.require(
                    not isinstance(buffer, Register) or buffer in known,
                    f"register {buffer!r} is read before it is written",
                )
            self.require(result not in known, f"{result!r} is written twice")
            known.add(result)
