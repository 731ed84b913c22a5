"""A compiled sub-network as data, which a device loads, and its memory."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.guards import Guard
from glow_nb.base.types import TensorType
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.llir.program import Program


@dataclass(frozen=True, eq=False)
class Deployable:
    """A compiled network that any device of its backend can load.

    Attributes:
        name: Its name in messages and traces.
        inputs: Names and types of the inputs, in order.
        outputs: Names and types of the outputs, in order.
        program: Machine code with its constants, or an allocated program for the interpreter.
        constant_bytes: Memory of its weights, which all its runs share.
        run_bytes: Memory of one run: arena, scratch, inputs and outputs; with open sizes, for the
            example.
        guards: The comparisons of open sizes for which it is valid.
    """

    name: str
    inputs: tuple[tuple[str, TensorType], ...]
    outputs: tuple[tuple[str, TensorType], ...]
    program: NativeProgram | Program
    constant_bytes: int
    run_bytes: int
    guards: tuple[Guard, ...] = ()

    @property
    def memory_bytes(self) -> int:
        """The memory that a device needs to hold it and to execute one run at a time."""
        return self.constant_bytes + self.run_bytes
