"""Bias correction for the rounding error of weights (Nagel et al. 2019, section 4.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from glow_nb.backends import BackendLike
from glow_nb.base.types import Array
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.network.compilation import optimize
from glow_nb.network.compiling import as_threads, compile
from glow_nb.network.source import Trained, as_source, shapes_of
from glow_nb.quant.comparison import Drift, drift
from glow_nb.quant.operators import PRODUCTS, is_product_of_weights
from glow_nb.quant.samples import Samples, batches_of


@dataclass(frozen=True)
class BiasCorrection:
    """A quantized network with corrected biases, and their effect; printed as one line.

    Attributes:
        function: The network: the given one, if its outputs are closer to the float outputs.
        corrected: The number of corrected biases.
        before: Signal-to-noise ratio of the outputs with the given biases, in decibels: the mean
            over all outputs that are not exact in both networks.
        after: The same with the new ones.
    """

    function: Function
    corrected: int
    before: float
    after: float

    @override
    def __str__(self) -> str:
        change = f"{self.before:.2f} dB to {self.after:.2f} dB"
        verdict = "" if self.after > self.before else "; the old ones stay"
        return f"{self.corrected} biases corrected: outputs from {change}{verdict}"


def correct_biases(
    float_model: Trained,
    quantized: Function,
    samples: Samples,
    *,
    backend: BackendLike = "cpu",
    threads: int | None = None,
) -> BiasCorrection:
    """Correct the biases of *quantized*, which :func:`quantize` has made of *float_model*.

    Rounding the weights by ``W' - W`` moves the mean of each channel of a product by ``(W' - W) @
    mean(input)``. This change is subtracted from the bias. The mean of the input is that of the
    float network over all samples; padding counts as this mean.

    Args:
        float_model: The calibrated network.
        quantized: Its quantized version.
        samples: As :func:`calibrate` takes them; the effect is measured on the same samples.
        backend: The backend that runs the networks.
        threads: Cores that share the work of a run; all that are available by default.

    Raises:
        CalibrationError: There are no samples, or some hold NaN.
        GlowError: As :func:`drift`.
    """
    cores = as_threads(threads)
    source = as_source(float_model)
    feeds = list(batches_of(samples, source))
    reference = optimize(source.function(shapes_of(feeds[0])))
    products = {node.name: node for node in reference.nodes if _has_bias(node)}
    means = _means(reference, products, feeds, backend, cores)
    corrected = 0

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        nonlocal corrected
        wanted = products.get(node.name)
        if wanted is None or type(node) is not type(wanted):
            return None
        found = _corrected_bias(node, wanted, means[node.name], rewriter)
        corrected += found is not None
        return None if found is None else rewriter.emit(node.copied(bias=found))

    function = rewrite(quantized, rule)
    before, after = mean_decibels(
        *(
            drift(float_model, each, feeds, backend=backend, threads=cores, runs=0)
            for each in (quantized, function)
        )
    )
    return BiasCorrection(function if after > before else quantized, corrected, before, after)


def _has_bias(node: Node) -> bool:
    return is_product_of_weights(node) and bool(PRODUCTS[type(node)].bias)


def _means(
    function: Function,
    products: Mapping[str, Node],
    feeds: list[dict[str, Array]],
    backend: BackendLike,
    threads: int,
) -> dict[str, Array]:
    """Return the mean of each channel of what each of *products* reads, over all *feeds*."""
    if not products:
        return {}
    builder = Builder(function.name, (v.name for v in (*function.storage, *function.nodes)))
    builder.inputs += function.inputs
    builder.nodes += [node for node in function.nodes if not node.has_side_effects]
    outputs = {}
    for name, node in products.items():
        input: Value = getattr(node, PRODUCTS[type(node)].input)
        axes = tuple(range(input.type.rank - 1))
        mean = builder.emit(ops.ReduceMean(input, axes=axes, keep_dims=False))
        outputs[name] = builder.save(mean, builder.unique_name(f"{name}_mean")).name
    network = compile(builder.function(), backend=backend, threads=threads)
    runs = [network.run(feed) for feed in feeds]
    return {name: np.mean([r[output] for r in runs], axis=0) for name, output in outputs.items()}


def _corrected_bias(node: Node, wanted: Node, mean: Array, rewriter: Rewriter) -> Value | None:
    """Return the bias with which the mean of *node* is that of *wanted*, None if it is float."""
    product = PRODUCTS[type(node)]
    weights, bias = getattr(node, product.weights), getattr(node, product.bias)
    match weights, bias:
        case (
            ops.DequantizeLinear(input=Constant() as w, scale=Constant() as unit, offset=zero),
            ops.DequantizeLinear(input=Constant() as stored, scale=Constant() as scale),
        ) if isinstance(zero, Constant):
            real = weights.evaluate(w.array, unit.array, zero.array)
            change = getattr(wanted, product.weights).array - real
            with np.errstate(invalid="ignore"):  # of samples that are infinite
                moved = np.rint(_mean_of_sums(wanted, change, mean) / scale.array)
            steps = stored.array + np.where(np.isfinite(moved), moved, 0)
            limit = 2**31 - 1
            integers = np.clip(steps, -limit, limit).astype(np.int32)
            renewed = rewriter.constant(f"{stored.name}_corrected", integers)
            return rewriter.emit(bias.copied(input=renewed), name=f"{bias.name}_corrected")
    return None


def _mean_of_sums(node: Node, weights: Array, mean: Array) -> Array:
    """Return the mean of each channel of the sums of the product *node* with other *weights*."""
    wide, input = weights.astype(np.float64), mean.astype(np.float64)
    if isinstance(node, ops.FullyConnected):
        sums: Array = input @ wide
        return sums
    assert isinstance(node, ops.Convolution)
    taps = wide.sum(axis=tuple(range(1, wide.ndim - 1)))  # [K, C / group]
    groups = taps.reshape(node.group, -1, taps.shape[-1])
    sums = np.einsum("gkc,gc->gk", groups, input.reshape(node.group, -1))
    return sums.reshape(-1)


def mean_decibels(before: Drift, after: Drift) -> tuple[float, float]:
    """Return the mean signal-to-noise ratio of the outputs of both.

    Outputs that are exact in both, such as inputs, are not counted, if there are others. An output
    without any signal makes the mean minus infinity.
    """
    pairs = [
        (one.signal_to_noise, other.signal_to_noise)
        for one, other in zip(before.outputs, after.outputs, strict=True)
    ]
    exact = (math.inf, math.inf)
    counted = [pair for pair in pairs if pair != exact] or [exact]
    one, other = (
        -math.inf if -math.inf in ratios else sum(ratios) / len(ratios)
        for ratios in zip(*counted, strict=True)
    )
    return one, other
