"""Random numbers, and dropout.

ONNX leaves open which numbers come out. Here they depend on the seed of the node, 0 if it has none,
and on its place among the nodes of the model that draw: no two nodes draw the same numbers, and
every run of a model gives the same results.
"""

from __future__ import annotations

import math

import numpy as np

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value

FLOAT32, FLOAT64 = ElementKind.FLOAT32, ElementKind.FLOAT64

MODE = "training_mode"


@onnx_op("RandomUniform", "RandomUniformLike", stepwise=True)
def random_uniform(ctx: Context, node: OnnxNode) -> Value:
    """Numbers from *low* up to, but not including, *high*."""
    low, high = node.number("low"), node.number("high")
    type, (generator, stream) = _type_of(ctx, node), _source(ctx, node.number("seed", 0.0))
    with np.errstate(over="ignore"):
        ends = np.array([high, low]).astype(type.kind.dtype)
    if not (0 <= high - low < math.inf and np.isfinite(ends).all()):
        raise ctx.wrong(
            f"there is no finite interval of {type.kind.value} from low = {low} to high = {high}"
        )
    kind = _made_kind(type)
    numbers = ctx.emit(ops.RandomUniform(generator, type.shape, kind, low, high, stream))
    if type.kind is kind:
        return numbers
    below = np.nextafter(*ends)
    return ops.Minimum(ctx.convert(numbers, type.kind), ctx.number(type, below))


@onnx_op("RandomNormal", "RandomNormalLike", stepwise=True)
def random_normal(ctx: Context, node: OnnxNode) -> Value:
    """Numbers of the normal distribution with this *mean* and standard deviation *scale*."""
    mean, scale = node.number("mean"), node.number("scale")
    if not (math.isfinite(mean) and 0 <= scale < math.inf):
        raise ctx.wrong(f"mean = {mean} and scale = {scale} must be finite, scale not negative")
    type, (generator, stream) = _type_of(ctx, node), _source(ctx, node.number("seed", 0.0))
    numbers = ops.RandomNormal(generator, type.shape, _made_kind(type), mean, scale, stream)
    return ctx.convert(ctx.emit(numbers), type.kind)


@onnx_op("Bernoulli", since=15, stepwise=True)
def bernoulli(ctx: Context, node: OnnxNode) -> Value:
    """1 with the probability that each element says, else 0."""
    x = node.operand(0)
    kind = ctx.kind(node.integer("dtype")) if node.has("dtype") else x.type.kind
    choices = ops.Bernoulli(x, *_source(ctx, node.number("seed", 0.0)))
    return ctx.convert(ctx.emit(choices), kind)


@onnx_op("Multinomial", stepwise=True)
def multinomial(ctx: Context, node: OnnxNode) -> Value:
    """Numbers of classes, drawn by the logarithms of their probabilities up to a common factor.

    The number is how many sums of the first probabilities a uniform number reaches.
    """
    logs = node.operand(0)
    count = node.integer("sample_size")
    if logs.type.rank != 2 or not logs.type.shape[1] or count < 0:
        raise ctx.wrong(
            f"input {logs} must hold a row for each batch, of one class at least, and sample_size "
            f"= {count} must not be negative"
        )
    kind = _made_kind(logs.type)
    rows, classes = logs.type.shape
    logs = ctx.convert(logs, kind)
    largest = ctx.emit(ops.ReduceMax(logs, axes=(1,), keep_dims=True))
    sums = ctx.emit(ops.CumSum(ctx.emit(ops.Exp(ctx.emit(ops.Sub(logs, largest)))), axis=1))
    generator, stream = _source(ctx, node.number("seed", 0.0))
    numbers = ctx.emit(ops.RandomUniform(generator, (rows, count), kind, stream=stream))
    reached = ctx.emit(ops.Mul(numbers, ctx.part(sums, 1, classes - 1, 1)))
    is_below = ops.LessEqual(
        ctx.reshape(sums, (rows, 1, classes)), ctx.reshape(reached, (rows, count, 1))
    )
    ones = ctx.convert(ctx.emit(is_below), ctx.kind(node.integer("dtype")))
    return ops.ReduceSum(ones, axes=(2,), keep_dims=False)


@onnx_op("Dropout")
def dropout_by_attribute(ctx: Context, node: OnnxNode) -> Value | tuple[Value, ...]:
    """Up to opset 11 it is the input itself, unless it is imported for a trainer."""
    mask = ElementKind.BOOL if node.opset >= 10 else node.operand(0).type.kind
    share = node.number("ratio", 0.5) if ctx.for_training else 0.0
    return _with_dropout(ctx, node, share, seed=0, mask=mask)


@onnx_op("Dropout", since=12)
def dropout(ctx: Context, node: OnnxNode) -> Value | tuple[Value, ...]:
    """In training mode elements are dropped at random; else it is the input itself.

    A trainer decides itself on its mode, and imports all dropouts as they are in training.
    """
    mode, ratio = node.optional(2), node.optional(1)
    training = mode is not None and not ctx.for_training and _known_number(ctx, mode, MODE)
    share = 0.0
    if training or ctx.for_training:
        share = 0.5 if ratio is None else _known_number(ctx, ratio, "ratio")
    seed = node.integer("seed", 0)
    return _with_dropout(ctx, node, share, seed=seed, mask=ElementKind.BOOL)


def _with_dropout(
    ctx: Context, node: OnnxNode, share: float, *, seed: int, mask: ElementKind
) -> Value | tuple[Value, ...]:
    """Drop this *share* of the input; return the mask of what is kept, too, if it is wanted."""
    x = node.operand(0)
    if not 0 <= share < 1:
        raise ctx.wrong(f"ratio must be at least 0 and less than 1, it is {share}")
    if share == 0:
        if not node.wants(1):
            return x
        ones = np.ones((), mask.dtype)
        if x.type.is_open:
            return x, ctx.broadcast(ctx.constant(ones), x.type.shape)
        return x, ctx.constant(np.broadcast_to(ones, x.type.shape))
    generator, stream = _source(ctx, seed)
    dropped = ctx.emit(ops.Dropout(x, generator, share, stream))
    if not node.wants(1):
        return dropped
    kept = ctx.broadcast(ctx.constant(np.array(1 - share, np.float32)), x.type.shape)
    return dropped, ctx.convert(ctx.emit(ops.Bernoulli(kept, generator, stream)), mask)


def _known_number(ctx: Context, value: Value, what: str) -> float:
    numbers = ctx.known(value, what)
    if numbers.size != 1:
        raise ctx.wrong(f"{what} must be one number, it is {value.type}")
    return float(numbers.item())


def _source(ctx: Context, seed: float) -> tuple[Value, int]:
    """Return the generator of a node with *seed*, and a stream that is its own.

    A seed that is no integer, or too large for one, counts by its bits.
    """
    is_integer = abs(seed) < 2.0**63 and seed == int(seed)
    key = int(seed) if is_integer else np.float64(seed).view(np.int64)
    return ctx.constant(np.array([key, 0], np.int64)), next(ctx.streams)


def _type_of(ctx: Context, node: OnnxNode) -> TensorType:
    """Return the type of what a node makes, by its attributes or like its operand."""
    like = node.operand(0).type if node.op.endswith("Like") else None
    shape = like.shape if like else node.integers("shape")
    if any(size < 0 for size in shape):
        raise ctx.wrong(f"shape is {list(shape)}; no size may be negative")
    kind = like.kind if like and not node.has("dtype") else ctx.kind(node.integer("dtype"))
    if not kind.is_float:
        raise ctx.wrong(f"numbers of kind {kind.value} cannot be drawn; give a float as dtype")
    return TensorType(kind, shape)


def _made_kind(type: TensorType) -> ElementKind:
    """Return the kind to draw numbers in: 16-bit floats are converted from float32."""
    return FLOAT64 if type.kind is FLOAT64 else FLOAT32
