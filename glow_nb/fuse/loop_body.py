"""The body of a loop: data-parallel instructions, one after the other on each element (paper 5.2).

Intermediate results stay in registers; only those that something else reads later are stored. What
the loop is, and where its operands come from, is the business of who asks the body to write itself:
a plain loop over memory, or the prologue or the epilogue of another kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from glow_nb.base.errors import VerifyError
from glow_nb.base.schema import operand_specs
from glow_nb.fuse.expression import write_scalar
from glow_nb.fuse.vector_code import Vector, VectorCode
from glow_nb.llir.program import Buffer, Instruction, mutated
from glow_nb.llir.scalar import tables_of


@dataclass(frozen=True)
class LoopBody:
    """An ordered run of data-parallel instructions over one shape.

    Attributes:
        instructions: In program order; each has a scalar expression and one result.
        stored: The results that are written to memory; the others exist in registers only.
    """

    instructions: tuple[Instruction, ...]
    stored: tuple[Buffer, ...]

    def __post_init__(self) -> None:
        for instruction in self.instructions:
            if not instruction.scalar:
                raise VerifyError(
                    instruction, "is not data parallel and cannot be in the body of a loop"
                )
            (dest,) = mutated(instruction)
            if dest.type.shape != self.shape:
                raise VerifyError(
                    instruction,
                    f"result {dest.type} does not have the shape {list(self.shape)} of its loop",
                )
        foreign = [buffer for buffer in self.stored if buffer not in self.results]
        if foreign:
            raise VerifyError(foreign[0], "is stored but not computed by the loop")

    @classmethod
    def of(cls, instruction: Instruction) -> LoopBody:
        """Return the body of a single *instruction*."""
        return cls((instruction,), mutated(instruction))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of every result."""
        return mutated(self.instructions[0])[0].type.shape

    @cached_property
    def results(self) -> tuple[Buffer, ...]:
        """The result of each instruction."""
        return tuple(mutated(instruction)[0] for instruction in self.instructions)

    @cached_property
    def inputs(self) -> tuple[Buffer, ...]:
        """The inputs that are read element by element, in order of first use."""
        found: dict[Buffer, None] = {}
        computed: set[Buffer] = set()
        for instruction, result in zip(self.instructions, self.results, strict=True):
            reads = _operands_by_name(instruction).values()
            others = {*computed, *tables_of(instruction)}
            found.update((buffer, None) for buffer in reads if buffer not in others)
            computed.add(result)
        return tuple(found)

    @cached_property
    def tables(self) -> tuple[Buffer, ...]:
        """The lookup tables of bytes, in order of first use."""
        return tuple(dict.fromkeys(t for member in self.instructions for t in tables_of(member)))

    @property
    def arguments(self) -> tuple[Buffer, ...]:
        """The pointer arguments of a kernel of the loop: stored results, inputs, tables."""
        return (*self.stored, *self.inputs, *self.tables)

    def trial(self) -> VectorCode:
        """Return the code for vectors of one lane called ``x0, x1, ...``, to see what it takes."""
        code = VectorCode(1)
        vectors = {b: Vector(f"x{i}", b.type.kind) for i, b in enumerate(self.inputs)}
        self.write(code, vectors, dict.fromkeys(self.tables, "table"))
        return code

    def write(
        self, code: VectorCode, vectors: Mapping[Buffer, Vector], pointers: Mapping[Buffer, str]
    ) -> dict[Buffer, Vector]:
        """Append all instructions to *code*.

        Args:
            code: Receives the lines.
            vectors: The vector that holds the present elements of each of :attr:`inputs`.
            pointers: The name of the pointer to each of :attr:`tables`, at least.

        Returns:
            The vectors of all results, of which :attr:`stored` are to be written to memory.
        """
        known = {t: Vector(pointers[t], t.type.kind) for t in self.tables} | dict(vectors)
        for instruction, result in zip(self.instructions, self.results, strict=True):
            operands = {
                name: known[buffer] for name, buffer in _operands_by_name(instruction).items()
            }
            known[result] = write_scalar(code, instruction, operands)
        return {result: known[result] for result in self.results}


def _operands_by_name(instruction: Instruction) -> dict[str, Buffer]:
    """Return the buffers that *instruction* reads by field name."""
    return {
        spec.name: getattr(instruction, spec.name)
        for spec in operand_specs(type(instruction))
        if spec.qualifier is not None
        and spec.qualifier.name != "out"
        and getattr(instruction, spec.name) is not None
    }
