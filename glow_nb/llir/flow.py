"""The instruction of a program that made an operand of another one, and its other readers.

Memory is written again and again, so that a value is more than a buffer: it is what one instruction
wrote there, as long as nothing else writes any of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from glow_nb.llir.in_place import is_same_memory
from glow_nb.llir.program import Activation, Buffer, Instruction, mutated, read
from glow_nb.llir.verify import may_overlap
from glow_nb.llir.work import Work


class Flow:
    """The values that the instructions of a program pass to each other, by their numbers in *work*.

    Attributes:
        work: The instructions, which may be replaced.
    """

    def __init__(self, instructions: Iterable[Instruction]) -> None:
        """Begin with *instructions*, which hold no markers."""
        self.work = Work(instructions)
        self._numbers = {self.work[number]: number for number in self.work.numbers}

    def number_of(self, instruction: Instruction) -> int:
        """Return the number of *instruction*."""
        return self._numbers[instruction]

    def has(self, buffer: Buffer) -> bool:
        """Return whether an instruction touches the region of *buffer*."""
        return bool(self.work.touching(buffer.root))

    def replace(self, number: int, instruction: Instruction) -> None:
        """Replace instruction number *number* by *instruction*."""
        self._numbers.pop(self.work[number])
        self.work.replace(number, instruction)
        self._numbers[instruction] = number

    def maker_of(self, buffer: Buffer, number: int) -> tuple[Instruction, int] | None:
        """Return what made the value that *number* reads in *buffer*, and its place among results.

        None if no single instruction has written just that, or it was read there before, too.
        """
        for place, instruction in reversed(self.work.touching(buffer.root)):
            if place >= number:
                continue
            written = mutated(instruction)
            for index, result in enumerate(written):
                if may_overlap(result, buffer):
                    is_all = is_same_memory(result, buffer) and result.type == buffer.type
                    is_new = result not in read(instruction)
                    return (instruction, index) if is_all and is_new else None
        return None

    def is_unchanged(self, buffer: Buffer, begin: int, end: int) -> bool:
        """Return whether nothing writes to *buffer* from number *begin* on and before *end*."""
        return not any(
            may_overlap(result, buffer)
            for number, instruction in self.work.touching(buffer.root)
            if begin <= number < end
            for result in mutated(instruction)
        )

    def readings(self, buffer: Buffer, number: int) -> int | None:
        """Return how many operands read the value that *number* reads in *buffer*.

        None if the program does not end with it: the caller or the next run reads it as well.
        """
        if not isinstance(buffer.root, Activation):
            return None
        count, begin = 0, -1
        touching = self.work.touching(buffer.root)
        for place, instruction in touching:
            if place < number and any(may_overlap(b, buffer) for b in mutated(instruction)):
                begin = place
        for place, instruction in touching:
            if place > begin:
                count += sum(may_overlap(b, buffer) for b in read(instruction))
                if place >= number and any(is_same_memory(b, buffer) for b in mutated(instruction)):
                    break
        return count
