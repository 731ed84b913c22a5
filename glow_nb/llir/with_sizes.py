"""Programs and instructions whose sizes are open, with other sizes instead of these."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from glow_nb.base.map_sizes import Change, map_sizes
from glow_nb.base.schema import attributes_of, changed_operands, operands_of
from glow_nb.base.size import Guard, Symbol, at, hinted, symbols_in, symbols_of
from glow_nb.llir.program import Bound, Buffer, Instruction, Program, View
from glow_nb.llir.stack import StackInst, members_of


class Sizing:
    """Replaces open sizes in buffers, and in instructions on them."""

    def __init__(self, change: Change) -> None:
        """Replace each open *size* by ``change(size)``."""
        self._change = change
        self._made: dict[Buffer, Buffer] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        """Return *buffer* with other sizes, the same one each time; itself if it has none."""
        chain: list[Buffer] = []
        while buffer not in self._made:  # a chain of views may be long
            chain.append(buffer)
            if not isinstance(buffer, View):
                break
            buffer = buffer.base
        for each in reversed(chain):
            self._made[each] = self._sized(each)
        return self._made[chain[0] if chain else buffer]

    def _sized(self, buffer: Buffer) -> Buffer:
        type = map_sizes(buffer.type, self._change)
        if not isinstance(buffer, View):
            return buffer if type is buffer.type else dataclasses.replace(buffer, type=type)
        base = self._made[buffer.base]
        start = map_sizes(buffer.start, self._change)
        steps = map_sizes(buffer.steps, self._change)
        if (base, type, start, steps) == (buffer.base, buffer.type, buffer.start, buffer.steps):
            return buffer
        return View(buffer.name, type, base, start, steps)

    def instruction(self, instruction: Instruction) -> Instruction:
        """Return *instruction* with other sizes, itself if it has none."""
        if isinstance(instruction, StackInst):
            body = [self.instruction(member) for member in instruction.body]
            same = all(new is old for new, old in zip(body, instruction.body, strict=True))
            return instruction if same else StackInst.of(body)
        changes = changed_operands(instruction, self.buffer)
        for name, value in attributes_of(instruction).items():
            if (sized := map_sizes(value, self._change)) is not value:
                changes[name] = sized
        return dataclasses.replace(instruction, **changes) if changes else instruction


def with_sizes(program: Program, sizes: Mapping[str, int], sizing: Sizing | None = None) -> Program:
    """Return *program*, not allocated, with every size the number that *sizes* says by name.

    If it is given, *sizing* makes the buffers, and knows them then.
    """
    sizing = sizing or Sizing(lambda size: at(size, sizes))

    def regions(buffers: tuple[Bound, ...]) -> tuple[Bound, ...]:
        return tuple(made for b in buffers if isinstance(made := sizing.buffer(b), Bound))

    return dataclasses.replace(
        program,
        inputs=regions(program.inputs),
        outputs=regions(program.outputs),
        instructions=tuple(map(sizing.instruction, program.instructions)),
        arena=None,
    )


def instruction_at_hints(instruction: Instruction) -> Instruction:
    """Return *instruction* for the sizes of the example: choices and estimates are for these."""
    return Sizing(hinted).instruction(instruction)


def symbols_of_program(program: Program) -> tuple[Symbol, ...]:
    """Return the symbols of the sizes of what *program* reads and writes, each once."""
    types = (buffer.type for buffer in (*program.inputs, *program.outputs))
    return symbols_of(*(size for type in types for size in type.shape))


def is_open(program: Program) -> bool:
    """Return whether a size of *program* is known only when it runs."""
    return bool(symbols_of_program(program))


def sizes_of(program: Program) -> tuple[Symbol, ...]:
    """Return the symbols of all sizes in *program*, each once, those of its inputs first."""
    inside = (symbol for i in program.work for symbol in symbols_of_instruction(i))
    return tuple(dict.fromkeys([*symbols_of_program(program), *inside]))


def symbols_of_instruction(instruction: Instruction) -> tuple[Symbol, ...]:
    """Return the symbols in the types, places and attributes of *instruction*, each once."""
    found: list[object] = []
    for member in members_of(instruction):
        found += attributes_of(member).values()
        for buffer in operands_of(member):
            found += (buffer.type.shape, buffer.strides, buffer.offset)
    return symbols_in(found)


def guards_of(program: Program) -> tuple[Guard, ...]:
    """Return the comparisons of sizes that what made *program* has answered by the example."""
    symbols = symbols_of_program(program)
    return tuple(dict.fromkeys(guard for symbol in symbols for guard in symbol.guards))
