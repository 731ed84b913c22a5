"""The memory of a compiled network, known before the first run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from typing_extensions import override

from glow_nb.base.alignment import ALIGNMENT
from glow_nb.base.arguments import as_path
from glow_nb.base.extras import needing
from glow_nb.base.quantities import byte_count
from glow_nb.base.table import Table
from glow_nb.llir.program import Program

if TYPE_CHECKING:
    from glow_nb.backends.backend import Executable


@dataclass(frozen=True, repr=False)
class MemoryReport:
    """Bytes that a compiled network needs, known before the first run.

    Attributes:
        arena_bytes: The block that holds all activations.
        lower_bound_bytes: The largest sum of activations live at one time.
        unshared_bytes: The size of the activations if none shared memory.
        in_place_bytes: By how much the lower bound is smaller because results are written over
            operands that end.
        constant_bytes: Weights, packed as the kernels want them.
        scratch_bytes: Working memory of the kernels, for all threads.
        state_bytes: The memory that stays from run to run.
        program: The allocated program that the bytes are of; what :meth:`plot` draws.
        sizes: The sizes that they are for, of a network that leaves some open; or empty.
    """

    arena_bytes: int
    lower_bound_bytes: int
    unshared_bytes: int
    in_place_bytes: int
    constant_bytes: int
    scratch_bytes: int
    program: Program = field(repr=False, compare=False)
    sizes: str = ""
    state_bytes: int = 0

    def plot(self, path: str | os.PathLike[str], *, title: str = "") -> None:
        """Draw the arena to the PNG file *path*: time to the right, addresses upwards.

        Raises:
            OptionError: matplotlib is not installed, or no activation lies in memory.
            GlowError: The file cannot be written.
        """
        with needing("plot", "the memory map"):
            from glow_nb.network.pictures.memory_map import draw_memory_map
        draw_memory_map(self.program, as_path(path), title)

    @override
    def __str__(self) -> str:
        ratio = self.arena_bytes / self.lower_bound_bytes if self.lower_bound_bytes else 1.0
        saved = f"{byte_count(self.in_place_bytes)} less in place, " if self.in_place_bytes else ""
        sizes = f"for {self.sizes}: " if self.sizes else ""
        state = f", state {byte_count(self.state_bytes)}" if self.state_bytes else ""
        return (
            f"{sizes}arena {byte_count(self.arena_bytes)} ({ratio:.3f} of its lower bound, {saved}"
            f"{byte_count(self.unshared_bytes)} unshared), "
            f"constants {byte_count(self.constant_bytes)}, "
            f"scratch {byte_count(self.scratch_bytes)}{state}"
        )

    @override
    def __repr__(self) -> str:
        return f"<MemoryReport {self}>"

    def _repr_html_(self) -> str:
        """Return what the network needs as a table for a notebook."""
        sizes = {
            "arena": self.arena_bytes,
            "its lower bound": self.lower_bound_bytes,
            "unshared": self.unshared_bytes,
            "less in place": self.in_place_bytes,
            "constants": self.constant_bytes,
            "scratch": self.scratch_bytes,
            "state": self.state_bytes,
        }
        rows = tuple((name, byte_count(size)) for name, size in sizes.items())
        title = f"memory for {self.sizes}" if self.sizes else "memory"
        return Table((title, "#size"), rows)._repr_html_()


def report_memory(program: Program, executable: Executable, sizes: str) -> MemoryReport:
    """Return what *program*, which *executable* runs, needs; *sizes* says what it was made for."""
    from glow_nb.llir.in_place import peak_of, tenancies
    from glow_nb.llir.order_placement import program_at_hints

    program = program_at_hints(program)
    arena, values = program.arena, tenancies(program)
    apart, bound = peak_of(values, alignment=ALIGNMENT), arena.lower_bound_bytes if arena else 0
    return MemoryReport(
        arena_bytes=arena.size_bytes if arena else 0,
        lower_bound_bytes=bound,
        unshared_bytes=sum(value.size_bytes for value in values),
        in_place_bytes=max(0, apart - bound),
        constant_bytes=executable.constant_bytes,
        scratch_bytes=executable.scratch_bytes,
        program=program,
        sizes=sizes,
        state_bytes=sum(state.type.size_bytes for state in program.state),
    )
