"""Convolutions of 16-bit floats on processors that multiply none: float32 takes their place."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from glow_nb.backends.cpu.integer_products import factor_kinds, matrix_dot_of
from glow_nb.base.dot_instruction import SINGLE
from glow_nb.base.size import hinted
from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.known import is_known
from glow_nb.hlir.ops import ConvertTo, Convolution
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.recipe import folded
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.kernels.target import Target


@register_pass
def widen_convolutions(function: Function, *, target: Target | None = None) -> Function:
    """Convolve in float32 what is rounded to 16 bits, if *target* has no dot instruction for that.

    The direct algorithm would widen each number when it reads it, which takes longer than to do so
    where the input is computed, and Winograd's and Strassen's algorithms are of float32. Filters
    take as much memory as in a network of float32. So few pixels that they wait for the filter
    read it in 16 bits. *target* is this processor by default::

        %h = convert_to(%x) {kind = bfloat16}
        %y = convolution(%h, %w : bfloat16<...>, %b) {wide, ...}
        ->
        %h = convert_to(%x) {kind = bfloat16}
        %f = convert_to(%h) {kind = float32}       // joins the kernel that computes %x
        %y = convolution(%f, %v : float32<...>, %b) {...}
    """
    chosen = target or Target.host()
    filters: dict[Value, Constant] = {}  # several convolutions may read one

    def widened(value: Value, kind: ElementKind, rewriter: Rewriter) -> Value:
        node = ConvertTo(value, kind)
        if not is_known(value):
            return rewriter.emit(node)
        if value not in filters:
            filters[value] = folded(node, rewriter.unique_name(value.name))
        return filters[value]

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        if not (isinstance(node, Convolution) and node.wide) or _is_multiplied(node, chosen):
            return None
        if hinted(prod(node.type.shape[:-1])) < _fewest_pixels(chosen):
            return None
        input, filter = (widened(factor, node.type.kind, rewriter) for factor in node.factors)
        return rewriter.emit(replace(node, input=input, filter=filter, wide=False, name=""))

    return rewrite(function, rule, Convolution)


def _is_multiplied(node: Convolution, target: Target) -> bool:
    """Return whether *target* has a dot instruction for the 16-bit factors of *node*."""
    _, dot = factor_kinds(node, target)
    return dot is not SINGLE or matrix_dot_of(node, target) is not None


def _fewest_pixels(target: Target) -> float:
    """Return the pixels whose products take as long as a filter of float32 takes from DRAM."""
    machine = target.machine
    multiplied = machine.fma_per_cycle * target.unit_lanes
    read = machine.dram_bytes_per_cycle / ElementKind.FLOAT32.size_bytes
    return multiplied / read
