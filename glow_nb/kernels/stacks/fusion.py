"""What a stack does around a head that works block by block: before it reads, and before it stores.

A pooling, a reduction or a softmax asks here for the elements of its input, and hands over its
results. Alone, it gets a load and gives a store. In a stack (:mod:`glow_nb.llir.stack`), the
producers compute the input from what they read, and the riders go on with the result, in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from glow_nb.fuse.expression import Vector, VectorCode
from glow_nb.fuse.stack import Stack
from glow_nb.kernels.registry import CPU_KERNELS
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.turns import Square, squares
from glow_nb.kernels.writing.vectors import Site, computed_kind, native_lanes
from glow_nb.kernels.writing.walks import Walk
from glow_nb.llir.program import Buffer, Instruction, kernel_operands, mutated
from glow_nb.llir.scalar_functions import CostClass
from glow_nb.llir.stack import StackInst
from glow_nb.llir.traits import traits_of
from glow_nb.types import ElementKind

LONGEST_COPY = 128 * 1024
"""Bytes of a row of computed inputs that are kept: they should stay in the second-level cache."""
CHEAP_LINES = 3
"""Vector operations that are repeated rather than kept."""


@dataclass(frozen=True)
class Fusion:
    """A head, alone or in a stack, and the pointers of its kernel.

    Attributes:
        head: The instruction whose kernel it is.
        pointers: Name and tensor of each argument, in order.
        producers: What computes the input of the head; None if it lies in memory.
        riders: What is done to the result of the head; None if it is stored as it is.
    """

    head: Instruction
    pointers: tuple[tuple[str, Buffer], ...]
    producers: Stack | None = None
    riders: Stack | None = None

    @classmethod
    def alone(cls, head: Instruction, *names: str) -> Fusion:
        """Return *head* by itself; *names* are those of the pointers to its operands."""
        return cls(head, tuple(zip(names, kernel_operands(head), strict=True)))

    @classmethod
    def of(cls, stack: StackInst) -> Fusion:
        """Return the head of *stack* and what stands around it."""
        head = stack.head
        assert head is not None, f"{stack} has no head"
        names = [f"dest{number}" for number in range(len(stack.results))]
        names += [f"src{number}" for number in range(len(stack.sources))]

        def part(instructions: tuple[Instruction, ...]) -> Stack | None:
            if not instructions:
                return None
            made = [mutated(instruction)[0] for instruction in instructions]
            return Stack(instructions, tuple(b for b in made if b in stack.results))

        return cls(
            head,
            tuple(zip(names, kernel_operands(stack), strict=True)),
            part(stack.producers),
            part(stack.riders),
        )

    @property
    def header(self) -> str:
        """The first line of the kernel."""
        names = [name for name, _ in self.pointers]
        return f"def kernel({', '.join([*names, 'scratch, thread, threads'])}):"

    @property
    def kinds(self) -> tuple[ElementKind, ...]:
        """Element kinds of the arguments."""
        return tuple(buffer.type.kind for _, buffer in self.pointers)

    @property
    def names(self) -> dict[Buffer, str]:
        """A name of the pointer to each tensor."""
        return {buffer: name for name, buffer in self.pointers}

    @property
    def input(self) -> Buffer:
        """What the head reads element by element; maybe a register."""
        operand = traits_of(self.head, CPU_KERNELS.traits).prologue_operand
        buffer: Buffer = getattr(self.head, operand)
        return buffer

    @property
    def made(self) -> Buffer:
        """What the head writes; maybe a register."""
        return mutated(self.head)[0]

    def tensors(
        self,
        strides_of: Callable[[Buffer], tuple[int, ...]],
        strides_of_result: Callable[[Buffer], tuple[int, ...]] | None = None,
    ) -> dict[str, tuple[int, ...]]:
        """Return the strides of every pointer over the loops of a kernel.

        Args:
            strides_of: Those of a tensor that belongs to the elements of the input.
            strides_of_result: Those of one that belongs to the result, if they differ.
        """
        at_input = {self.input, *(self.producers.arguments if self.producers else ())}
        return {
            name: (strides_of if buffer in at_input else strides_of_result or strides_of)(buffer)
            for name, buffer in self.pointers
        }

    @property
    def may_turn(self) -> bool:
        """True if rows of these kinds can be turned over in registers."""
        return all(kind is ElementKind.FLOAT32 for kind in self.kinds)

    def read(self, out: SourceWriter, site: Site | Square) -> str:
        """Return the input of the head at *site*, once what computes it is written."""
        if self.producers is None:
            return site.load(self.names[self.input])
        return self._run(self.producers, out, site, {}, "p")[self.input].name

    def read_again(self, out: SourceWriter, site: Site) -> str:
        """Return the input once more, computed from what :meth:`read` has stored already."""
        if self.input in self.names or self.producers is None:
            return site.load(self.names[self.input])
        stored = self.producers.stored
        rest = [i for i in self.producers.instructions if mutated(i)[0] not in stored]
        return self._run(Stack(tuple(rest), ()), out, site, {}, "p")[self.input].name

    def write(self, out: SourceWriter, site: Site | Square, result: str) -> None:
        """Write what becomes of *result*, a vector of the kind of the head's result."""
        if self.riders is not None:
            made = {self.made: Vector(result, self.made.type.kind)}
            result = self._run(self.riders, out, site, made, "q")[self.made].name
        if self.made in self.names:  # after the loads of the riders: it may lie upon an operand
            out.line(site.store(self.names[self.made], result))

    def _run(
        self,
        stack: Stack,
        out: SourceWriter,
        site: Site | Square,
        known: Mapping[Buffer, Vector],
        prefix: str,
    ) -> dict[Buffer, Vector]:
        """Write the code of *stack* at *site* and the stores of its results.

        Everything is loaded before anything is stored: a result may lie upon an operand.
        """
        code, names = VectorCode(site.lanes, prefix), self.names
        vectors = {buffer: code.assign(v.name, v.kind) for buffer, v in known.items()}
        for buffer in stack.inputs:
            if buffer not in vectors:
                vectors[buffer] = code.assign(site.load(names[buffer]), buffer.type.kind)
        results = stack.write(code, vectors)
        for line in code.lines:
            out.line(line)
        for buffer in stack.stored:
            out.line(site.store(names[buffer], results[buffer].name))
        return vectors | results

    @property
    def is_cheap(self) -> bool:
        """True if the input is computed in so few operations that it may be computed again."""
        if self.producers is None:
            return True
        trial = VectorCode(1)
        inputs = self.producers.inputs
        self.producers.write(trial, {b: Vector(f"x{i}", b.type.kind) for i, b in enumerate(inputs)})
        is_plain = all(function.cost is CostClass.CHEAP for function, _ in trial.calls)
        return is_plain and len(trial.lines) <= CHEAP_LINES


@dataclass(frozen=True)
class Rows:
    """How a kernel that walks over its input several times comes by it, and where results go.

    What producers compute is stored anyhow, or kept in scratch for the row, or computed again.

    Attributes:
        fusion: The head, its producers and its riders.
        walk: The loops.
        keeps: The first walk keeps the input in ``kept``, a row of scratch.
        native_lanes: Elements of a vector register.
    """

    fusion: Fusion
    walk: Walk
    keeps: bool
    native_lanes: int

    @classmethod
    def of(cls, fusion: Fusion, walk: Walk, target: Target, *, keeps: bool = False) -> Rows:
        """Return the cheapest way for *fusion*; with *keeps*, the row is kept if it is short."""
        lanes = native_lanes(target, computed_kind(fusion.input.type.kind))
        is_stored = fusion.input in fusion.names
        keeps = walk.is_turned or keeps or not (is_stored or fusion.is_cheap)
        rows = cls(fusion, walk, keeps, lanes)
        fits = rows.scratch_bytes <= LONGEST_COPY
        return rows if fits else cls(fusion, walk, keeps=False, native_lanes=lanes)

    @property
    def kind(self) -> ElementKind:
        """Kind of the elements that are kept: what they are computed in."""
        return computed_kind(self.fusion.input.type.kind)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch for a row."""
        return self.walk.row_elements * self.kind.size_bytes if self.keeps else 0

    def places(self, out: SourceWriter) -> Iterator[Site]:
        """Write loops over the places; what is written for each one yielded is its body."""
        if self.keeps:
            out.line(f"kept = as_{self.kind.value}(scratch)")
        for place in self.walk.places(out):
            if self.walk.is_turned:
                for square in squares(out, self.walk, place, self.native_lanes):
                    out.line(square.keep(self.fusion.read(out, square)))
            yield place

    def first(self, out: SourceWriter, site: Site) -> str:
        """Return the input at *site* for the first walk, in the kind that is computed in."""
        if self.walk.is_turned:
            return self.again(out, site)
        value = self._widened(self.fusion.read(out, site))
        if self.keeps:
            out.line(f"store(kept, {site.step}, {value})")
        return value

    def again(self, out: SourceWriter, site: Site) -> str:
        """Return the input at *site* for a later walk."""
        if self.keeps:
            return f"load(kept, {site.step}, {site.lanes})"
        return self._widened(self.fusion.read_again(out, site))

    def write(self, out: SourceWriter, site: Site, result: str) -> None:
        """Write what becomes of a result that takes the place of the input at *site*."""
        if self.walk.is_turned:
            out.line(f"store(kept, {site.step}, {result})")
        else:
            self.fusion.write(out, site, result)

    def finish(self, out: SourceWriter, place: Site) -> None:
        """Write what follows the last walk at *place*, if results were written."""
        if self.walk.is_turned:
            for square in squares(out, self.walk, place, self.native_lanes):
                out.line(f"turned = {square.kept}")
                self.fusion.write(out, square, "turned")

    def _widened(self, value: str) -> str:
        kind = self.fusion.input.type.kind
        return value if kind is self.kind else f"convert_{self.kind.value}({value})"
