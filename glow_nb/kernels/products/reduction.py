"""The sum of a product as loops, cut into inner blocks.

A sum runs over taps and channels. Taps whose inputs are neighbours in memory make one loop with the
channels, the *dot*. An inner block is what is summed up in registers in one go: the dot, or a piece
of it, and the innermost loops around it. The outer loops are outside of the register tiles: after
each inner block but the last, the sums of all tiles wait in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from glow_nb.base.size import Size
from glow_nb.kernels.products.convolution_shape import ConvolutionShape


@dataclass(frozen=True)
class SumLoop:
    """One loop of a sum.

    Attributes:
        count: Steps.
        left: Elements of the left operand from step to step.
        right: Rows of the right operand from step to step, of a group of factors each.
    """

    count: int
    left: int
    right: int


@dataclass(frozen=True)
class Reduction:
    """The loops of a sum, from the outside in.

    Attributes:
        outer: Loops over inner blocks.
        inner: Loops of an inner block around its dots.
        dot: Steps of a dot: products, or groups of products that are computed at once.
        whole_dot: Steps of the dots that are cut into pieces of ``dot``, of which the last may
            have less; the innermost of the outer loops counts them. Otherwise the same as ``dot``.
            Dots of an open size are always cut.
        has_tap_rows: The first loop is that over the taps of the first dimension.
        chain: The number of steps of the first inner loop that are added up in a chain, beginning
            with zero; their sum is then added to that of the earlier steps.
        streams: Places of the dot that are summed up from at a time; ``dot`` and ``whole_dot`` are
            the steps from one of them.
        rest: Steps of the dot after the last of the streams.
    """

    outer: tuple[SumLoop, ...]
    inner: tuple[SumLoop, ...]
    dot: int
    whole_dot: int
    has_tap_rows: bool
    streams: int = 1
    rest: int = 0
    chain: int | None = None

    @classmethod
    def of(
        cls,
        shape: ConvolutionShape,
        distances: tuple[int, ...],
        step: int,
        limit: int,
        *,
        factors: int = 1,
        run: int = 1,
        keeps_runs: bool = False,
        multiple: int = 1,
    ) -> Reduction:
        """Cut the sum of *shape* into inner blocks of at most *limit* steps.

        Args:
            shape: Sizes.
            distances: Elements of the left operand between neighbours in each dimension.
            step: Elements of the left operand from channel to channel.
            limit: The most steps of an inner block.
            factors: Neighbouring factors that a step multiplies.
            run: Factors that are cut into groups together; a group holds none of two runs.
            keeps_runs: Each run has dots of its own.
            multiple: Pieces of a dot, but for the last one, have a multiple of this number of
                steps.
        """
        dot = shape.channels_per_group
        taps = list(zip(shape.kernel, shape.dilation, distances, strict=True))

        def continues(count: int, dilation: int, distance: int) -> bool:
            is_near = dilation * distance == dot * step
            joins = dot < run or (run % factors == 0 and not keeps_runs)
            return count == 1 or (is_near and joins)

        while taps and continues(*taps[-1]):
            dot *= taps.pop()[0]
        dot = -(-dot // factors)
        loops: list[SumLoop] = []
        right = dot
        for count, dilation, distance in reversed(taps):
            if count > 1:
                loops.insert(0, SumLoop(count, dilation * distance, right))
            right *= count
        has_tap_rows = bool(taps) and shape.kernel[0] > 1
        if isinstance(dot, Size):
            length = limit // multiple * multiple or limit
            loops.append(SumLoop((dot + (length - 1)) // length, length * step * factors, length))
            return cls(tuple(loops), (), length, dot, has_tap_rows)
        if dot > limit:
            length = _piece(dot, limit, multiple)
            loops.append(SumLoop(-(-dot // length), length * step * factors, length))
            return cls(tuple(loops), (), length, dot, has_tap_rows)
        inner: list[SumLoop] = []
        while loops and prod(loop.count for loop in (*inner, loops[-1])) * dot <= limit:
            inner.insert(0, loops.pop())
        return cls(tuple(loops), tuple(inner), dot, dot, has_tap_rows)

    def in_streams(self, streams: int, gap: int, left: int, limit: int) -> Reduction:
        """Return this sum, a single dot, over *streams* streams of steps that lie apart.

        Args:
            streams: The number of streams.
            gap: Steps of each of them.
            left: Elements of the left operand from step to step.
            limit: The most steps of an inner block, of all streams together; what is left over is
                added to the last one.
        """
        assert len((*self.outer, *self.inner)) < 2, f"{self} is not a single dot"
        rest = self.whole_dot - streams * gap
        length = _piece(gap, max(1, limit // streams))
        pieces = -(-gap // length)
        outer = (SumLoop(pieces, length * left, length),) if pieces > 1 else ()
        return Reduction(outer, (), length, gap, self.has_tap_rows, streams, rest)

    def in_planes(self, plane: int, groups: int) -> Reduction:
        """Return this sum of a left operand in planes, *plane* elements each, of *groups* groups.

        Pieces of a dot begin in different planes.
        """
        if self.whole_dot == self.dot:
            return self
        *outer, pieces = self.outer
        return replace(self, outer=(*outer, replace(pieces, left=pieces.right // groups * plane)))

    @property
    def blocks(self) -> int:
        """Number of inner blocks."""
        return prod(loop.count for loop in self.outer)

    @property
    def block_products(self) -> int:
        """The most steps of an inner block, but for the rest of streams."""
        return prod(loop.count for loop in self.inner) * self.dot * self.streams

    @property
    def blocks_per_tap_row(self) -> int:
        """Inner blocks for one tap of the first dimension."""
        return prod(loop.count for loop in self.outer[1:])


def _piece(steps: int, limit: int, multiple: int = 1) -> int:
    """Return the steps of one of the fewest, equal pieces of at most *limit* steps.

    It is a multiple of *multiple* unless not even one fits *limit*; the last piece may be shorter.
    """
    multiple = multiple if multiple <= limit else 1
    pieces = -(-steps // (limit // multiple * multiple))
    return -(-steps // (pieces * multiple)) * multiple
