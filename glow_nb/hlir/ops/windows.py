"""Sliding windows over the spatial axes of an ``N..C`` tensor: sizes, and views of one tap."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glow_nb.base.size import surely
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Node


@dataclass(frozen=True)
class Window:
    """A window that slides over the spatial axes of a tensor, as convolutions and pools have it.

    Attributes:
        kernel: Its size in each spatial dimension.
        stride: Its step.
        pads: Cells of padding: the begins of all dimensions, then the ends.
        dilation: Distance of its taps.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of an operator with this window, by name."""
        return {name: getattr(self, name) for name in Window.__dataclass_fields__}

    @property
    def span(self) -> tuple[int, ...]:
        """Cells from the first tap to the last, both included."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    def places(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Return how many places it has over *sizes*: ``(padded - span) // stride + 1`` in each."""
        axes = zip(self.padded(sizes), self.span, self.stride, strict=True)
        return tuple((size - span) // step + 1 for size, span, step in axes)

    def padded(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Return *sizes* with the padding."""
        ends = self.pads[len(sizes) :]
        return tuple(n + b + e for n, b, e in zip(sizes, self.pads, ends, strict=False))

    def with_short_strides(self, sizes: tuple[int, ...]) -> Window:
        """Return the window with shorter strides where it has one place over *sizes*, the same."""
        rooms = (n - span + 1 for n, span in zip(self.padded(sizes), self.span, strict=True))
        strides = zip(self.stride, rooms, strict=True)
        return replace(
            self, stride=tuple(room if surely(room, "<", step) else step for step, room in strides)
        )

    def checked(self, node: Node, input: TensorType, role: str = "input") -> tuple[int, ...]:
        """Return the spatial size of the result of sliding the window of *node* over *input*.

        ``out = (in + begin + end - dilation * (kernel - 1) - 1) // stride + 1`` in each dimension;
        errors call the *input* by its *role*.

        Raises:
            VerifyError: Ranks do not agree, a size is not positive, or the window does not fit.
        """
        rank, pads = input.rank - 2, self.pads
        node.require(rank in (1, 2, 3), f"'{role}' is {input}; wanted [N, 1 to 3 spatial sizes, C]")
        lengths = {"kernel": self.kernel, "stride": self.stride, "dilation": self.dilation}
        for name, values in lengths.items():
            node.require(
                len(values) == rank and all(value > 0 for value in values),
                f"{name} {values} must be {rank} positive numbers for {role} {input}",
            )
        node.require(
            len(pads) == 2 * rank and all(pad >= 0 for pad in pads),
            f"pads {pads} must be {2 * rank} numbers >= 0 for {role} {input}: the begins, then the "
            "ends",
        )
        padded = self.padded(input.shape[1:-1])
        node.require(
            all(span <= size for span, size in zip(self.span, padded, strict=True)),
            f"a window of span {self.span} does not fit the padded size {padded} of {role} {input}",
        )
        return self.places(input.shape[1:-1])

    def tap_slices(self, out: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], list[slice]]]:
        """Yield each tap with the slices of padded spatial axes that it sees, for *out* results."""
        for tap in itertools.product(*map(range, self.kernel)):
            steps = zip(tap, self.dilation, out, self.stride, strict=True)
            yield tap, [slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in steps]

    def taps(self, padded: Any, out: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Any]]:
        """Yield each tap with the ``[N, *out, C]`` view of the cells of *padded* under it."""
        for tap, spatial in self.tap_slices(out):
            yield tap, padded[(slice(None), *spatial)]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Windowed(Node):
    """Base of operators with a window: it is declared here, and is one value to all who use it.

    Attributes:
        kernel: Window size in each spatial dimension; there may be 1, 2 or 3.
        stride: Step of the window.
        pads: Cells of padding: the begins of all dimensions, then the ends.
        dilation: Distance of the taps.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def window(self) -> Window:
        """The four attributes as one value."""
        return Window(self.kernel, self.stride, self.pads, self.dilation)

    @property
    def is_padded(self) -> bool:
        """Return whether there is padding, for some sizes at least."""
        return any(pad != 0 for pad in self.pads)


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
