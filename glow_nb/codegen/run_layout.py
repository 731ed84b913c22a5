"""The memory of a run: the bound tensors, constants, arena and scratch of a program, as data.

It is all that a program needs to run beside its code, and takes neither LLVM nor the levels above.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from glow_nb.base.arguments import MOST_THREADS
from glow_nb.base.counted import Counted, problem_of
from glow_nb.base.errors import CompileError
from glow_nb.base.memory_limit import require_memory
from glow_nb.base.types import Array, TensorType
from glow_nb.codegen.open_sizes import OpenSizes
from glow_nb.codegen.program_memory import ProgramMemory

LARGEST_RUN_BYTES = 1 << 48
"""No machine has so much memory: a program that wants it is damaged."""


@dataclass(frozen=True)
class Binding:
    """A tensor that the caller of a run provides.

    Attributes:
        type: Its type.
        name: Its name in the model.
        is_aligned: Whether kernels read it much faster where it begins on a cache line. What is fed
            and begins elsewhere is copied to memory that does; new outputs are made there.
    """

    type: TensorType
    name: str = ""
    is_aligned: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class OutputBinding(Binding):
    """A tensor that a run writes.

    Attributes:
        fed_by: For an output that is also an input: the index of this input. The output begins as a
            copy of the feed.
        counted: For an output whose size is data-dependent: the valid part.
    """

    fed_by: int | None = None
    counted: Counted | None = None


@dataclass(frozen=True, eq=False)
class InitialState(Binding):
    """A tensor that survives runs.

    Attributes:
        array: The value before the first run.
    """

    array: Array = field(kw_only=True, repr=False)

    def write_to(self, place: Array) -> None:
        """Write the value before the first run to *place*."""
        np.copyto(place, self.array)


@dataclass(frozen=True, eq=False)
class RunLayout:
    """The memory of a run of a program, beside its code.

    Attributes:
        symbol: The C symbol of the entry.
        threads: Shares of each phase of the entry, and threads that do them.
        phases: The number of phases.
        thread_scratch_bytes: Working memory that its kernels need for each thread.
        memory: The constants, and the size of the arena.
        inputs: The inputs of a run, in the order of its arguments.
        outputs: What a run writes, likewise.
        state: The state, which the last run has left for a run.
        open: The sizes that inputs tell, if some are open.
    """

    symbol: str
    threads: int
    phases: int
    thread_scratch_bytes: int
    memory: ProgramMemory
    inputs: tuple[Binding, ...]
    outputs: tuple[OutputBinding, ...]
    state: tuple[InitialState, ...] = ()
    open: OpenSizes | None = None

    def __post_init__(self) -> None:
        self._check_sizes()
        if self.open is not None:
            bound = (self.memory.borrowed, self.state, self.inputs, self.outputs, self.open.windows)
            self.open.check_numbers(1 + sum(map(len, bound)))
        for output in self.outputs:
            self._check_fed(output)
        if problem := problem_of({o.name: (o.type, o.counted) for o in self.outputs}):
            raise CompileError(problem)

    def _check_sizes(self) -> None:
        """Raise CompileError unless a run needs threads, and memory that there may be."""
        if not 1 <= self.threads <= MOST_THREADS:
            raise CompileError(f"threads={self.threads}: there must be 1 to {MOST_THREADS}")
        if self.phases < 1:
            raise CompileError(f"the entry has {self.phases} phases; there must be 1 or more")
        if self.thread_scratch_bytes < 0:
            raise CompileError(f"scratch: {self.thread_scratch_bytes} bytes for each thread")
        if self.memory.arena_bytes + self.scratch_bytes > LARGEST_RUN_BYTES:
            raise CompileError(
                f"a run would take {self.memory.arena_bytes} bytes of arena and "
                f"{self.scratch_bytes} bytes of scratch; no machine has more than "
                f"{LARGEST_RUN_BYTES}"
            )

    def _check_fed(self, output: OutputBinding) -> None:
        """Raise CompileError if *output* is to begin as a copy of what is no such input."""
        index = output.fed_by
        if index is None or (
            0 <= index < len(self.inputs) and self.inputs[index].type == output.type
        ):
            return
        raise CompileError(f"{output}: there is no input {index} of this type to begin as")

    @property
    def scratch_bytes(self) -> int:
        """Working memory of the kernels in one run, for all threads."""
        return self.threads * self.thread_scratch_bytes

    def require_memory(self) -> None:
        """Raise MemoryLimitError if a run needs more memory than the process may have.

        What a run needs whose sizes are open is known only when it begins.
        """
        if self.open is not None:
            return
        bound = (*self.inputs, *self.outputs)
        tensors = [(f"{b.name} : {b.type}", b.type.size_bytes) for b in (*bound, *self.state)]
        parts = {
            "arena": self.memory.arena_bytes,
            "scratch": self.scratch_bytes,
            "state": sum(b.type.size_bytes for b in self.state),
            "inputs and outputs": sum(b.type.size_bytes for b in bound),
        }
        require_memory("native program", parts, tensors)
