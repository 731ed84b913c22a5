"""Sliding windows over the spatial axes of an ``N..C`` tensor: sizes, and views of one tap."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from glow_nb.hlir.graph import Node
from glow_nb.types import Array, TensorType


def check_window(
    node: Node,
    input: TensorType,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    pads: tuple[int, ...],
    dilation: tuple[int, ...],
    role: str = "input",
) -> tuple[int, ...]:
    """Return the spatial size of the result of sliding a window over *input*.

    ``out = (in + begin + end - dilation * (kernel - 1) - 1) // stride + 1`` in each dimension;
    *pads* holds the begins of all dimensions, then the ends; errors call the *input* by its *role*.

    Raises:
        VerifyError: Ranks do not agree, a size is not positive, or the window does not fit.
    """
    rank = input.rank - 2
    node.require(rank in (1, 2, 3), f"'{role}' is {input}; wanted [N, 1 to 3 spatial sizes, C]")
    lengths = {"kernel": kernel, "stride": stride, "dilation": dilation}
    for name, values in lengths.items():
        node.require(
            len(values) == rank and min(values) > 0,
            f"{name} {values} must be {rank} positive numbers for {role} {input}",
        )
    node.require(
        len(pads) == 2 * rank and min(pads) >= 0,
        f"pads {pads} must be {2 * rank} numbers >= 0 for {role} {input}: the begins, then the "
        "ends",
    )
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    padded = [n + b + e for n, b, e in zip(input.shape[1:-1], pads, pads[rank:], strict=False)]
    node.require(
        all(span <= size for span, size in zip(spans, padded, strict=True)),
        f"a window of span {tuple(spans)} does not fit the padded size {tuple(padded)} of {role} "
        f"{input}",
    )
    return tuple((n - span) // s + 1 for n, span, s in zip(padded, spans, stride, strict=True))


def pad_spatial(x: Array, pads: tuple[int, ...], value: Any) -> Any:
    """Return an ``N..C`` array with *pads* (begins, then ends) cells of *value* around it."""
    rank = x.ndim - 2
    spatial = [(pads[i], pads[rank + i]) for i in range(rank)]
    return np.pad(x, [(0, 0), *spatial, (0, 0)], constant_values=value)


def crop_spatial(x: Any, pads: tuple[int, ...]) -> Any:
    """Return an ``N..C`` array without the *pads* that :func:`pad_spatial` puts around it."""
    rank = x.ndim - 2
    kept = [slice(pads[i], x.shape[i + 1] - pads[rank + i]) for i in range(rank)]
    return x[(slice(None), *kept)]


def tap_slices(
    out: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Iterator[tuple[tuple[int, ...], list[slice]]]:
    """Yield each tap of the window with the slices of the spatial axes that it sees."""
    for tap in itertools.product(*map(range, kernel)):
        yield (
            tap,
            [
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, d, n, s in zip(tap, dilation, out, stride, strict=True)
            ],
        )


def taps(
    padded: Any,
    out: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield each tap of the window with the ``[N, *out, C]`` view of the cells under it."""
    for tap, spatial in tap_slices(out, kernel, stride, dilation):
        yield tap, padded[(slice(None), *spatial)]


def window_attributes(node: Any) -> dict[str, Any]:
    """Return kernel, stride, pads and dilation of a *node*, for another one with this window."""
    return {name: getattr(node, name) for name in ("kernel", "stride", "pads", "dilation")}
