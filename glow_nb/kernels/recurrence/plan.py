"""The loops of the step of a recurrent layer: register tiles, panels of weights, scratch.

Threads share the directions and, of each, the tiles of samples; what a sample computes depends on
no other one, so that no thread waits for another. A layer of one direction and a few samples is the
work of one thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from glow_nb.base.alignment import aligned_bytes
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.types import ElementKind
from glow_nb.hlir.ops.families import NARROW_FLOATS
from glow_nb.hlir.ops.formulas.recurrence.cells import Cell, Phase
from glow_nb.hlir.ops.formulas.recurrence.panels import Part, packed_elements, parts_of
from glow_nb.hlir.ops.recurrence import directions_of
from glow_nb.kernels.products.blocking import (
    Cut,
    lanes_of,
    line_cycles,
    registers_of,
    row_limit,
)
from glow_nb.kernels.products.open_cut import AnyCut, cut_line
from glow_nb.kernels.target import Target

WIDTHS = (1, 2, 4, 8)
"""Vectors of each gate in a panel."""

MOST_ACCUMULATORS = 12
"""Vectors of a tile of one row."""


@dataclass(frozen=True)
class RecurrencePlan:
    """The numbers that the loops of a kernel are made of.

    Attributes:
        cell: The computation of a step.
        is_backward: For each direction, whether it goes from the last step to the first.
        kind: The kind of all numbers.
        steps: Steps of the loop.
        rows: Samples.
        size: Elements of a state.
        lanes: Elements of a vector.
        vectors: Vectors of a gate in a panel of the phase with the most gates.
        is_transposed: The weights are transposed, as the backward pass needs them.
        cut: The samples in tiles.
    """

    cell: Cell
    is_backward: tuple[bool, ...]
    kind: ElementKind
    steps: int
    rows: int
    size: int
    lanes: int
    vectors: int
    is_transposed: bool
    cut: AnyCut

    @classmethod
    def of(cls, instruction: Any, target: Target, *, is_transposed: bool) -> RecurrencePlan:
        """Return the plan for a loop whose weights are packed.

        Raises:
            UnsupportedError: They are not, or not in panels of whole vectors, or of 16-bit floats.
        """
        cell, kind = Cell.of(instruction), instruction.inputs.type.kind
        if kind in NARROW_FLOATS:
            raise UnsupportedError(f"recurrence of {kind.value}: no kernel; convert to float32")
        steps, rows, _, width = instruction.inputs.type.shape
        lanes, panel = lanes_of(kind, target), instruction.panel
        if panel == 0 or panel % lanes:
            raise UnsupportedError(
                f"recurrence with panels of {panel}: no kernel for vectors of {lanes} lanes; pack "
                f"the weights into panels of a multiple of {lanes}"
            )
        vectors = panel // lanes
        limit = _row_limit(cell, vectors, target, is_transposed=is_transposed)
        return cls(
            cell,
            directions_of(instruction.direction),
            kind,
            steps,
            rows,
            width // cell.gates,
            lanes,
            vectors,
            is_transposed,
            cut_line(rows, limit),
        )

    @cached_property
    def parts(self) -> list[Part]:
        """The weights of each phase."""
        return parts_of(self.cell.phases, self.size, transposed=self.is_transposed)

    def vectors_of(self, phase: Phase) -> int:
        """Return the vectors of a gate in a panel of *phase*."""
        _, _, factor = self.parts[self.cell.phases.index(phase)]
        return self.vectors * factor

    @cached_property
    def widest(self) -> int:
        """Elements of the widest panel for each gate."""
        return self.lanes * max(map(self.vectors_of, self.cell.phases))

    @property
    def padded(self) -> int:
        """Elements of a state with what fills up the last panel: rows of scratch are as long."""
        return -(-self.size // self.widest) * self.widest

    @cached_property
    def direction_weights(self) -> int:
        """Elements of the weights of a direction."""
        return packed_elements(self.parts, self.size, self.vectors * self.lanes)

    @cached_property
    def phase_weights(self) -> tuple[int, ...]:
        """Where the panels of each phase begin."""
        width = self.vectors * self.lanes
        sizes = (packed_elements([part], self.size, width) for part in self.parts)
        return (0, *accumulate(sizes))[: len(self.parts)]


@dataclass(frozen=True)
class Scratch:
    """Parts of the scratch of a thread.

    Attributes:
        parts: The elements of each part and their kind, by the name of its pointer.
    """

    parts: Mapping[str, tuple[int, ElementKind]]

    @property
    def size_bytes(self) -> int:
        """Bytes of all parts."""
        return sum(aligned_bytes(n * kind.size_bytes) for n, kind in self.parts.values())

    @property
    def pointers(self) -> list[str]:
        """The lines that make a pointer to each part."""
        lines, begin = [], 0
        for name, (count, kind) in self.parts.items():
            place = f"at(scratch, {begin})" if begin else "scratch"
            lines.append(f"{name} = as_{kind.value}({place})")
            begin += aligned_bytes(count * kind.size_bytes)
        return lines


def _row_limit(cell: Cell, vectors: int, target: Target, *, is_transposed: bool) -> int:
    gates = 1 if is_transposed else max(phase.gates for phase in cell.phases)
    return row_limit(gates * vectors, registers_of(target))


def panel_width(
    cell: Cell, rows: int, size: int, kind: ElementKind, target: Target, *, is_transposed: bool
) -> int:
    """Return how wide panels should be for each gate, by the estimated time of a step."""
    lanes = lanes_of(kind, target)
    gates = 1 if is_transposed else max(phase.gates for phase in cell.phases)

    def cycles(vectors: int) -> float:
        cut = Cut.balanced(
            max(rows, 1), _row_limit(cell, vectors, target, is_transposed=is_transposed)
        )
        panel_bytes = size * gates * vectors * lanes * kind.size_bytes
        panels = -(-size // (vectors * lanes))
        return panels * line_cycles(cut, gates * vectors, panel_bytes, target)

    fitting = [v for v in WIDTHS if v == 1 or gates * v <= MOST_ACCUMULATORS]
    return lanes * min(fitting, key=cycles)
