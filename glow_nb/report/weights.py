"""The weights of a program, the largest first, and who reads them."""

from __future__ import annotations

from glow_nb.llir.program import Program, Weight, read
from glow_nb.report.data import WeightRow


def weight_rows(program: Program) -> tuple[WeightRow, ...]:
    """Return the weights of *program* as its kernels read them."""
    readers: dict[Weight, list[int]] = {weight: [] for weight in program.weights}
    for number, instruction in enumerate(program.work):
        for root in dict.fromkeys(buffer.root for buffer in read(instruction)):
            if isinstance(root, Weight):
                readers.setdefault(root, []).append(number)
    rows = [
        WeightRow(weight.name, str(weight.type), weight.type.size_bytes, tuple(own))
        for weight, own in readers.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.size))
