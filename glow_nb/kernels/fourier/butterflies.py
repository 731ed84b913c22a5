"""Butterflies: the transforms of a few numbers, as lines of vector code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glow_nb.base.types import ElementKind
from glow_nb.fuse.vector_code import number_text
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.numerics.fourier import roots_of_unity

Pair = tuple[str, str]
"""The names of a real and of an imaginary part."""


@dataclass
class ComplexCode:
    """Writes operations on complex vectors, each to variables of its own.

    Attributes:
        out: Receives the lines.
        kind: The kind of the parts.
        lanes: Elements of a vector.
        prefix: The prefix of the names of variables.
    """

    out: SourceWriter
    kind: ElementKind
    lanes: int
    prefix: str
    _count: int = 0

    def name(self, text: str) -> str:
        """Write *text* to a new variable and return its name."""
        name = f"{self.prefix}{self._count}"
        self._count += 1
        self.out.line(f"{name} = {text}")
        return name

    def splat(self, number: float) -> str:
        """Return a vector of *number*."""
        return f"splat_{self.kind.value}({number_text(number)}, {self.lanes})"

    def add(self, x: Pair, y: Pair) -> Pair:
        """Return ``x + y``."""
        return self.name(f"add({x[0]}, {y[0]})"), self.name(f"add({x[1]}, {y[1]})")

    def sub(self, x: Pair, y: Pair) -> Pair:
        """Return ``x - y``."""
        return self.name(f"sub({x[0]}, {y[0]})"), self.name(f"sub({x[1]}, {y[1]})")

    def turned_add(self, x: Pair, y: Pair) -> Pair:
        """Return ``x - i y``."""
        return self.name(f"add({x[0]}, {y[1]})"), self.name(f"sub({x[1]}, {y[0]})")

    def turned_sub(self, x: Pair, y: Pair) -> Pair:
        """Return ``x + i y``."""
        return self.name(f"sub({x[0]}, {y[1]})"), self.name(f"add({x[1]}, {y[0]})")

    def product(self, x: Pair, w: Pair) -> Pair:
        """Return ``x * w``."""
        return (
            self.name(f"fma({x[0]}, {w[0]}, neg(mul({x[1]}, {w[1]})))"),
            self.name(f"fma({x[0]}, {w[1]}, mul({x[1]}, {w[0]}))"),
        )

    def butterfly(self, x: Sequence[Pair]) -> list[Pair]:
        """Return the transform of *x*."""
        if len(x) == 2:
            return [self.add(x[0], x[1]), self.sub(x[0], x[1])]
        if len(x) == 4:
            return self._four(x)
        return self._eight(x) if len(x) == 8 else self._odd(x)

    def _four(self, x: Sequence[Pair]) -> list[Pair]:
        even, odd = self.butterfly(x[::2]), self.butterfly(x[1::2])
        return [
            self.add(even[0], odd[0]),
            self.turned_add(even[1], odd[1]),
            self.sub(even[0], odd[0]),
            self.turned_sub(even[1], odd[1]),
        ]

    def _eight(self, x: Sequence[Pair]) -> list[Pair]:
        even, odd = self._four(x[::2]), self._four(x[1::2])
        root = float(np.sqrt(0.5))
        half, minus = self.name(self.splat(root)), self.name(self.splat(-root))
        (a, b), (c, d) = odd[1], odd[3]
        first = self.name(f"mul(add({a}, {b}), {half})"), self.name(f"mul(sub({b}, {a}), {half})")
        third = self.name(f"mul(sub({d}, {c}), {half})"), self.name(f"mul(add({c}, {d}), {minus})")
        return [
            self.add(even[0], odd[0]),
            self.add(even[1], first),
            self.turned_add(even[2], odd[2]),
            self.add(even[3], third),
            self.sub(even[0], odd[0]),
            self.sub(even[1], first),
            self.turned_sub(even[2], odd[2]),
            self.sub(even[3], third),
        ]

    def _odd(self, x: Sequence[Pair]) -> list[Pair]:
        """Sums and differences of opposite inputs go with the cosines and the sines."""
        radix, half = len(x), len(x) // 2
        sums = [self.add(x[j], x[radix - j]) for j in range(1, half + 1)]
        gaps = [self.sub(x[j], x[radix - j]) for j in range(1, half + 1)]
        total = x[0]
        for each in sums:
            total = self.add(total, each)
        results = {0: total}
        for k in range(1, half + 1):
            roots = roots_of_unity(np.arange(1, half + 1) * k, radix)
            near, far = x[0], ("", "")
            for one, gap, root in zip(sums, gaps, roots, strict=True):
                cosine, sine = self.splat(float(root.real)), self.splat(float(-root.imag))
                near = self._scaled(one, cosine, near)
                far = self._scaled(gap, sine, far)
            results[k], results[radix - k] = self.turned_add(near, far), self.turned_sub(near, far)
        return [results[k] for k in range(radix)]

    def _scaled(self, x: Pair, factor: str, addend: Pair) -> Pair:
        if not addend[0]:
            return self.name(f"mul({x[0]}, {factor})"), self.name(f"mul({x[1]}, {factor})")
        return (
            self.name(f"fma({x[0]}, {factor}, {addend[0]})"),
            self.name(f"fma({x[1]}, {factor}, {addend[1]})"),
        )
