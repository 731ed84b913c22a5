"""Einstein sums, as transposes and batched matrix products of two operands at a time."""

from __future__ import annotations

import string
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from glow_nb.base.size import same
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value


@dataclass(frozen=True)
class Term:
    """A tensor and the label of each of its axes."""

    value: Value
    labels: tuple[str, ...]

    def size(self, label: str) -> int:
        """Return the size of the axis called *label*, 1 if there is none."""
        return self.value.type.shape[self.labels.index(label)] if label in self.labels else 1


@onnx_op("Einsum")
def einsum(ctx: Context, node: OnnxNode) -> Value:
    """Multiply tensors along labelled axes and sum over labels that the result has not."""
    sides, result = _parse(ctx, node)
    terms = [
        _without_repeats(ctx, Term(value, labels))
        for value, labels in zip(node.operands, sides, strict=True)
    ]
    while len(terms) > 1:
        first, second, *others = terms
        needed = {*result, *(label for term in others for label in term.labels)}
        terms = [_contract(ctx, first, second, needed), *others]
    term = _summed(ctx, terms[0], set(result))
    missing = [label for label in result if label not in term.labels]
    if missing:
        raise ctx.wrong(f"labels {missing} of the result are in no operand")
    return ctx.transpose(term.value, [term.labels.index(label) for label in result])


def _parse(ctx: Context, node: OnnxNode) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Return the labels of the operands and of the result; ``...`` becomes labels of its own."""
    equation = node.text("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    sides = left.split(",")
    plain = (left + right).replace("...", "").replace(",", "")
    if len(sides) != len(node.operands) or set(plain) - set(string.ascii_letters):
        raise ctx.wrong(f"equation {equation!r} does not fit its {len(node.operands)} operands")
    labels = [
        _labels(ctx, side, value.type.rank)
        for side, value in zip(sides, node.operands, strict=True)
    ]
    dots = max((tuple(n for n in row if n.isdigit()) for row in labels), key=len, default=())
    if not arrow:
        counts = [n for row in labels for n in row if not n.isdigit()]
        right = "..." + "".join(sorted(n for n in set(counts) if counts.count(n) == 1))
    before, ellipsis, after = right.partition("...")
    result = (*before, *(dots if ellipsis else ()), *after)
    if len(set(result)) < len(result):
        raise ctx.wrong(f"equation {equation!r} repeats a label of the result")
    return labels, result


def _labels(ctx: Context, side: str, rank: int) -> tuple[str, ...]:
    """Return the labels of one operand; axes under the dots are numbered from the last."""
    before, dots, after = side.partition("...")
    count = rank - len(before) - len(after)
    if count < 0 or (count and not dots):
        raise ctx.wrong(f"labels {side!r} do not fit a tensor of rank {rank}")
    return (*before, *(str(i) for i in reversed(range(count))), *after)


def _without_repeats(ctx: Context, term: Term) -> Term:
    """Return *term* with axes of the same label replaced by their diagonal."""
    for label in dict.fromkeys(term.labels):
        while term.labels.count(label) > 1:
            term = _diagonal(ctx, term, label)
    return term


def _diagonal(ctx: Context, term: Term, label: str) -> Term:
    first = term.labels.index(label)
    second = term.labels.index(label, first + 1)
    size = term.value.type.shape[first]
    if not same(term.value.type.shape[second], size):
        raise ctx.wrong(f"label {label!r} stands for axes of different size in {term.value}")
    others = [axis for axis in range(len(term.labels)) if axis not in (first, second)]
    moved = ctx.transpose(term.value, [*others, first, second])
    kept = moved.type.shape[:-2]
    flat = ctx.reshape(moved, (*kept, size * size))
    diagonal = ctx.emit(
        ops.Slice(
            flat,
            starts=(0,) * len(flat.type.shape),
            stops=flat.type.shape,
            steps=(*(1,) * len(kept), size + 1),
        )
    )
    return Term(diagonal, (*(term.labels[axis] for axis in others), label))


def _summed(ctx: Context, term: Term, needed: Iterable[str]) -> Term:
    """Return *term* summed over labels that are not *needed*."""
    axes = tuple(axis for axis, label in enumerate(term.labels) if label not in needed)
    if not axes:
        return term
    value = ctx.emit(ops.ReduceSum(term.value, axes=axes, keep_dims=False))
    return Term(value, tuple(label for label in term.labels if label in needed))


def _contract(ctx: Context, lhs: Term, rhs: Term, needed: set[str]) -> Term:
    """Return the product of two terms, summed over labels that are not *needed*."""
    lhs = _summed(ctx, lhs, needed | set(rhs.labels))
    rhs = _summed(ctx, rhs, needed | set(lhs.labels))
    shared = [label for label in lhs.labels if label in rhs.labels]
    batch = [label for label in shared if label in needed]
    inner = [label for label in shared if label not in needed]
    rows = [label for label in lhs.labels if label not in shared]
    columns = [label for label in rhs.labels if label not in shared]
    sizes = {label: _common_size(ctx, lhs, rhs, label) for label in (*lhs.labels, *rhs.labels)}

    def matrix(term: Term, *groups: list[str]) -> Value:
        order = [term.labels.index(label) for group in groups for label in group]
        value = ctx.transpose(term.value, order)
        value = ctx.broadcast(value, [sizes[label] for group in groups for label in group])
        return ctx.reshape(value, [prod(sizes[label] for label in group) for group in groups])

    product = ctx.emit(
        ops.MatMul(matrix(lhs, batch, rows, inner), matrix(rhs, batch, inner, columns))
    )
    labels = (*batch, *rows, *columns)
    product = ctx.convert(product, lhs.value.type.kind)  # low-bit integers wrap around in it
    return Term(ctx.reshape(product, [sizes[label] for label in labels]), labels)


def _common_size(ctx: Context, lhs: Term, rhs: Term, label: str) -> int:
    sizes = {lhs.size(label), rhs.size(label)} - {1} or {1}
    if not all(same(size, other) for size in sizes for other in sizes):
        raise ctx.wrong(f"label {label!r} stands for axes of sizes {sorted(sizes, key=str)}")
    return sizes.pop()
