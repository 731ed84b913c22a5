"""The problem of a kernel of attention: sizes, and the place of each operand in memory."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.types import ElementKind
from glow_nb.hlir.ops.attention import by_heads
from glow_nb.kernels.writing.index_text import index_text, plus, times
from glow_nb.kernels.writing.vectors import computed_kind
from glow_nb.llir.instructions.attention import AttentionInst
from glow_nb.llir.program import Buffer


@dataclass(frozen=True)
class Place:
    """Where the rows of a tensor of heads lie, each of which is contiguous.

    Attributes:
        image: Elements from one sample of the batch to the next.
        head: Elements from one head to the next.
        token: Elements from one token to the next.
    """

    image: int
    head: int
    token: int

    @classmethod
    def of(cls, buffer: Buffer, layout: str) -> Place:
        """Return where *buffer* lies, whose axes are in the order of *layout*."""
        image, head, token, _ = by_heads(buffer.strides, layout)
        return cls(image, head, token)


@dataclass(frozen=True)
class Mask:
    """A mask and the elements from one of its numbers to the next; 0 where it is repeated.

    Attributes:
        kind: Bool, or a float that is added.
        image: Step for the next sample.
        head: Step for the next head of the queries.
        query: Step for the next query.
        key: Step for the next key, 0 or 1.
    """

    kind: ElementKind
    image: int
    head: int
    query: int
    key: int

    @classmethod
    def of(cls, buffer: Buffer) -> Mask:
        """Return what *buffer*, of rank 4, is as a mask."""
        steps = (
            0 if size == 1 else stride
            for size, stride in zip(buffer.type.shape, buffer.strides, strict=True)
        )
        return cls(buffer.type.kind, *steps)


@dataclass(frozen=True)
class AttentionShape:
    """Sizes, places and options of one attention.

    The queries of all heads that share a key are the rows of one product: row ``r`` of a group is
    query ``r // share`` of head ``r % share`` of the group, so that later rows see more keys.

    Attributes:
        batch: Samples.
        groups: Heads of keys and values.
        share: Heads of queries that read one head of keys.
        queries: Queries of a head.
        keys: Keys of a head.
        depth: Elements of a query and of a key.
        width: Elements of a value and of a result.
        kind: Kind of the operands.
        result: Kind of the result.
        dest: Where the result lies.
        query: Where the queries lie.
        key: Where the keys lie.
        value: Where the values lie.
        mask: The mask, if there is one.
        offset: Query ``i`` sees keys up to ``i + offset``; None if it sees all.
        rounds_weights: Exponentials may be rounded to the kind of the operands.
    """

    batch: int
    groups: int
    share: int
    queries: int
    keys: int
    depth: int
    width: int
    kind: ElementKind
    result: ElementKind
    dest: Place
    query: Place
    key: Place
    value: Place
    mask: Mask | None
    offset: int | None
    rounds_weights: bool = False

    @classmethod
    def of(cls, instruction: AttentionInst) -> AttentionShape:
        """Return what *instruction*, an ``attention``, computes."""
        query, key, value = instruction.query, instruction.key, instruction.value
        batch, heads, queries, depth = by_heads(query.type.shape, instruction.query_layout)
        _, groups, keys, _ = by_heads(key.type.shape, instruction.key_layout)
        return cls(
            batch=batch,
            groups=groups,
            share=heads // groups if groups != 0 else heads,
            queries=queries,
            keys=keys,
            depth=depth,
            width=value.type.shape[-1],
            kind=query.type.kind,
            result=instruction.dest.type.kind,
            dest=Place.of(instruction.dest, instruction.result_layout),
            query=Place.of(query, instruction.query_layout),
            key=Place.of(key, instruction.key_layout),
            value=Place.of(value, instruction.value_layout),
            mask=None if instruction.mask is None else Mask.of(instruction.mask),
            offset=instruction.offset if instruction.causal else None,
            rounds_weights=instruction.rounds_weights,
        )

    @property
    def rows(self) -> int:
        """Queries of all heads that read one head of keys."""
        return self.share * self.queries

    @property
    def units(self) -> int:
        """Heads of keys of all samples."""
        return self.batch * self.groups

    @property
    def computed(self) -> ElementKind:
        """The kind of scores and sums."""
        return computed_kind(self.kind)

    def query_of(self, row: str) -> str:
        """Return the number of the query of *row*, an expression."""
        return f"({row})" if self.share == 1 else f"(({row}) // {self.share})"

    def head_of(self, row: str) -> str:
        """Return the head of the queries that *row* of group ``group`` belongs to."""
        return "group" if self.share == 1 else f"(group * {self.share} + ({row}) % {self.share})"

    def place_of(self, row: str, place: Place) -> str:
        """Return where *row* of group ``group`` of sample ``image`` lies in a tensor of heads."""
        indices = ["image", self.head_of(row), self.query_of(row)]
        return index_text(indices, [place.image, place.head, place.token])

    def limit_of(self, row: str) -> str:
        """Return how many keys from ``begin`` on, of ``length``, *row* sees if it is causal."""
        assert self.offset is not None
        return f"min(length, max({plus(self.query_of(row), self.offset + 1)} - begin, 0))"

    def first_row(self, key: str) -> str:
        """Return the first row that sees *key*, an expression, if it is causal; maybe negative."""
        assert self.offset is not None
        return times(f"({plus(key, -self.offset)})", self.share)
