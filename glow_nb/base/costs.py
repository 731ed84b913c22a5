"""Counts of arithmetic and of bytes, which can be added: results of ``hlir/cost`` and
``llir/cost``.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cost:
    """Arithmetic of a node or of many.

    Attributes:
        multiply_adds: Products that are added to a running sum.
        others: Every other operation on one element.
    """

    multiply_adds: int = 0
    others: int = 0

    @property
    def flops(self) -> int:
        """Operations in all; a multiply-add is two."""
        return 2 * self.multiply_adds + self.others

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.multiply_adds + other.multiply_adds, self.others + other.others)


@dataclass(frozen=True)
class InstructionCost:
    """Arithmetic and traffic of an instruction or of many.

    Attributes:
        nominal: Arithmetic of the operators, comparable between kernels.
        executed: Arithmetic that the kernel carries out.
        constant_bytes: Bytes of weights read, in the packed layout of the kernel.
        read_bytes: Other bytes read: activations and inputs.
        written_bytes: Bytes written.
    """

    nominal: Cost = field(default_factory=Cost)
    executed: Cost = field(default_factory=Cost)
    constant_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Bytes moved in all."""
        return self.constant_bytes + self.read_bytes + self.written_bytes

    @property
    def intensity(self) -> float:
        """Executed operations for each byte moved; 0 if nothing moves."""
        return self.executed.flops / self.bytes if self.bytes else 0.0

    def __add__(self, other: InstructionCost) -> InstructionCost:
        return InstructionCost(
            self.nominal + other.nominal,
            self.executed + other.executed,
            self.constant_bytes + other.constant_bytes,
            self.read_bytes + other.read_bytes,
            self.written_bytes + other.written_bytes,
        )
