"""The properties of one processor, as one row of numbers with their provenance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from glow_nb.kernels.machine.arithmetic import Arithmetic
from glow_nb.kernels.machine.bilinear import Bilinear
from glow_nb.kernels.machine.caches import Caches
from glow_nb.kernels.machine.choices import Choices
from glow_nb.kernels.machine.fact import Fact
from glow_nb.kernels.machine.matrix import Matrix
from glow_nb.kernels.machine.memory import Memory
from glow_nb.kernels.machine.streams import Streams
from glow_nb.kernels.machine.threads import Threads

GROUPS: tuple[type, ...] = (Arithmetic, Matrix, Caches, Memory, Streams, Bilinear, Choices, Threads)
"""Where the numbers are declared, in the order of printing."""


@dataclass(frozen=True)
class Number:
    """A number of a row, for printing.

    Attributes:
        group: Name of the group that it belongs to, ``Arithmetic``, ``Caches`` and so on.
        name: Name of the attribute of :class:`Machine`.
        value: The number.
        fact: Its unit, meaning and provenance; the provenance is that of this row.
    """

    group: str
    name: str
    value: object
    fact: Fact


@dataclass(frozen=True, kw_only=True)
class Machine(Threads, Choices, Bilinear, Streams, Memory, Caches, Matrix, Arithmetic):
    """A processor: what plans, estimates and thresholds know of it.

    Attributes:
        name: Name of the row.
        title: The processor, by its usual name.
        cpus: LLVM's names of the processors that it is for; ``Target.of`` plans for the first of
            them. Conservative rows have LLVM's generic name of such processors, and are chosen by
            the length of vectors alone.
        features: LLVM features that such processors have, ``+avx2,+fma``; what tests and
            ``glow_nb.Target.of`` plan with, as a host says itself what it has.
        vector_bytes: Bytes of its vector registers.
        triple: LLVM's target triple that ``Target.of`` plans with.
        provenance: The provenance of numbers of this row, by name, if it differs from that of their
            facts.
    """

    name: str
    title: str
    cpus: tuple[str, ...]
    features: str
    vector_bytes: int
    triple: str = "x86_64-unknown-linux-gnu"
    provenance: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def numbers(self) -> Iterator[Number]:
        """All numbers of the row, by groups."""
        for group in GROUPS:
            for item in fields(group):
                known: Fact = item.metadata["fact"]
                found = self.provenance.get(item.name, known.provenance)
                value = getattr(self, item.name)
                yield Number(group.__name__, item.name, value, replace(known, provenance=found))
