"""Take the mean of pixels before they are convolved one by one."""

from __future__ import annotations

import dataclasses
from typing import Any

from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops import AvgPool, Convolution, ReduceMean, Reshape
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rewriting import any_of, named, rewrite_once, rule, used_here


@register_pass
def hoist_means(function: Function) -> Function:
    """Convolve means of pixels instead of taking the mean of convolved pixels.

    A convolution of one tap multiplies each pixel by the same matrix and adds the same bias, so
    ``mean(x[i] W + b) = mean(x[i]) W + b``, with fewer pixels to multiply. Between its blocks,
    DenseNet convolves and then takes the means of 2 x 2 pixels: in the other order, that is a
    quarter of the multiply-adds. It holds for average pools that do not count padding, and for
    means over spatial axes. Nothing else may read the convolution.

    ::

        %c = convolution(%x : <1 x 8 x 8 x 16>, %w, %b) {kernel = [1, 1], stride = [1, 1], ...}
        %y = avg_pool(%c) {kernel = [2, 2], stride = [2, 2], ...}
        ->
        %p = avg_pool(%x) {kernel = [2, 2], stride = [2, 2], ...}
        %y = convolution(%p : <1 x 4 x 4 x 16>, %w, %b) {kernel = [1, 1], stride = [1, 1], ...}
    """
    return rewrite_once(function, _means_first)


@rule(any_of(AvgPool, ReduceMean, input=used_here(named("product", any_of(Convolution)))))
def _means_first(
    node: AvgPool | ReduceMean, product: Convolution, rewriter: Rewriter
) -> Node | None:
    if not product.input.type.size:
        return None  # the mean of no pixels is NaN, the product of no channels is not
    if not (_is_product_of_pixels(product) and _is_mean_of_pixels(node)):
        return None
    changes: dict[str, Any] = {"keep_dims": True} if isinstance(node, ReduceMean) else {}
    changes["input"] = product.input
    mean = dataclasses.replace(node, **changes)
    result = dataclasses.replace(product, input=mean)
    if (mean.cost() + result.cost()).flops >= (product.cost() + node.cost()).flops:
        return None
    mean = rewriter.emit(mean, f"{product.name}_mean")
    result = rewriter.emit(dataclasses.replace(product, input=mean), node.name)
    if result.type == node.type:
        return result
    return rewriter.emit(Reshape(result, node.type.shape))


def _is_product_of_pixels(node: Convolution) -> bool:
    """Return whether each result depends on the pixel at its place alone."""
    return set(node.kernel) == set(node.stride) == {1} and not node.is_padded


def _is_mean_of_pixels(node: AvgPool | ReduceMean) -> bool:
    """Return whether *node* takes means of pixels of the input alone, each channel for itself."""
    if isinstance(node, ReduceMean):
        return 0 not in node.axes and node.input.type.rank - 1 not in node.axes
    return not (node.count_padding and node.is_padded)
