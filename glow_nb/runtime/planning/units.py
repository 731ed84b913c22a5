"""A program as units: kernels that stay together, and the edges that go between them.

A cut comes between units, so that each part has kernels of the whole network. Kernels that write
one region stay together, as do all that touch a state, or an input that is an output as well; and
outputs whose size a run decides stay with their counts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

from glow_nb.base.schema import operands_of
from glow_nb.llir.in_place import candidates
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import (
    Activation,
    Buffer,
    Instruction,
    Program,
    StateBuffer,
    Weight,
    mutated,
    read,
)
from glow_nb.llir.stack import members_of
from glow_nb.llir.traits import NO_TRAITS, Traits
from glow_nb.runtime.planning.aliased import aliased_regions
from glow_nb.runtime.planning.costs import KernelWork
from glow_nb.runtime.planning.efficiency import UNMEASURED, Efficiencies
from glow_nb.runtime.planning.groups import in_order, joined
from glow_nb.runtime.planning.moves import is_copy, movers_of, without_own_copies


@dataclass(frozen=True)
class Unit:
    """Instructions that run on one device, one after the other.

    Attributes:
        instructions: Their numbers in the program's ``work``, ascending.
        kernels: The work of each kernel; without copies that other passes may remove.
        operators: The operators that they compute.
        nodes: The nodes of the model that they compute.
        inner_bytes: The most memory that its own activations take at a time.
        on_read_bytes: Bytes of its results that need no memory, since they lie on what it reads.
        copied: Bytes that it copies of regions of others, which may lie in what it makes.
    """

    instructions: tuple[int, ...]
    kernels: tuple[KernelWork, ...]
    operators: frozenset[str]
    nodes: tuple[str, ...]
    inner_bytes: int
    on_read_bytes: int
    copied: Mapping[Buffer, int]

    @property
    def shared_bytes(self) -> int:
        """Bytes that are in memory once, though it reads and writes them."""
        return self.on_read_bytes + sum(self.copied.values())


@dataclass(frozen=True)
class Edge:
    """A region of memory that goes from a unit to others, or comes from or goes to the caller.

    Attributes:
        buffer: The region.
        producer: The unit that makes it; None for an input of the network.
        readers: The other units that read it, ascending.
        is_output: Whether it is an output of the network.
    """

    buffer: Buffer
    producer: int | None
    readers: tuple[int, ...]
    is_output: bool

    @property
    def size_bytes(self) -> int:
        """Its size."""
        return self.buffer.type.size_bytes


@dataclass(frozen=True)
class Move:
    """A copy that stays if it is in another part than what makes its source.

    Attributes:
        producer: The unit that makes it.
        unit: The unit that copies it.
        kernel: The work of the copy.
    """

    producer: int
    unit: int
    kernel: KernelWork


@dataclass(frozen=True, eq=False)
class Units:
    """The units of a program, each after those that it reads from.

    Attributes:
        program: The program, whose memory is not placed.
        units: The units.
        edges: The values that pass between them, and from and to the caller.
        moves: Copies that stay where a cut comes before them.
        kept: Weights and states, each with the units that need it.
        aliased: The regions of edges that may lie in what else is counted.
        traits: The traits of the kernels.
        efficiencies: The efficiencies of the kernels.
        is_merged: Whether each stands for several units, neighbours in the order.
    """

    program: Program
    units: tuple[Unit, ...]
    edges: tuple[Edge, ...]
    moves: tuple[Move, ...] = field(repr=False)
    kept: Mapping[Buffer, tuple[int, ...]] = field(repr=False)
    aliased: Set[Buffer] = field(repr=False)
    traits: Traits = field(repr=False)
    efficiencies: Efficiencies = field(repr=False)
    is_merged: bool = False

    @cached_property
    def at_once(self) -> list[set[Buffer]]:
        """The memory that each unit reads and writes at once.

        Kernels that stay together, since they write one region, need not follow each other: of
        them, the one counts that touches most. Units that are merged run in their order.
        """
        work = self.program.work
        found = []
        for unit in self.units:
            touched = [{b.root for b in operands_of(work[n])} for n in unit.instructions]
            if self.is_merged:
                found.append(set().union(*touched))
            else:
                found.append(max(touched, key=lambda one: sum(b.type.size_bytes for b in one)))
        return found

    @cached_property
    def before(self) -> list[set[int]]:
        """The units that each unit reads from."""
        found: list[set[int]] = [set() for _ in self.units]
        for edge in self.edges:
            for reader in edge.readers:
                if edge.producer is not None:
                    found[reader].add(edge.producer)
        return found

    @cached_property
    def above(self) -> list[int]:
        """The units that come before each unit, as bits."""
        found = [0] * len(self.units)
        for number, before in enumerate(self.before):
            for other in before:
                found[number] |= found[other] | 1 << other
        return found

    @cached_property
    def below(self) -> list[int]:
        """The units after each unit, as bits."""
        found = [0] * len(self.units)
        for number in reversed(range(len(found))):
            for other in self.before[number]:
                found[other] |= found[number] | 1 << number
        return found

    @cached_property
    def made(self) -> list[list[Edge]]:
        """The edges that each unit makes."""
        found: list[list[Edge]] = [[] for _ in self.units]
        for edge in self.edges:
            if edge.producer is not None:
                found[edge.producer].append(edge)
        return found

    @cached_property
    def read(self) -> list[list[Edge]]:
        """The edges that each unit reads from others."""
        found: list[list[Edge]] = [[] for _ in self.units]
        for edge in self.edges:
            for reader in edge.readers if edge.producer is not None else ():
                found[reader].append(edge)
        return found

    @property
    def is_chain(self) -> bool:
        """Return whether each unit but the first reads from the one before it alone."""
        return all(found == set(range(n)[-1:]) for n, found in enumerate(self.before)) and all(
            len(edge.readers) <= 1 for edge in self.edges if edge.producer is not None
        )

    def merged(self, groups: Sequence[int]) -> Units:
        """Return larger units: *groups* has the number of that of each unit, in a right order."""
        group_of = [0] * sum(len(unit.instructions) for unit in self.units)
        for unit, group in zip(self.units, groups, strict=True):
            for number in unit.instructions:
                group_of[number] = group
        units = _units_from(self.program, group_of, self.traits, self.efficiencies)
        return dataclasses.replace(units, is_merged=True)


def units_of(
    program: Program, traits: Traits = NO_TRAITS, efficiencies: Efficiencies = UNMEASURED
) -> Units:
    """Return the units of *program*, whose memory is not placed.

    *traits* say what its kernels can do, *efficiencies* how fast they are.
    """
    touched = _Touched(program)
    group_of = joined(len(touched.work), touched.together())
    edges = [
        (group_of[writer], group_of[reader])
        for root, writers in touched.writers.items()
        for writer in writers[:1]
        for reader in touched.readers.get(root, ())
    ]
    return _units_from(program, in_order(group_of, edges), traits, efficiencies)


class _Touched:
    """The instructions that read and write each region."""

    def __init__(self, program: Program) -> None:
        self.program, self.work = program, program.work
        self.readers: dict[Buffer, list[int]] = {}
        self.writers: dict[Buffer, list[int]] = {}
        for number, instruction in enumerate(self.work):
            for root in dict.fromkeys(b.root for b in read(instruction)):
                self.readers.setdefault(root, []).append(number)
            for root in dict.fromkeys(b.root for b in mutated(instruction)):
                self.writers.setdefault(root, []).append(number)

    def together(self) -> Iterable[list[int]]:
        """Yield instructions that must stay together, by their numbers."""
        program = self.program
        kept = {*program.state, *(set(program.inputs) & set(program.outputs))}
        for root, writers in self.writers.items():
            readers = self.readers.get(root, [])
            if root not in kept:
                readers = [number for number in readers if number <= writers[-1]]
            yield writers + readers
        for number, instruction in enumerate(self.work):
            yield [number, *self._source(instruction)]
        for root in kept:
            yield self.readers.get(root, []) + self.writers.get(root, [])
        named = {output.name: output for output in program.outputs}
        for output in program.outputs:
            if output.counted:
                count = named[output.counted.count]
                yield self.writers.get(output, []) + self.writers.get(count, [])

    def _source(self, instruction: Instruction) -> list[int]:
        """Return what makes the region that *instruction* copies to one that it makes alone."""
        if isinstance(instruction, CopyInst) and len(self.writers[instruction.dest.root]) == 1:
            return self.writers.get(instruction.src.root, [])[:1]
        return []


def _units_from(
    program: Program, group_of: Sequence[int], traits: Traits, efficiencies: Efficiencies
) -> Units:
    """Return the units of *program*, given the number of that of each instruction."""
    touched = _Touched(program)
    members: list[list[int]] = [[] for _ in range(max(group_of, default=-1) + 1)]
    for number, group in enumerate(group_of):
        members[group].append(number)
    edges: list[Edge] = []
    kept: dict[Buffer, tuple[int, ...]] = {}
    inner: list[set[Buffer]] = [set() for _ in members]
    inputs, outputs = set(program.inputs), set(program.outputs)
    for root in dict.fromkeys((*touched.writers, *touched.readers)):
        writers = {group_of[n] for n in touched.writers.get(root, ())}
        users = {group_of[n] for n in touched.readers.get(root, ())} | writers
        if isinstance(root, Weight | StateBuffer):
            kept[root] = tuple(sorted(users))
        elif isinstance(root, Activation) and len(users) == 1:
            inner[users.pop()].add(root)
        else:
            if root in inputs:
                edges.append(Edge(root, None, tuple(sorted(users)), is_output=False))
            for writer in writers:  # there is one, if any
                readers = () if root in inputs else tuple(sorted(users - writers))
                edges.append(Edge(root, writer, readers, root in outputs))
    movers = movers_of(program)
    aliased = aliased_regions(program, {edge.buffer for edge in edges}.union(kept))
    vanishing = {n for n, i in enumerate(touched.work) if is_copy(i)}
    vanishing -= {number for number, source in movers.items() if source in inputs}
    units = tuple(
        _unit(touched.work, numbers, inner[group] - aliased, vanishing, traits, efficiencies)
        for group, numbers in enumerate(members)
    )
    moves = tuple(
        Move(group_of[writer], group_of[number], efficiencies.work_of(touched.work[number]))
        for number, source in movers.items()
        for writer in touched.writers.get(source, ())[:1]
        if number in vanishing and group_of[writer] != group_of[number]
    )
    return Units(program, units, tuple(edges), moves, kept, aliased, traits, efficiencies)


def _unit(
    work: Sequence[Instruction],
    numbers: Sequence[int],
    inner: set[Buffer],
    vanishing: set[int],
    traits: Traits,
    efficiencies: Efficiencies,
) -> Unit:
    parts = [work[number] for number in numbers]
    operators = {member.opcode for part in parts for member in members_of(part)}
    nodes = dict.fromkeys(name for part in parts for name in part.imported_names)
    return Unit(
        instructions=tuple(numbers),
        kernels=tuple(
            efficiencies.work_of(without_own_copies(work[n])) for n in numbers if n not in vanishing
        ),
        operators=frozenset(operators),
        nodes=tuple(nodes),
        inner_bytes=_peak(parts, inner) if inner else 0,
        on_read_bytes=sum(_on_read_bytes(part, traits, inner) for part in parts),
        copied=_copied(parts, inner),
    )


def _copied(parts: Iterable[Instruction], inner: set[Buffer]) -> dict[Buffer, int]:
    """Return how many bytes copies among *parts* read of each region that is not *inner*."""
    found: dict[Buffer, int] = {}
    for buffer in (b for part in parts if is_copy(part) for b in read(part)):
        if buffer.root not in inner:
            found[buffer.root] = found.get(buffer.root, 0) + buffer.type.size_bytes
    return found


def _on_read_bytes(instruction: Instruction, traits: Traits, inner: set[Buffer]) -> int:
    if is_copy(instruction):
        return sum(b.type.size_bytes for b in read(instruction) if b.root in inner)
    found = dict.fromkeys(result.root for result, _ in candidates(instruction, traits))
    return sum(root.type.size_bytes for root in found)


def _peak(parts: Sequence[Instruction], inner: set[Buffer]) -> int:
    """Return the most bytes of *inner* that are live at a time when *parts* run in order."""
    last = {
        b.root: number
        for number, part in enumerate(parts)
        for b in (*read(part), *mutated(part))
        if b.root in inner
    }
    live: set[Buffer] = set()
    most = held = 0
    for number, part in enumerate(parts):
        for root in {b.root for b in mutated(part)} & inner - live:
            live.add(root)
            held += root.type.size_bytes
        most = max(most, held)
        for root in {b.root for b in (*read(part), *mutated(part))} & live:
            if last[root] == number:
                live.remove(root)
                held -= root.type.size_bytes
    return most
