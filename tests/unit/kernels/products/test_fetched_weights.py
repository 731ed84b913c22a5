"""Weights that lie far away: what the tiles of a pass fetch is what the next pass multiplies."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators.packed_instructions import PackedMatMulInst
from glow_nb.kernels.products import product_plan
from tests.targets import SMALL_CORE
from tests.unit.kernels.cases import instruction_of
from tests.unit.kernels.plain_python import run_text
from tests.unit.kernels.products.test_product_loops import order_of

LINE = 16
"""Elements of a cache line."""

INNER, PANELS, BLOCK = 1024, 12, 16


@dataclass
class Passes:
    """The lines of the weights that each pass multiplies, and that its tiles fetch."""

    read: list[set[int]] = field(default_factory=list)
    fetched: list[set[int]] = field(default_factory=list)
    waiting: set[int] = field(default_factory=set)

    def run(self, text: str) -> None:
        """Run the kernel of *text*, on one thread."""
        calls = {"tile_dot": self._multiply, "tile_prefetch": self._fetch}
        run_text(text, ("dest", "lhs", "weights", "scratch"), calls)

    def _multiply(self, *arguments: int) -> None:
        first, row, _, steps, ahead, pace = arguments[6:]
        lines = {(first + step * row) // LINE for step in range(steps)}
        if not self.read or self.read[-1] != lines:
            self.read.append(lines)
            self.fetched.append(set())
        self.fetched[-1] |= {place // LINE for place in range(ahead, ahead + steps * pace, LINE)}
        self.fetched[-1] |= self.waiting
        self.waiting = set()

    def _fetch(self, pointer: str, first: int, gap: int, rows: int) -> None:
        """Take what a tile fetches before it multiplies."""
        if pointer == "weights":
            self.waiting |= {(first + row * gap) // LINE for row in range(rows)}


@pytest.mark.parametrize("rows", [25, 60, 170, 700])
@pytest.mark.parametrize("panels_inside", [False, True])
def test_tiles_fetch_what_the_next_pass_multiplies(
    rows: int, panels_inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(product_plan, "traffic_cycles", order_of(panels_inside))
    target = replace(SMALL_CORE, l1_bytes=1 << 14, l2_bytes=1 << 20)
    shapes = ((rows, INNER), (PANELS, INNER, BLOCK))
    types = [TensorType(ElementKind.FLOAT32, shape) for shape in shapes]
    instruction = instruction_of(PackedMatMulInst, types, depth=PANELS * BLOCK, block=BLOCK)
    passes = Passes()
    passes.run(generate_kernel(instruction, target).text)
    assert len(passes.read) > PANELS
    pairs = list(zip(passes.fetched, passes.read[1:], strict=False))
    missed = [len(read - fetched) / len(read) for fetched, read in pairs]
    # With panels inside, the first panel of the next inner block lies elsewhere; so do the weights
    # of the next block of rows. Blocks that end with a smaller tile miss some lines.
    most = len(pairs) // PANELS if panels_inside else len(pairs) // (3 * PANELS)
    assert sum(part > 0.2 for part in missed) <= most
    # fifteen tiles fetch two columns of sixteen each
    assert max(len(fetched) / len(read) for fetched, read in pairs) < 2
