"""Operands that are columns of wider matrices, as parts of a concat are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.llir.program import Buffer, View


class ColumnWindows:
    """Windows of random matrices of *rows* rows, by name.

    Attributes:
        views: What instructions take.
    """

    def __init__(self, rows: int, sizes: Mapping[str, tuple[int, int, int]]) -> None:
        """Make windows of *sizes*: their columns, and those before and after them."""
        random = np.random.default_rng(1)
        self.views: dict[str, View] = {}
        self._sizes, self._arrays = sizes, {}
        self._before: dict[str, Array] = {}
        for name, (columns, before, behind) in sizes.items():
            type = TensorType(ElementKind.FLOAT32, (rows, before + columns + behind))
            whole = Buffer(f"{name}_whole", type)
            type = TensorType(ElementKind.FLOAT32, (rows, columns))
            self.views[name] = View(name, type, whole, before, whole.strides)
            self._arrays[name] = random.standard_normal(whole.type.shape, np.float32)
            self._before[name] = self._arrays[name].copy()

    def numbers(self, name: str) -> Array:
        """Return what the window *name* holds now."""
        columns, before, _ = self._sizes[name]
        found: Array = self._arrays[name][:, before : before + columns]
        return found

    def operands(self) -> dict[str, Array]:
        """Return memory from the first element of each window on, as kernels take it."""
        views = self.views.items()
        return {name: self._arrays[name].reshape(-1)[view.offset :] for name, view in views}

    def check_nothing_else_was_written(self, name: str) -> None:
        """Compare what is around the window *name* with what was there at first."""
        columns, begin, _ = self._sizes[name]
        self._before[name][:, begin : begin + columns] = self.numbers(name)
        np.testing.assert_array_equal(self._arrays[name], self._before[name])
