"""One training step as operators: Adagrad, Adam and Momentum.

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
from glow_nb.hlir.ops.formulas.terms import Term
from glow_nb.hlir.ops.formulas.terms import where as choose

_DOMAIN = "ai.onnx.preview.training"

Step = Callable[[Term, Term, "tuple[Term, ...]"], "tuple[Term, ...]"]
"""From rate, number of steps and (tensor, regularized gradient, states) to (tensor, states)."""


@onnx_op("Adagrad", since=1, domain=_DOMAIN)
def adagrad(ctx: Context, node: OnnxNode) -> tuple[Value, ...]:
    """``h += g * g; x -= rate / (1 + steps * decay_factor) * g / (sqrt(h) + epsilon)``."""

    def step(rate: Term, steps: Term, tensors: tuple[Term, ...]) -> tuple[Term, ...]:
        x, g, h = tensors
        h = h + g * g
        rate = rate / (steps * node.number("decay_factor") + 1.0)
        return x - rate * g / (h.apply(ops.Sqrt) + node.number("epsilon")), h

    return _each(ctx, node, 3, step)


@onnx_op("Adam", since=1, domain=_DOMAIN)
def adam(ctx: Context, node: OnnxNode) -> tuple[Value, ...]:
    """``v = mix(alpha, v, g); h = mix(beta, h, g * g); x -= rate' * v / (sqrt(h) + epsilon)``.

    ``mix(a, old, new)`` is ``a * old + (1 - a) * new``; ``rate'`` is corrected for the mixes that
    began at 0: ``rate * sqrt(1 - beta ** steps) / (1 - alpha ** steps)``, unless steps are 0.
    """
    alpha, beta = node.number("alpha"), node.number("beta")

    def missing(share: float, steps: Term) -> Term:
        return -ctx.term(ctx.emit(ops.Pow(steps.number(share).value, steps.value))) + 1.0

    def step(rate: Term, steps: Term, tensors: tuple[Term, ...]) -> tuple[Term, ...]:
        x, g, v, h = tensors
        v = v * alpha + g * (1 - alpha)
        h = h * beta + g * g * (1 - beta)
        corrected = rate * missing(beta, steps).apply(ops.Sqrt) / missing(alpha, steps)
        rate = choose(steps > 0, corrected, rate)
        x = x - rate * (v / (h.apply(ops.Sqrt) + node.number("epsilon")))
        return x * (1 - node.number("norm_coefficient_post")), v, h

    return _each(ctx, node, 4, step)


@onnx_op("Momentum", since=1, domain=_DOMAIN)
def momentum(ctx: Context, node: OnnxNode) -> tuple[Value, ...]:
    """``v = alpha * v + beta * g; x -= rate * v``, in the first step with a beta of 1.

    In mode ``nesterov`` the last is ``x -= rate * (g + alpha * v)``.
    """
    alpha, beta, mode = node.number("alpha"), node.number("beta"), node.text("mode")
    if mode not in ("standard", "nesterov"):
        raise ctx.wrong(f"mode is {mode!r}; standard and nesterov exist")

    def step(rate: Term, steps: Term, tensors: tuple[Term, ...]) -> tuple[Term, ...]:
        x, g, v = tensors
        v = v * alpha + choose(steps > 0, g.number(beta), 1.0) * g
        return x - rate * (v if mode == "standard" else g + v * alpha), v

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
        x, g, *states = ctx.terms(*rest[number::count])
        kind, shape = x.value.type.kind, (1,) * x.value.type.rank
        fitted = [ctx.term(ctx.reshape(ctx.convert(v, kind), shape)) for v in (rate, steps)]
        g = x * node.number("norm_coefficient") + g
        results.append(step(fitted[0], fitted[1], (x, g, *states)))
    return tuple(term.value for terms in zip(*results, strict=True) for term in terms)
