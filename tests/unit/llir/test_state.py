"""Placeholders that are inputs and outputs: read as fed, written at the end."""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb
from glow_nb.base.types import Array
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.hlir.save import Save
from glow_nb.llir.parse import parse_program
from glow_nb.llir.print import print_program

SIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def accumulate() -> Function:
    """Return ``y = -state``, ``state = state + x``, the writing first."""
    b = Builder()
    state, x = b.input("state", "float32<2 x 3>"), b.input("x", "float32<2 x 3>")
    b.nodes.append(Save(b.emit(ops.Add(state, x)), state, name="keep"))
    b.save(b.emit(ops.Neg(state)), "y")
    b.outputs.append(state)
    return b.function()


def swap() -> Function:
    """Return ``x, y = y, x``."""
    b = Builder()
    x, y = b.input("x", "float32<2 x 3>"), b.input("y", "float32<2 x 3>")
    b.nodes += [Save(y, x, name="to_x"), Save(x, y, name="to_y")]
    b.outputs += [x, y]
    return b.function()


def decay() -> Function:
    """Return ``state = w state`` with a product, whose kernel reads all of it for each result."""
    b = Builder()
    w = b.constant("w", np.arange(4, dtype=np.float32).reshape(2, 2))
    state = b.input("state", "float32<2 x 3>")
    b.nodes.append(Save(b.emit(ops.MatMul(w, state)), state, name="keep"))
    b.outputs.append(state)
    return b.function()


@pytest.mark.jit
@pytest.mark.usefixtures("sharing_is_free")
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("make", [accumulate, swap, decay])
def test_the_old_numbers_are_read_and_the_new_returned(make: object, backend: str) -> None:
    assert callable(make)
    function = make()
    feeds: dict[str, Array] = {p.name: SIX + index for index, p in enumerate(function.inputs)}
    fed = {name: array.copy() for name, array in feeds.items()}
    net = glow_nb.compile(function, backend=backend, threads=2)
    for name, expected in glow_nb.evaluate(function, feeds).items():
        np.testing.assert_allclose(net.run(feeds)[name], expected)
    for name, array in fed.items():
        np.testing.assert_array_equal(feeds[name], array)  # the caller's own stay as they were


@pytest.mark.parametrize("make", [accumulate, swap, decay])
def test_text_reads_back(make: object) -> None:
    assert callable(make)
    program = glow_nb.compile(make(), backend="interpreter").program
    text = print_program(program)
    again = parse_program(text, constants={w.name: w.array for w in program.weights})
    assert print_program(again) == text
    assert [b.name for b in again.outputs] == [b.name for b in program.outputs]
    assert set(again.outputs) & set(again.inputs)
