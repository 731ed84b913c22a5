"""Programs that copy what instructions write to further outputs, and are the same otherwise.

The instructions, their order and the arena stay, so that kernels compute what they computed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from glow_nb.base.errors import OptionError
from glow_nb.base.schema import closest
from glow_nb.base.types import Array
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import Bound, Buffer, Instruction, Program, is_marker, mutated
from glow_nb.llir.stack import StackInst


@dataclass(frozen=True)
class Probe:
    """The values that one instruction writes to one buffer.

    Attributes:
        number: Number of the instruction among those that compute.
        instruction: The instruction.
        buffer: The buffer that it writes.
    """

    number: int
    instruction: Instruction
    buffer: Buffer

    @property
    def copied(self) -> Buffer:
        """The copied memory: the buffer, or all that it lies in if it has gaps."""
        return self.buffer if self.buffer.is_contiguous else self.buffer.root

    def value(self, copy: Array) -> Array:
        """Return the value of the buffer in a *copy* of what is copied."""
        return copy if self.copied is self.buffer else _within(copy, self.buffer)


def _within(whole: Array, buffer: Buffer) -> Array:
    """Return the part of *whole*, an array of the buffer's root, that *buffer* is."""
    steps = tuple(step * whole.itemsize for step in buffer.strides)
    begin = whole.reshape(-1)[buffer.offset :]
    return np.lib.stride_tricks.as_strided(begin, buffer.type.shape, steps)


def contents(
    roots: Iterable[Buffer], known: Mapping[Buffer, Array], written: Iterable[tuple[Probe, Array]]
) -> dict[Buffer, Array]:
    """Return what *roots* hold once probes have *written* their copies, in order.

    Before that they hold what is *known* of them, or zeros.
    """
    held = {b: known.get(b, np.zeros(b.type.shape, b.type.kind.dtype)) for b in roots}
    for probe, copy in written:
        root = probe.buffer.root
        if root not in held:
            continue
        if probe.copied is root:
            held[root] = copy
        else:
            held[root] = held[root].copy()
            _within(held[root], probe.buffer)[...] = copy
    return held


def probes(program: Program) -> list[Probe]:
    """Return a probe of each buffer that each instruction of *program* writes, in order."""
    return [
        Probe(number, instruction, buffer)
        for number, instruction in enumerate(program.work)
        for buffer in mutated(instruction)
    ]


def with_probes(program: Program, chosen: Sequence[Probe]) -> tuple[Program, tuple[Bound, ...]]:
    """Return *program* with an output for each of the *chosen* probes, and these outputs."""
    taken = names_in(program)
    outputs = tuple(
        Bound(free_name(f"{probe.buffer.name}_probe", taken), probe.copied.type) for probe in chosen
    )
    copies: dict[int, list[Instruction]] = {}
    for probe, output in zip(chosen, outputs, strict=True):
        copy = CopyInst(output, probe.copied, name=probe.instruction.name)
        copies.setdefault(probe.number, []).append(copy)
    instructions: list[Instruction] = []
    number = -1
    for instruction in program.instructions:
        instructions.append(instruction)
        if not is_marker(instruction):
            number += 1
            instructions += copies.get(number, ())
    probed = dataclasses.replace(
        program, outputs=(*program.outputs, *outputs), instructions=tuple(instructions)
    )
    return probed, outputs


def with_values(program: Program, names: Iterable[str]) -> tuple[Program, dict[str, str]]:
    """Return *program* with values as outputs, and the output of each name.

    A name is that of an output, of a buffer (as it is after the last instruction that writes it),
    or of an instruction.

    Raises:
        OptionError: Nothing is called so, or several values are.
    """
    known = probes(program)
    outputs = {output.name for output in program.outputs}
    wanted = {name: _probe(name, known) for name in names if name not in outputs}
    probed, made = with_probes(program, list(wanted.values()))
    found = {name: output.name for name, output in zip(wanted, made, strict=True)}
    return probed, {name: found.get(name, name) for name in names}


def value_names(program: Program) -> list[str]:
    """Return the names that :func:`with_values` takes for all that instructions write."""
    return list(dict.fromkeys(probe.buffer.name for probe in probes(program)))


def named_nodes(program: Program) -> dict[str, tuple[str, ...]]:
    """Return all names of *program*, each with the imported nodes that it was made from.

    Inputs, outputs, states and weights stand for none.
    """
    found: dict[str, tuple[str, ...]] = {buffer.name: () for buffer in program.declared}
    stacked = (m for i in program.work if isinstance(i, StackInst) for m in i.body)
    for instruction in (*program.work, *stacked):
        origins, written = instruction.imported_names, mutated(instruction)
        found.update((name, (name,)) for name in origins)
        found |= {name: origins for name in (instruction.name, *(b.name for b in written)) if name}
    return found


def _probe(name: str, known: Sequence[Probe]) -> Probe:
    """Return the probe of what is called *name*, or raise OptionError."""
    written = [probe for probe in known if probe.buffer.name == name]
    if written:
        return written[-1]
    made = [probe for probe in known if probe.instruction.name == name]
    if len(made) == 1:
        return made[0]
    if made:
        raise OptionError(
            f"watch: instructions called {name!r} write {[p.buffer.name for p in made]}; choose one"
        )
    names = [name for probe in known for name in (probe.buffer.name, probe.instruction.name)]
    raise OptionError(
        f"watch: no instruction writes a value called {name!r}{closest(name, names)}; "
        "print(net.program) shows the names"
    )


def names_in(program: Program) -> set[str]:
    """Return the names of all buffers of *program*."""
    views = (buffer for i in program.instructions for buffer in mutated(i))
    return {buffer.name for buffer in (*program.declared, *views)}


def free_name(name: str, taken: set[str]) -> str:
    """Return *name*, or one like it that is not *taken*; it is taken then."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name
