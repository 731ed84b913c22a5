"""One step of training as operators: Adagrad, Adam and Momentum.

They take the learning rate, the number of steps made so far, and then for any number of tensors to
train all tensors, all gradients, and all states of each kind; they return the new tensors and
states in this order.
"""

from __future__ import annotations

from collections.abc import Callable

from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value

_DOMAIN = "ai.onnx.preview.training"

Step = Callable[[Value, Value, "tuple[Value, ...]"], "tuple[Value, ...]"]
"""From rate, number of steps and (tensor, regularized gradient, states) to (tensor, states)."""


@onnx_op("Adagrad", since=1, domain=_DOMAIN)
def adagrad(ctx: Context, node: OnnxNode) -> tuple[Value, ...]:
    """``h += g * g; x -= rate / (1 + steps * decay_factor) * g / (sqrt(h) + epsilon)``."""

    def step(rate: Value, steps: Value, tensors: tuple[Value, ...]) -> tuple[Value, ...]:
        x, g, h = tensors
        h = ctx.emit(ops.Add(h, ctx.emit(ops.Mul(g, g))))
        slowing = _shifted(ctx, _scaled(ctx, steps, node.number("decay_factor")), 1.0)
        rate = ctx.emit(ops.Div(rate, slowing))
        change = ctx.emit(ops.Div(ctx.emit(ops.Mul(rate, g)), _root(ctx, node, h)))
        return ctx.emit(ops.Sub(x, change)), h

    return _each(ctx, node, 3, step)


@onnx_op("Adam", since=1, domain=_DOMAIN)
def adam(ctx: Context, node: OnnxNode) -> tuple[Value, ...]:
    """``v = mix(alpha, v, g); h = mix(beta, h, g * g); x -= rate' * v / (sqrt(h) + epsilon)``.

    ``mix(a, old, new)`` is ``a * old + (1 - a) * new``; ``rate'`` is corrected for the mixes that
    began at 0: ``rate * sqrt(1 - beta ** steps) / (1 - alpha ** steps)``, unless steps are 0.
    """
    alpha, beta = node.number("alpha"), node.number("beta")

    def step(rate: Value, steps: Value, tensors: tuple[Value, ...]) -> tuple[Value, ...]:
        x, g, v, h = tensors
        v = _mixed(ctx, alpha, v, g)
        h = _mixed(ctx, beta, h, ctx.emit(ops.Mul(g, g)))
        root = ctx.emit(ops.Sqrt(_missing(ctx, beta, steps)))
        corrected = ctx.emit(ops.Mul(rate, root))
        corrected = ctx.emit(ops.Div(corrected, _missing(ctx, alpha, steps)))
        has_begun = ctx.emit(ops.Greater(steps, ctx.number(steps.type, 0)))
        rate = ctx.emit(ops.Select(has_begun, corrected, rate))
        change = ctx.emit(ops.Mul(rate, ctx.emit(ops.Div(v, _root(ctx, node, h)))))
        x = _scaled(ctx, ctx.emit(ops.Sub(x, change)), 1 - node.number("norm_coefficient_post"))
        return x, v, h

    return _each(ctx, node, 4, step)


@onnx_op("Momentum", since=1, domain=_DOMAIN)
def momentum(ctx: Context, node: OnnxNode) -> tuple[Value, ...]:
    """``v = alpha * v + beta * g; x -= rate * v``, in the first step with a beta of 1.

    In mode ``nesterov`` the last is ``x -= rate * (g + alpha * v)``.
    """
    alpha, beta, mode = node.number("alpha"), node.number("beta"), node.text("mode")
    if mode not in ("standard", "nesterov"):
        raise ctx.wrong(f"mode is {mode!r}; standard and nesterov exist")

    def step(rate: Value, steps: Value, tensors: tuple[Value, ...]) -> tuple[Value, ...]:
        x, g, v = tensors
        has_begun = ctx.emit(ops.Greater(steps, ctx.number(steps.type, 0)))
        share = ctx.emit(ops.Select(has_begun, ctx.number(g.type, beta), ctx.number(g.type, 1)))
        v = ctx.emit(ops.Add(_scaled(ctx, v, alpha), ctx.emit(ops.Mul(share, g))))
        change = v if mode == "standard" else ctx.emit(ops.Add(g, _scaled(ctx, v, alpha)))
        return ctx.emit(ops.Sub(x, ctx.emit(ops.Mul(rate, change)))), v

    return _each(ctx, node, 3, step)


def _each(ctx: Context, node: OnnxNode, parts: int, step: Step) -> tuple[Value, ...]:
    """Make *step* with each tensor, its regularized gradient, and its states, *parts* in all."""
    rate, steps, *rest = node.operands
    if not rest or len(rest) % parts or rate.type.size != 1 or steps.type.size != 1:
        raise ctx.wrong(
            f"it must have a rate, a number of steps and {parts} operands for each tensor, but it "
            f"has {len(rest) + 2}: {rate}, {steps}, ..."
        )
    count = len(rest) // parts
    results = []
    for number in range(count):
        x, g, *states = rest[number::count]
        shape = (1,) * x.type.rank
        fitted = [ctx.reshape(ctx.convert(value, x.type.kind), shape) for value in (rate, steps)]
        g = ctx.emit(ops.Add(_scaled(ctx, x, node.number("norm_coefficient")), g))
        results.append(step(fitted[0], fitted[1], (x, g, *states)))
    return tuple(value for values in zip(*results, strict=True) for value in values)


def _scaled(ctx: Context, x: Value, factor: float) -> Value:
    return ctx.emit(ops.Mul(x, ctx.number(x.type, factor)))


def _shifted(ctx: Context, x: Value, amount: float) -> Value:
    return ctx.emit(ops.Add(x, ctx.number(x.type, amount)))


def _mixed(ctx: Context, share: float, old: Value, new: Value) -> Value:
    return ctx.emit(ops.Add(_scaled(ctx, old, share), _scaled(ctx, new, 1 - share)))


def _missing(ctx: Context, share: float, steps: Value) -> Value:
    """Return ``1 - share ** steps``."""
    power = ctx.emit(ops.Pow(ctx.number(steps.type, share), steps))
    return _shifted(ctx, ctx.emit(ops.Neg(power)), 1.0)


def _root(ctx: Context, node: OnnxNode, x: Value) -> Value:
    return _shifted(ctx, ctx.emit(ops.Sqrt(x)), node.number("epsilon"))
