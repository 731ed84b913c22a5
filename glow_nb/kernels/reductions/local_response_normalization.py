"""Local response normalization: the squares of one pixel's channels, then sums of neighbours.

The squares stand in scratch between margins of zeros, so that no sum has to be cut short. For the
exponents that networks use, the power is made of square roots.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from glow_nb.base.types import ElementKind
from glow_nb.fuse.vector_code import number_text
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import index_text, plus
from glow_nb.kernels.writing.loops import loops
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import (
    Block,
    blocks_of,
    ceil_power_of_two,
    computed_kind,
    native_lanes,
)
from glow_nb.llir.instructions.normalization import LocalResponseNormalizationInst

MOST_UNROLLED = 16
"""Neighbours whose sum is written out rather than looped over."""

_ROOTS = {
    0.25: "sqrt(sqrt(base))",
    0.5: "sqrt(base)",
    0.75: "mul(sqrt(base), sqrt(sqrt(base)))",
    1.0: "base",
}
"""Powers of ``base`` that need no logarithm."""

_INVERSES = {0.25: "root", 0.75: "mul(mul(root, root), root)"}
"""Inverses of powers by ``root``, the inverse of the fourth root of a positive base."""


@kernel_for(LocalResponseNormalizationInst)
def local_response_source(
    instruction: LocalResponseNormalizationInst, target: Target
) -> KernelSource:
    """Return the kernel ``(dest, input)`` of a normalization by neighbouring channels."""
    type = instruction.input.type
    out = SourceWriter()
    with out.block("def kernel(dest, input, scratch, thread, threads):"):
        if type.size == 0:
            out.line("return")
            return KernelSource("local_response", out.text, (type.kind, type.kind))
        kernel = _LocalResponse.of(instruction, target)
        kernel.write(out, type.size // kernel.channels)
    scratch_bytes = kernel.pixels * kernel.squares * kernel.kind.size_bytes
    return KernelSource("local_response", out.text, (type.kind, type.kind), scratch_bytes)


@dataclass(frozen=True)
class _LocalResponse:
    """The kernel of one instruction.

    Attributes:
        instruction: Its attributes are used.
        channels: Size of the last axis.
        stored: Kind of the elements in memory.
        kind: Kind that they are computed in.
        lanes: Channels of a vector.
        together: Squares that stand in scratch together at most.
    """

    instruction: LocalResponseNormalizationInst
    channels: int
    stored: ElementKind
    kind: ElementKind
    lanes: int
    together: int

    @classmethod
    def of(cls, instruction: LocalResponseNormalizationInst, target: Target) -> _LocalResponse:
        type = instruction.input.type
        channels, kind = type.shape[-1], computed_kind(type.kind)
        is_long = instruction.beta not in _ROOTS or instruction.beta in _INVERSES
        unroll = target.machine.unroll_vectors if is_long else 1
        lanes = min(unroll * native_lanes(target, kind), ceil_power_of_two(channels))
        together = target.machine.stored_before_read
        return cls(instruction, channels, type.kind, kind, lanes, together)

    @property
    def before(self) -> int:
        """Neighbours before a channel that belong to its sum: zeros before the first square."""
        return (self.instruction.size - 1) // 2

    @property
    def squares(self) -> int:
        """Elements of the squares with both margins, for whole vectors of sums."""
        return -(-self.channels // self.lanes) * self.lanes + self.instruction.size - 1

    @property
    def pixels(self) -> int:
        """Pixels whose squares stand in scratch together."""
        return max(1, self.together // self.squares)

    def write(self, out: SourceWriter, pixels: int) -> None:
        """Write the loop over *pixels*, for the share of one thread."""
        together = self.pixels
        out.line(f"squares = as_{self.kind.value}(scratch)")
        out.line(f"clear(squares, 0, {together * self.squares})")
        with loops(out, [-(-pixels // together)], shared=True) as indices:
            out.line(f"first = {index_text(indices, [together])}")
            out.line(f"count = min({together}, {pixels} - first)")
            with self._rows(out):
                for block in blocks_of(out, self.channels, self.lanes):
                    out.line(f"x = {self._load(block)}")
                    place = plus("own", block.column, str(self.before))
                    out.line(f"store(squares, {place}, mul(x, x))")
            with self._rows(out):
                for block in blocks_of(out, self.channels, self.lanes):
                    self._write_sums(out, block)

    @contextmanager
    def _rows(self, out: SourceWriter) -> Iterator[None]:
        """Write the loop over the pixels of a group: ``row`` in memory, ``own`` in scratch."""
        with out.block("for pixel in range(count):"):
            out.line(f"row = (first + pixel) * {self.channels}")
            out.line(f"own = pixel * {self.squares}")
            yield

    def _load(self, block: Block) -> str:
        elements = block.load("input", plus("row", block.column))
        return f"convert_{self.kind.value}({elements})"

    def _write_sums(self, out: SourceWriter, block: Block) -> None:
        """Write the sums, and the quotients, of one vector of channels."""
        size, lanes = self.instruction.size, block.lanes
        first = plus("own", block.column)
        out.line(f"total = load(squares, {first}, {lanes})")
        if size <= MOST_UNROLLED:
            for tap in range(1, size):
                out.line(f"total = add(total, load(squares, {first} + {tap}, {lanes}))")
        else:
            with out.block(f"for tap in range(1, {size}):"):
                out.line(f"total = add(total, load(squares, {first} + tap, {lanes}))")
        scale = self.instruction.alpha / size
        bias = self._splat(self.instruction.bias, lanes)
        out.line(f"base = fma(total, {self._splat(scale, lanes)}, {bias})")
        quotient = self._quotient(out, self._load(block), lanes)
        converted = f"convert_{self.stored.value}({quotient})"
        out.line(block.store("dest", plus("row", block.column), converted))

    def _quotient(self, out: SourceWriter, x: str, lanes: int) -> str:
        """Return *x* by ``base ** beta``."""
        inverse = _INVERSES.get(self.instruction.beta)
        if inverse is None or not self._is_positive:
            return f"div({x}, {self._power(lanes)})"
        out.line("root = inverse_fourth_root(base)")
        return f"mul({x}, {inverse})"

    @property
    def _is_positive(self) -> bool:
        """Return whether no base is zero or less, or denormal."""
        limit = float(np.finfo(np.float32).tiny)
        return self.instruction.bias >= limit and self.instruction.alpha >= 0

    def _power(self, lanes: int) -> str:
        """Return ``base ** beta``."""
        beta = self.instruction.beta
        if beta in _ROOTS:
            return _ROOTS[beta]
        exponent = self._splat(beta, lanes)
        if self._is_positive and beta > 0 and self.kind is ElementKind.FLOAT32:
            return f"exp(mul(log(base), {exponent}))"
        return f"pow(base, {exponent})"

    def _splat(self, number: float, lanes: int) -> str:
        return f"splat_{self.kind.value}({number_text(float(number))}, {lanes})"
