"""Compute transposed convolutions as products whose columns are added up, where that is faster.

Lowering makes a convolution of each phase, which leaves lanes empty if there are few channels, and
a kernel to compile for each. A product with all taps of all channels as its rows, and the pixels as
its columns, has full lanes for any number of channels; it writes more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from glow_nb.backends.cpu.algorithms import Problem
from glow_nb.backends.cpu.algorithms.candidates import candidates_for
from glow_nb.backends.cpu.products import PRODUCTS
from glow_nb.base.schema import operands_of
from glow_nb.base.size import symbols_of
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.ops import (
    Broadcast,
    ColumnsToImage,
    ConvertTo,
    MatMul,
    Reshape,
    Transpose,
    TransposedConvolution,
)
from glow_nb.hlir.ops.transposed_convolution import lower_transposed_convolution
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.hlir.rounding import WIDE, is_narrow
from glow_nb.kernels.products.caches import byte_cycles, level_2_bytes
from glow_nb.kernels.target import Target

Form = Callable[[TransposedConvolution, Rewriter], Replacement]
"""Emits what computes a transposed convolution."""


@register_pass
def transposed_convolutions(
    function: Function, *, target: Target | None = None, threads: int = 1
) -> Function:
    """Add up the columns of a product where that is estimated to be faster than convolutions.

    It is estimated for *threads* threads of *target*, by default this processor::

        %y = transposed_convolution(%x : <1 x 14 x 14 x 64>, %w : <64 x 4 x 4 x 2>)
        ->
        %columns = mat_mul(%rows : <32 x 64>, %t : <64 x 196>)    // a transpose of %x
        %image = columns_to_image(%columns : <1 x 2 x 4 x 4 x 14 x 14>) {stride = [2, 2], ...}
        %y = transpose(%image : <1 x 2 x 28 x 28>) {permutation = [0, 2, 3, 1]}

    Others stay, and become convolutions when they are lowered.
    """
    chosen = target or Target.host()

    def rule(node: TransposedConvolution, rewriter: Rewriter) -> Replacement:
        if not _can_add_up(node):
            return None
        phases, columns = (
            _cycles(node, form, rewriter, chosen, threads)
            for form in (lower_transposed_convolution, as_columns)
        )
        return as_columns(node, rewriter) if columns < phases else None

    return rewrite(function, rule, TransposedConvolution)


def _can_add_up(node: TransposedConvolution) -> bool:
    """Return whether *node* computes floats, there are some, and their number is known."""
    if symbols_of(*node.type.shape):
        return False
    is_plain = node.type.kind.is_float and node.predicate is None
    return is_plain and 0 not in (node.type.size, node.input.type.size, node.filter.type.size)


def as_columns(node: TransposedConvolution, rewriter: Rewriter) -> Value:
    """Emit the product of the taps and the input, and what adds its rows up.

    The products of 16-bit floats are added up in float32.
    """
    if is_narrow(node.type):
        filter = rewriter.emit(ConvertTo(node.filter, WIDE))
        wide = replace(node, input=_widened(node.input, rewriter), filter=filter, name="")
        return rewriter.emit(ConvertTo(as_columns(wide, rewriter), node.type.kind))
    emit, rank = rewriter.emit, len(node.size)
    batch, *places, depth = node.input.type.shape
    channels = node.type.shape[-1]
    outer = () if batch * node.group == 1 else (batch * node.group,)
    inner = depth // node.group
    product = emit(
        MatMul(
            _rows_of_taps(node, outer, rewriter),
            _columns_of_pixels(node, (*outer, inner, prod(places)), rewriter),
            wide=node.wide,
        )
    )
    shape = (batch, channels, *node.kernel, *places)
    image = emit(
        ColumnsToImage(emit(Reshape(product, shape)), image=node.size, **node.window.attributes)
    )
    return emit(Transpose(image, (0, *range(2, rank + 2), 1)))


def _widened(value: Value, rewriter: Rewriter) -> Value:
    """Return *value* as float32, a transpose as one of what was converted."""
    if isinstance(value, Transpose):
        return rewriter.emit(Transpose(_widened(value.input, rewriter), value.permutation))
    return rewriter.emit(ConvertTo(value, WIDE))


def _rows_of_taps(node: TransposedConvolution, outer: tuple[int, ...], rewriter: Rewriter) -> Value:
    """Return the filter as ``[*outer, C / group * taps, K / group]``."""
    emit, group, taps = rewriter.emit, node.group, prod(node.kernel)
    depth, channels = node.filter.type.shape[0] // node.group, node.filter.type.shape[-1]
    split = emit(Reshape(node.filter, (group, depth, taps, channels)))
    moved: Value = emit(Transpose(split, (0, 3, 2, 1)))
    batch = node.input.type.shape[0]
    if batch > 1:
        once = emit(Reshape(moved, (1, group, channels * taps, depth)))
        moved = emit(Broadcast(once, (batch, group, channels * taps, depth)))
    return emit(Reshape(moved, (*outer, channels * taps, depth)))


def _columns_of_pixels(
    node: TransposedConvolution, shape: tuple[int, ...], rewriter: Rewriter
) -> Value:
    """Return the input with the channels first, ``[*outer, K / group, pixels]``."""
    emit, input, rank = rewriter.emit, node.input, len(node.size)
    channels_last = (0, *range(2, rank + 2), 1)
    if isinstance(input, Transpose) and input.permutation == channels_last:
        return emit(Reshape(input.input, shape))
    if len(shape) == 2:
        pixels = emit(Reshape(input, (shape[1], shape[0])))
        return emit(Transpose(pixels, (1, 0)))
    first = emit(Transpose(input, (0, rank + 1, *range(1, rank + 1))))
    return emit(Reshape(first, shape))


def _cycles(
    node: TransposedConvolution, form: Form, rewriter: Rewriter, target: Target, threads: int
) -> float:
    """Estimate what *form* emits for *node*, and the transpose before it if that is left over."""
    mark = rewriter.mark()
    form(node, rewriter)
    nodes: list[Node] = []
    while len(nodes) < len(rewriter.nodes) - mark[0]:
        emitted = rewriter.nodes[mark[0] + len(nodes)]
        if isinstance(emitted, TransposedConvolution):  # one of like phases
            lower_transposed_convolution(emitted, rewriter)
        nodes.append(emitted)
    rewriter.reset(mark)
    rewriter.begin(node)
    read = {value for each in nodes for value in operands_of(each)}
    nodes = [each for each in nodes if each is nodes[-1] or read.intersection(each.results)]
    is_left_over = node.input in read and rewriter.use_count(node.input) == 1
    if isinstance(node.input, Transpose) and is_left_over:
        nodes.append(node.input)
    return _cycles_of(nodes, target, threads)


def _cycles_of(nodes: Sequence[Node], target: Target, threads: int) -> float:
    """Estimate products as their kernels are chosen, and all else by the bytes that it moves."""
    total, known = 0.0, set[Value]()
    for node in nodes:
        operands = operands_of(node)
        if all(isinstance(each, Constant) or each in known for each in operands):
            known.update(node.results)  # computed when the network is compiled
        elif isinstance(node, PRODUCTS):
            problem = Problem.of(node, target, threads=threads)
            problem = replace(problem, is_constant=node.factors[1] in known)
            cycles = candidates_for(problem, target)[0].cycles
            total += cycles if problem.product is None else cycles / threads
        elif isinstance(node, ColumnsToImage):
            total += _cycles_of_columns(node, target) / threads
        elif not isinstance(node, (Reshape, TransposedConvolution)):
            size = node.results[0].type.size_bytes
            total += target.machine.narrow_transposed_byte_cycles * size / threads
    return total


def _cycles_of_columns(node: ColumnsToImage, target: Target) -> float:
    """Estimate the sums, and that columns go to a far cache and come back if they are many."""
    size = node.input.type.size_bytes
    far = byte_cycles(size, target) if size > level_2_bytes(target) else 0.0
    return target.machine.image_byte_cycles * (size + node.type.size_bytes) + 2 * far * size
