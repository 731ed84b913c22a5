"""The report of a backend about the kernel that it made for an instruction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from typing_extensions import override

from glow_nb.base.costs import InstructionCost
from glow_nb.base.table import html_text
from glow_nb.base.text import format_name


@dataclass(frozen=True)
class KernelReport:
    """What was generated for one instruction.

    Attributes:
        instruction: The instruction as text.
        origin: The high-level node it came from.
        family: The kind of kernel; the instruction's opcode where nothing is generated.
        symbol: The kernel's symbol in object code; empty where nothing is generated.
        source: The generated Python source below comments that say what it computes; empty where
            nothing is generated.
        scratch_bytes: Working memory for each thread, beside the arena.
        cost: Its arithmetic and the bytes that it must move.
        origins: The imported nodes that it computes: those of all members of a stack, and those
            that passes folded into them.
        opcode: The name of the instruction, ``stack`` for several.
        threads: Threads that share it; one if sharing would take more time than it saves.
        estimated_ns: Estimated time of one thread, in nanoseconds; 0 if there is no estimate.
        dot: The instruction of its products, as its plan names it; empty if it has none.
    """

    instruction: str
    origin: str
    family: str
    symbol: str = ""
    source: str = field(default="", repr=False)
    scratch_bytes: int = 0
    cost: InstructionCost = field(default_factory=InstructionCost)
    origins: tuple[str, ...] = ()
    opcode: str = ""
    threads: int = 1
    estimated_ns: float = 0.0
    dot: str = ""

    @override
    def __str__(self) -> str:
        origins = ", ".join(map(format_name, self.origins))
        shared = f" (threads {self.threads})" if self.threads > 1 else ""
        return f"{self.family}{shared}: {origins}" if origins else f"{self.family}{shared}"


class KernelList(tuple[KernelReport, ...]):
    """The kernels of a network in execution order; printed as one line for each.

    Attributes:
        sizes: The sizes for which they were compiled, if the network has open sizes; otherwise
            empty.
    """

    sizes: str

    def __new__(cls, kernels: Iterable[KernelReport] = (), sizes: str = "") -> Self:
        """List *kernels*, compiled for *sizes*."""
        made = super().__new__(cls, kernels)
        made.sizes = sizes
        return made

    @override
    def __str__(self) -> str:
        title = [f"for {self.sizes}:"] if self.sizes else []
        return "\n".join([*title, *(f"{n:4}  {kernel}" for n, kernel in enumerate(self))])

    def _repr_html_(self) -> str:
        """Return the list for a notebook."""
        return html_text(str(self))

    @override
    def __repr__(self) -> str:
        different = len({kernel.symbol or kernel.instruction for kernel in self})
        return f"<{len(self)} kernels, {different} different>"
