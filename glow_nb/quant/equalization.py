"""Equalization of the weights of neighbouring layers (Nagel et al. 2019, section 4.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.rewrite import substitute
from glow_nb.network.compilation import optimize
from glow_nb.quant.operators import PRODUCTS, has_finite_weights, is_product_of_weights
from glow_nb.quant.schemas import symmetric
from glow_nb.quant.weights import quantize_weights

ROUNDS = 20
"""Iterations over all pairs, since each pair changes its neighbours a little."""

MOST_CHANGE = 1e4
"""The largest factor of a channel."""

HOMOGENEOUS = (ops.Relu, ops.LeakyRelu, ops.MaxPool, ops.AvgPool)
"""Functions of each channel with ``f(s * x) = s * f(x)`` for positive s."""


@dataclass(frozen=True)
class Equalization:
    """A network with equalized weights, and the effect on their ranges; printed as one line.

    Attributes:
        function: The network, which computes the same as before, but for rounding.
        pairs: The names of the layers between which channels were scaled.
        before: Signal-to-noise ratio, in decibels, of the weights of these layers as int8 with one
            scale for each layer; the mean over all channels.
        after: The same for the new weights.
    """

    function: Function
    pairs: tuple[tuple[str, str], ...]
    before: float
    after: float

    @override
    def __str__(self) -> str:
        if not self.pairs:
            return "no pairs of layers can be equalized"
        change = f"{self.before:.2f} dB to {self.after:.2f} dB"
        return f"{len(self.pairs)} pairs of layers equalized: 8-bit weights from {change}"


def equalize(function: Function) -> Equalization:
    """Scale the channels between neighbouring layers so that the weights of both have similar
    ranges.

    Channel c of a layer is divided by ``s[c] = sqrt(r[c] / t[c])``, and the weights of the next
    layer that read it are multiplied by it, where r and t are the largest weights that compute the
    channel and that read it. ReLU and pools may lie between the layers, since they commute with
    positive factors. Equalization helps most if weights have one scale for each layer. It changes
    the ranges of activations: calibrate and quantize the new function.
    """
    function = optimize(function)
    pairs = list(_pairs(function))
    arrays = {
        constant: constant.array.astype(np.float64, order="C")  # so that reshape returns views
        for pair in pairs
        for node in pair
        for constant in _constants(node)
    }
    layers = dict.fromkeys(node for pair in pairs for node in pair)
    before = _mean_decibels(layers, arrays)
    for _ in range(ROUNDS):
        for first, second in pairs:
            _equalize_pair(first, second, arrays)
    after = _mean_decibels(layers, arrays)
    renewed: dict[Value, Value] = {
        constant: Constant.of(constant.name, array.astype(np.float32))
        for constant, array in arrays.items()
    }
    names = tuple((first.name, second.name) for first, second in pairs)
    return Equalization(substitute(function, renewed), names, before, after)


def _pairs(function: Function) -> Iterator[tuple[Node, Node]]:
    """Yield layers of which the second reads what the first makes, and nothing else does."""
    users = function.users()
    for node in function.nodes:
        if not (_is_layer(node) and _are_its_own(node, users)):
            continue
        value: Value = node
        while len(users.get(value, ())) == 1:
            (reader,) = users[value]
            if _is_layer(reader) and getattr(reader, PRODUCTS[type(reader)].input) is value:
                if _are_its_own(reader, users) and _can_be_scaled(reader):
                    yield node, reader
                break
            if not isinstance(reader, HOMOGENEOUS) or len(reader.results) != 1:
                break
            value = reader


def _is_layer(node: Node) -> bool:
    is_one = isinstance(node, ops.Convolution | ops.FullyConnected) and is_product_of_weights(node)
    return is_one and has_finite_weights(node)


def _constants(node: Node) -> tuple[Constant, Constant]:
    """Return the weights and the bias of a layer."""
    product = PRODUCTS[type(node)]
    return getattr(node, product.weights), getattr(node, product.bias)


def _are_its_own(node: Node, users: dict[Value, list[Node]]) -> bool:
    """Return whether no other node reads the weights or the bias of *node*."""
    return all(len(users[constant]) == 1 for constant in _constants(node))


def _can_be_scaled(node: Node) -> bool:
    """Return whether each weight of *node* reads one channel, and each result is one of these."""
    if not isinstance(node, ops.Convolution):
        return True
    return node.group == 1 or node.filter.type.shape[-1] == 1


def _made_by(node: Node, weights: Array) -> Array:
    """Return *weights* as ``[channels of the result, others]``, a view."""
    return weights.T if isinstance(node, ops.FullyConnected) else weights.reshape(len(weights), -1)


def _read_by(node: Node, weights: Array) -> Array:
    """Return *weights* as ``[channels of the input, others]``, a view."""
    if isinstance(node, ops.FullyConnected):
        return weights
    assert isinstance(node, ops.Convolution)
    if node.group > 1:
        return weights.reshape(node.group, -1)
    return weights.reshape(-1, weights.shape[-1]).T


def _equalize_pair(first: Node, second: Node, arrays: dict[Constant, Array]) -> None:
    """Scale the channels between two layers."""
    weights, bias = _constants(first)
    made = _made_by(first, arrays[weights])
    read = _read_by(second, arrays[_constants(second)[0]])
    largest = np.abs(made).max(axis=1, initial=0.0), np.abs(read).max(axis=1, initial=0.0)
    is_used = (largest[0] > 0) & (largest[1] > 0)
    ratio = np.divide(*largest, out=np.ones_like(largest[0]), where=is_used)
    factor = np.clip(np.sqrt(ratio), 1 / MOST_CHANGE, MOST_CHANGE)
    made /= factor[:, None]
    arrays[bias] /= factor
    read *= factor[:, None]


def _mean_decibels(layers: Iterable[Node], arrays: Mapping[Constant, Array]) -> float:
    """Return the mean signal-to-noise ratio of channels of weights as int8 with one scale a
    layer.
    """
    found: list[Array] = []
    for node in layers:
        weights = arrays[_constants(node)[0]]
        rounded = quantize_weights(weights, None, ElementKind.INT8, symmetric, 0.0).real
        signal, noise = (
            np.sum(_made_by(node, array) ** 2, axis=1) for array in (weights, weights - rounded)
        )
        is_rounded = (signal > 0) & (noise > 0)
        found.append(10 * np.log10(signal[is_rounded] / noise[is_rounded]))
    decibels = np.concatenate(found) if found else np.empty(0)
    return float(decibels.mean()) if decibels.size else float("inf")
