"""Equal constants are found without a look at all pairs."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant, Value
from glow_nb.hlir.ops import Add
from glow_nb.hlir.optimize.eliminate_common_nodes import eliminate_common_nodes


def ones_at(places: list[int]) -> Builder:
    """Return a sum of constants that are 1 at one of their places, which a sample may not see."""
    builder = Builder("ones")
    value: Value = builder.input("x", "float32<1000>")
    for number, place in enumerate(places):
        numbers = np.zeros(1000, np.float32)
        numbers[place] = 1
        value = builder.emit(Add(value, builder.constant(f"c{number}", numbers)))
    builder.save(value, "y")
    return builder


def test_constants_that_seem_alike_are_told_apart_and_the_same_are_one() -> None:
    function = eliminate_common_nodes(ones_at([1, 2, 1, 3, 2, 0, 999]).function())
    kept = [node.rhs for node in function.nodes if isinstance(node, Add)]
    assert [value.name for value in kept] == ["c0", "c1", "c0", "c3", "c1", "c5", "c6"]
    assert all(isinstance(value, Constant) for value in kept)


def test_zeros_of_either_sign_are_different() -> None:
    builder = Builder("zeros")
    value: Value = builder.input("x", "float32<1>")
    for name, zero in (("plus", 0.0), ("minus", -0.0)):
        value = builder.emit(Add(value, builder.constant(name, np.full(1, zero, np.float32))))
    builder.save(value, "y")
    assert len(eliminate_common_nodes(builder.function()).constants) == 2


def test_constants_of_64_axes_are_compared() -> None:
    numbers = np.ones((2, *(1,) * 63), np.float32)
    builder = Builder("deep")
    value: Value = builder.input("x", f"float32<2{' x 1' * 63}>")
    for name in ("one", "other"):
        value = builder.emit(Add(value, builder.constant(name, numbers)))
    builder.save(value, "y")
    assert len(eliminate_common_nodes(builder.function()).constants) == 1


def test_each_constant_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    sha256 = hashlib.sha256

    def counted(numbers: Any) -> Any:
        read.append(numbers)
        return sha256(numbers)

    monkeypatch.setattr(hashlib, "sha256", counted)
    eliminate_common_nodes(ones_at(list(range(1, 41))).function())
    assert len(read) == 40
