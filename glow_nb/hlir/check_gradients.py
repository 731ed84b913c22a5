"""Gradients against finite differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from glow_nb.base.arguments import finite_number
from glow_nb.base.errors import GradientError
from glow_nb.base.feeds import Feeds, name_feeds
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.differentiate import as_names, differentiate
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.given_function import given_function
from glow_nb.hlir.graph import Function

STEP = 1e-6
"""Half the length of a difference, for numbers up to 1; of others, this part of them."""


def check_gradients(
    function: Function,
    feeds: Feeds,
    wrt: Iterable[str] | None = None,
    output: str | None = None,
    *,
    tolerance: float = 1e-5,
) -> None:
    """Compare gradients of *function* with differences of its output; raise if they differ.

    The gradient of each element is compared with ``(f(x + h) - f(x - h)) / 2h``. So there are two
    evaluations for each element: small inputs are enough. They are of float64, as differences of
    float32 have few digits. Where a function bends, as relu at 0, the two may differ.

    Args:
        function: A graph, as :func:`~glow_nb.differentiate` takes it.
        feeds: Inputs as :func:`~glow_nb.evaluate` takes them.
        wrt: Names of inputs of float64; by default all of them.
        output: The output of one element that is differentiated; the only one by default.
        tolerance: The largest difference, as a part of the largest element of the gradient, of the
            output or of 1, whichever is largest.

    Raises:
        GradientError: A gradient differs, or it or the difference is not finite: names the input,
            the element and both numbers. An input is not of float64. Or as of
            :func:`~glow_nb.differentiate`.
        FeedError: An input is missing or unknown, or it is of another kind or shape.
        OptionError: *tolerance* is no finite number of at least 0.
    """
    types = {value.name: value.type for value in given_function(function, GradientError).inputs}
    floats = [name for name, type in types.items() if type.kind is ElementKind.FLOAT64]
    names = floats if wrt is None else as_names(wrt)
    part = finite_number("tolerance", tolerance, 0.0)
    for name in names:
        if name not in floats:
            raise GradientError(
                f"{name!r} cannot be compared with differences: it is no input of float64; build "
                "the function with inputs of float64"
            )
    named = {name: np.asarray(each) for name, each in name_feeds(types.keys(), feeds).items()}
    results = evaluate(differentiate(function, names, output), named)
    gradients = list(results.values())[-len(names) :]
    loss = output or function.outputs[0].name
    for name, gradient in zip(names, gradients, strict=True):
        measured = _differences(function, named, name, loss)
        scale = max(1.0, abs(results[loss].item()), np.abs(measured).max(initial=0))
        _compare(name, gradient, measured, part * scale)


def _differences(function: Function, feeds: Mapping[str, Array], name: str, output: str) -> Array:
    """Return the finite difference of *output* for each element of the input called *name*."""
    x = feeds[name]
    found = np.empty(x.shape)
    for place in np.ndindex(x.shape):
        step = STEP * max(1.0, abs(float(x[place])))
        sides = []
        for change in (step, -step):
            moved = x.copy()
            moved[place] += change
            sides.append(evaluate(function, {**feeds, name: moved})[output].item())
        found[place] = (sides[0] - sides[1]) / (2 * step)
    return found


def _compare(name: str, gradient: Array, measured: Array, most: float) -> None:
    """Raise GradientError if an element of *gradient* is too far from what was *measured*.

    What is not finite is too far from anything, also if *most* is infinite, as that of a result is.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        errors = np.nan_to_num(np.abs(gradient - measured), nan=np.inf)
    largest = errors.max(initial=0)
    if largest > most or largest == np.inf:
        place = np.unravel_index(np.argmax(errors), errors.shape)
        raise GradientError(
            f"the gradient for {name!r} at {list(map(int, place))} is {gradient[place]:.6g}, and "
            f"by finite differences {measured[place]:.6g}"
        )
