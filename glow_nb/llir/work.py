"""The instructions of a program while a pass takes some out: who touches what, kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from glow_nb.base.schema import map_operands, operands_of
from glow_nb.llir.lifetimes import mark_lifetimes
from glow_nb.llir.overlaps import Overlaps, best_period
from glow_nb.llir.program import Buffer, Instruction, Program


class Work:
    """Instructions by number; a number stays the same when others go.

    Attributes:
        has_changed: True once an instruction was removed or replaced.
    """

    def __init__(self, instructions: Iterable[Instruction]) -> None:
        """Number *instructions*, which hold no markers, in their order."""
        self._instructions = dict(enumerate(instructions))
        self._touching: dict[Buffer, set[int]] = {}
        self._windows: dict[Buffer, Overlaps[int]] = {}  # of those asked for; some are gone
        self.has_changed = False
        for number, instruction in self._instructions.items():
            self._note(number, instruction)

    def __getitem__(self, number: int) -> Instruction:
        return self._instructions[number]

    def __contains__(self, number: int) -> bool:
        return number in self._instructions

    @property
    def numbers(self) -> list[int]:
        """The numbers of the instructions that are left, in order."""
        return sorted(self._instructions)

    def touching(self, root: Buffer) -> list[tuple[int, Instruction]]:
        """Return the instructions with operands in the region *root*, in order."""
        numbers = sorted(self._touching.get(root, ()))
        return [(number, self._instructions[number]) for number in numbers]

    def overlapping(self, window: Buffer) -> list[tuple[int, Instruction]]:
        """Return the instructions with operands that may overlap *window*, in order.

        Perhaps also some whose operands did before they were replaced.
        """
        root = window.root
        if root not in self._windows:
            self._windows[root] = self._index(root)
        numbers = {n for n in self._windows[root].overlapping(window) if n in self._instructions}
        return [(number, self._instructions[number]) for number in sorted(numbers)]

    def _index(self, root: Buffer) -> Overlaps[int]:
        """Return the operands in the region *root*, each with the number of its instruction."""
        operands = [
            (buffer, number)
            for number in sorted(self._touching.get(root, ()))
            for buffer in operands_of(self._instructions[number])
            if buffer.root is root
        ]
        found: Overlaps[int] = Overlaps(best_period(dict(operands)))
        for buffer, number in operands:
            found.add(buffer, number)
        return found

    def remove(self, number: int) -> None:
        """Take out one instruction."""
        for root in {buffer.root for buffer in operands_of(self._instructions.pop(number))}:
            self._touching[root].discard(number)
        self.has_changed = True

    def replace(self, number: int, instruction: Instruction) -> None:
        """Replace instruction number *number* by *instruction*."""
        self.remove(number)
        self._instructions[number] = instruction
        self._note(number, instruction)

    def move(self, root: Buffer, place: Callable[[Buffer], Buffer]) -> None:
        """Let all instructions that touch *root* have ``place`` of each operand in it."""
        for number, instruction in self.touching(root):
            moved = map_operands(instruction, lambda b: place(b) if b.root is root else b)
            self.replace(number, moved)

    def result(self, program: Program) -> Program:
        """Return *program* with the instructions that are left, itself if none has changed."""
        if not self.has_changed:
            return program
        work = [self._instructions[number] for number in self.numbers]
        return program.with_instructions(mark_lifetimes(work))

    def _note(self, number: int, instruction: Instruction) -> None:
        for buffer in operands_of(instruction):
            self._touching.setdefault(buffer.root, set()).add(number)
            if buffer.root in self._windows:
                self._windows[buffer.root].add(buffer, number)
