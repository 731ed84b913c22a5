"""Kernels that walk along some axes for each place of the others: reductions, softmax, sums.

A walk is vectorised along its innermost loop if elements lie side by side there; the lanes are then
brought together at its end. Otherwise a vector holds neighbouring places, each of which is walked
in a lane of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import prod

from glow_nb.base.size import bounds, hinted, surely, symbols_of
from glow_nb.kernels.writing.index_text import index_text, plus
from glow_nb.kernels.writing.loops import ENOUGH_ROWS, Nest, broadcast_strides, loops
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import (
    NARROWER,
    Block,
    Site,
    blocks_of,
    ceil_power_of_two,
    narrower,
)
from glow_nb.llir.program import Buffer


@dataclass(frozen=True)
class Walk:
    """The loops of such a kernel over some tensors, of which it steps along the first few.

    Attributes:
        names: Names of the pointers to the tensors.
        kept: Loops over the places, with the strides of all tensors.
        walked: Loops that are walked at each place, with the strides of all tensors.
        lanes: Elements of a vector.
        is_along: Vectors lie along the innermost walked loop, not across places.
        narrow: Elements of a vector along short runs, if only the run knows how long they are.
        is_short: The runs are such, with fewer elements than :data:`SHORT` of the widest vectors.
    """

    names: tuple[str, ...]
    kept: Nest
    walked: Nest
    lanes: int
    is_along: bool
    narrow: int
    is_short: bool = False

    @classmethod
    def over(
        cls,
        shape: tuple[int, ...],
        axes: Sequence[int],
        tensors: dict[str, tuple[int, ...]],
        lanes: int,
    ) -> Walk:
        """Return the walk along *axes* of *shape*.

        Args:
            shape: Sizes of all loops.
            axes: The axes of the walk.
            tensors: Strides of each tensor by its name, 0 along axes that it does not have.
            lanes: Elements of a vector that suit the kinds; fewer are used if there are fewer.
        """
        kept = _part(shape, [a for a in range(len(shape)) if a not in axes], tensors)
        walked = _part(shape, list(axes), tensors)
        is_along = all(tensor[-1] in (0, 1) for tensor in walked.strides) and any(
            tensor[-1] == 1 for tensor in walked.strides
        )
        if is_along and not surely(walked.sizes[-1], "<=", 1):
            widest = _lanes_along(walked.sizes[-1], lanes)
            narrow = min(widest, narrower(lanes)) if symbols_of(walked.sizes[-1]) else widest
            return cls(tuple(tensors), kept, walked, widest, is_along=True, narrow=narrow)
        fit = [
            loop
            for loop in range(len(kept.sizes))
            if all(tensor[loop] in (0, 1) for tensor in kept.strides)
        ]
        kept = kept.with_innermost(fit[-1]) if fit else kept
        lanes = lanes if fit else 1
        return cls(tuple(tensors), kept, walked, lanes, is_along=False, narrow=lanes)

    def by_length(self, out: SourceWriter) -> Iterator[Walk]:
        """Yield this walk, or one for short runs and one for others if only the run knows.

        What is written for each one yielded is the body of its branch. A short run has no more
        than a few wide vectors: to make one number of their lanes takes longer than to read it.
        """
        if self.narrow == self.lanes:
            yield self
            return
        short = replace(self, lanes=self.narrow, is_short=True)
        count, limit = self.walked.sizes[-1], SHORT * self.lanes
        if surely(count, "<", limit):
            yield short
            return
        with out.block(f"if {count} < {limit}:"):
            yield short
        with out.block("else:"):
            yield self

    def places(self, out: SourceWriter) -> Iterator[Site]:
        """Write loops over the places; what is written for each one yielded is its body.

        ``dest_at`` and so on are the indices of the place in the tensors. The site has one lane if
        vectors lie along the walk, else a lane for each of the places that a vector holds.
        """
        if self.is_along:
            with loops(out, self.kept.sizes, shared=True) as indices:
                yield self._write_site(out, indices, Block("0", 1))
            return
        *outer, columns = self.kept.sizes
        rows = hinted(prod(outer))
        share_rows = rows >= ENOUGH_ROWS or rows * self.lanes > hinted(columns)
        share_rows = share_rows and rows > 1
        with loops(out, outer, shared=share_rows) as indices:
            for block in blocks_of(out, columns, self.lanes, shared=not share_rows):
                yield self._write_site(out, indices, block)

    def _write_site(self, out: SourceWriter, indices: Sequence[str], block: Block) -> Site:
        columns = [] if self.is_along else [block.column]
        for name, strides in zip(self.names, self.kept.strides, strict=True):
            out.line(f"{name}_at = {index_text([*indices, *columns], strides)}")
        places = {name: f"{name}_at" for name in self.names}
        return Site(block, places, frozenset() if self.is_along else self._repeated(self.kept))

    def _repeated(self, nest: Nest) -> frozenset[str]:
        """Return the tensors that do not move along the innermost loop of *nest*."""
        tensors = zip(self.names, nest.strides, strict=True)
        return frozenset(name for name, strides in tensors if not strides[-1])

    def width(self, place: Site) -> int:
        """Return the lanes of the vectors along the walk at *place*."""
        return self.lanes if self.is_along else place.lanes

    @property
    def row_elements(self) -> int:
        """Elements that a copy of all that is walked at one place takes; see ``Site.step``."""
        return prod(self.walked.sizes[:-1]) * self._pitch

    @property
    def _pitch(self) -> int:
        """Elements of the copy from one step of the outer walked loops to the next."""
        inner, lanes = self.walked.sizes[-1], self.lanes
        return -(-inner // lanes) * lanes if self.is_along else inner * self.lanes

    @property
    def is_long(self) -> bool:
        """Return whether a sum should be made of several: its error grows with its length."""
        *outer, inner = self.walked.sizes
        steps = -(-inner // self.lanes) if self.is_along else inner
        if self.is_short:
            steps = SHORT * NARROWER
        return not surely(prod(outer) * steps, "<=", MOST_CHAINED_ADDITIONS)

    def elements(
        self, out: SourceWriter, place: Site, chain: Chain | None = None
    ) -> Iterator[Site]:
        """Yield the sites that a walk visits.

        Args:
            out: Receives the loops of the walk.
            place: A result of :meth:`places`.
            chain: Lines to write before and after each of the short walks that make up this one.
        """
        with ExitStack() as stack:
            *outer, inner = self.walked.sizes
            names = stack.enter_context(loops(out, outer, shared=False, prefix="k"))
            if self.is_along:
                for block in self._run(out, chain):
                    yield self._site(block, names, block.column)
                return
            step = f"k{len(outer)}" if inner != 1 else "0"
            if chain is not None:
                stack.enter_context(_chained(out, step, inner, 1, chain))
            elif inner != 1:
                stack.enter_context(out.block(f"for {step} in range({inner}):"))
            yield self._site(place.block, names, step)

    def _run(self, out: SourceWriter, chain: Chain | None) -> Iterator[Block]:
        """Yield the blocks of the run that vectors lie along, all of one width."""
        count, lanes = self.walked.sizes[-1], self.lanes
        whole = count - count % lanes
        if chain is not None and whole != 0:
            with _chained(out, "c", whole, lanes, chain):
                yield Block("c", lanes)
        elif not surely(whole, "<=", lanes):
            with out.block(f"for c in range(0, {whole}, {lanes}):"):
                yield Block("c", lanes)
        elif whole == lanes:
            yield Block("0", lanes)
        if count == whole:
            return
        with _between(out, chain):
            rest = count - whole
            with out.block(f"if {rest}:") if symbols_of(count) else nullcontext():
                yield Block(f"{whole}", lanes, f"{rest}")

    def _site(self, block: Block, names: Sequence[str], inner: str) -> Site:
        """Return the site at the steps *names* of the outer loops and *inner* of the last."""
        steps = [*names, inner]
        places = {
            name: plus(f"{name}_at", index_text(steps, strides))
            for name, strides in zip(self.names, self.walked.strides, strict=True)
        }
        sizes = self.walked.sizes[:-1]
        pitches = [prod(sizes[loop + 1 :]) * self._pitch for loop in range(len(sizes))]
        along = index_text(steps, [*pitches, 1 if self.is_along else self.lanes])
        repeated = self._repeated(self.walked if self.is_along else self.kept)
        return Site(block, places, repeated, along)


SHORT = 2
"""A run with fewer elements than this number of the widest vectors is short."""

Chain = tuple[str, str]
MOST_CHAINED_ADDITIONS = 64
"""Additions after which a sum begins anew; the sums are then added to each other."""


@contextmanager
def _between(out: SourceWriter, chain: Chain | None) -> Iterator[None]:
    if chain is not None:
        out.line(chain[0])
    yield
    if chain is not None:
        out.line(chain[1])


@contextmanager
def _chained(out: SourceWriter, name: str, count: int, step: int, chain: Chain) -> Iterator[None]:
    """Write a loop over *count* around the block, cut into :data:`MOST_CHAINED_ADDITIONS` steps."""
    length = MOST_CHAINED_ADDITIONS * step
    by = "" if step == 1 else f", {step}"
    if surely(count, "<=", length):
        with _between(out, chain), out.block(f"for {name} in range(0, {count}{by}):"):
            yield
        return
    with out.block(f"for begin in range(0, {count}, {length}):"), _between(out, chain):
        with out.block(f"for {name} in range(begin, min(begin + {length}, {count}){by}):"):
            yield


NARROWER_COST = 0.05
"""What half as wide vectors cost, of the whole: there are more of them, each with its latency."""


def _lanes_along(count: int, lanes: int) -> int:
    """Return the width of the vectors for a run of *count*, all of one width, with little waste.

    Where the count is open, short runs have a walk of their own.
    """
    widest = min(lanes, ceil_power_of_two(bounds(count)[1]))
    if symbols_of(count):
        return widest
    costs: dict[int, float] = {}
    for halvings in range(3):
        width = max(1, widest >> halvings)
        costs.setdefault(width, -(-count // width) * width * (1 + NARROWER_COST * halvings))
    return min(costs, key=lambda width: costs[width])


def _part(shape: tuple[int, ...], axes: list[int], tensors: dict[str, tuple[int, ...]]) -> Nest:
    """Return the loops over *axes* alone."""
    strides = tuple(tuple(tensor[axis] for axis in axes) for tensor in tensors.values())
    return Nest(tuple(shape[axis] for axis in axes), strides).collapsed()


def strides_of(tensor: Buffer, shape: tuple[int, ...], axes: Collection[int]) -> tuple[int, ...]:
    """Return the strides over *shape* of a tensor that has no more than one element along *axes*.

    They are 0 along *axes*, which it may not even have, and where it is broadcast.
    """
    has_axes = tensor.type.rank == len(shape)
    own = [axis for axis in range(len(shape)) if has_axes or axis not in axes]
    sizes = tuple(1 if axis in axes else shape[axis] for axis in own)
    strides = dict(zip(own, broadcast_strides(tensor, sizes), strict=True))
    return tuple(0 if axis in axes else strides[axis] for axis in range(len(shape)))
