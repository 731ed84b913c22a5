"""The passes of a fast transform, and the places of the roots of each in one table.

Real sequences of even length are transformed as half as many complex numbers: neighbours are real
and imaginary part of one. Lengths with a large prime factor become convolutions with a chirp.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from glow_nb.base.types import Array
from glow_nb.numerics.fourier import chirp, radices_of, roots_of_unity, smooth_length, split, work

REGISTERS_OF_EIGHT = 32
"""Vector registers that a butterfly of radix 8 needs."""


@dataclass(frozen=True)
class Pass:
    """A pass: butterflies of *radix* over vectors that begin *step* runs apart.

    Attributes:
        radix: Inputs and results of a butterfly.
        turns: Butterflies of a run, each with roots of its own.
        run: Elements that lie together, whole vectors.
        roots: Where its roots begin in the table.
    """

    radix: int
    turns: int
    run: int
    roots: int


@dataclass(frozen=True)
class FourierPlan:
    """The numbers of a kernel that transforms sequences.

    Attributes:
        node_length: The length of the transform that the operator means.
        length: Complex numbers that are transformed: half as many if pairs of real ones are.
        size: The length of the passes; more than *length* for a convolution with a chirp.
        rows, columns: Their product is *size*.
        lanes: Elements of a vector.
        is_paired: Neighbouring real numbers are real and imaginary part of one.
        has_eight: There are passes of radix 8.
    """

    node_length: int
    length: int
    size: int
    rows: int
    columns: int
    lanes: int
    is_paired: bool
    has_eight: bool

    @classmethod
    def of(cls, node: Any, lanes: int, *, has_eight: bool) -> FourierPlan:
        """Return the plan for a node or instruction of a transform."""
        is_real = node.input.type.shape[-1] == 1 and not node.inverse
        return cls.for_length(node.length, lanes, is_real=is_real, has_eight=has_eight)

    @classmethod
    def for_length(
        cls, node_length: int, lanes: int, *, is_real: bool, has_eight: bool
    ) -> FourierPlan:
        """Return the plan for a transform, of real numbers or of complex ones."""
        is_paired = is_real and node_length % 2 == 0
        length = node_length // 2 if is_paired else node_length
        size, pair = length, split(length, lanes, has_eight=has_eight, is_even=False)
        if pair is None:
            size = smooth_length(2 * length - 1, lanes, has_eight=has_eight)
            pair = split(size, lanes, has_eight=has_eight, is_even=True)
            assert pair is not None
        return cls(node_length, length, size, *pair, lanes, is_paired, has_eight)

    @property
    def is_convolution(self) -> bool:
        """Whether the passes are those of a convolution with a chirp."""
        return self.size != self.length

    @cached_property
    def padded_rows(self) -> int:
        """The rows in whole vectors."""
        return -(-self.rows // self.lanes) * self.lanes

    @cached_property
    def padded_columns(self) -> int:
        """The columns in whole vectors."""
        return -(-self.columns // self.lanes) * self.lanes

    @property
    def buffer(self) -> int:
        """Elements of a buffer of one part, with a vector before the first and two behind."""
        return max(self.padded_rows * self.padded_columns, self.node_length + 1) + 3 * self.lanes

    @property
    def operations(self) -> float:
        """Operations on vectors of one transform, about."""
        once = work(self.rows, self.columns, self.lanes, has_eight=self.has_eight)
        ends = 6.0 * -(-self.length // self.lanes) * (3 if self.is_paired else 1)
        return ends + (2 * once + 14.0 * self.size / self.lanes if self.is_convolution else once)

    def passes(self, *, is_second: bool) -> list[Pass]:
        """Return the passes along the columns of the first matrix, or of the second one."""
        length, run = self.rows, self.padded_columns
        begin = self._pass_roots[0]
        if is_second:
            length, run, begin = self.columns, self.padded_rows, self._pass_roots[1]
        found: list[Pass] = []
        for radix in radices_of(length, has_eight=self.has_eight) or ():
            length //= radix
            found.append(Pass(radix, length, run, begin))
            begin += 2 * (radix - 1) * length if length > 1 else 0
            run *= radix
        return found

    @cached_property
    def _pass_roots(self) -> tuple[int, int]:
        """Where the roots of the first and of the second passes begin."""
        begin = 2 * self.size
        return begin, begin + len(_roots_of_passes(self.rows, has_eight=self.has_eight))

    @cached_property
    def pair_roots(self) -> int:
        """Where the roots begin that bring halves of a real sequence together."""
        second = _roots_of_passes(self.columns, has_eight=self.has_eight)
        return self._pass_roots[1] + len(second)

    @cached_property
    def chirp_roots(self) -> int:
        """Where the chirp begins; its transform is after it."""
        return self.pair_roots + (2 * (self.length + 1) if self.is_paired else 0)

    @property
    def table_size(self) -> int:
        """Elements of the table, with what vectors read after its end."""
        more = 2 * (self.length + self.size) if self.is_convolution else 0
        return self.chirp_roots + more + (self.columns + 2) * self.lanes

    def table(self) -> Array:
        """Return the table, as float64: real parts of a section before its imaginary parts."""
        found = np.zeros(self.table_size)
        parts = np.concatenate(list(self._sections()))
        found[: len(parts)] = parts
        return found

    def _sections(self) -> Iterator[Array]:
        rows, columns = np.arange(self.rows), np.arange(self.columns)
        yield _apart(roots_of_unity(np.outer(rows, columns), self.size).reshape(-1))
        for length in (self.rows, self.columns):
            yield _roots_of_passes(length, has_eight=self.has_eight)
        if self.is_paired:
            yield _apart(roots_of_unity(np.arange(self.length + 1), self.node_length))
        if self.is_convolution:
            wave = chirp(self.length)
            around = np.zeros(self.size, np.complex128)
            around[: self.length] = wave.conj()
            around[self.size - self.length + 1 :] = wave[:0:-1].conj()
            yield _apart(wave)
            yield _apart(np.fft.fft(around) / self.size)


def _apart(numbers: Array) -> Array:
    return np.concatenate([numbers.real, numbers.imag])


def _roots_of_passes(length: int, *, has_eight: bool) -> Array:
    """Return the roots of all passes: for each turn those of results 1, 2, ... of a butterfly."""
    found: list[Array] = [np.zeros(0)]
    for radix in radices_of(length, has_eight=has_eight) or ():
        whole, length = length, length // radix
        if length > 1:
            powers = np.outer(np.arange(length), np.arange(1, radix))
            roots = roots_of_unity(powers, whole)
            found.append(np.stack([roots.real, roots.imag], axis=-1).reshape(-1))
    return np.concatenate(found)
