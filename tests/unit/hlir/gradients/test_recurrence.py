"""Gradients of recurrent layers: a loop backwards and products, whatever the length."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Add, Mul, RecurrentLayer, ReduceSum
from glow_nb.hlir.ops.formulas.recurrence.cells import GATES

ROWS, FEATURES, SIZE = 3, 2, 4
CELLS: dict[str, dict[str, Any]] = {
    "lstm": {"cell": "lstm", "direction": "bidirectional"},
    "lstm_coupled": {"cell": "lstm", "direction": "reverse", "flag": True, "clip": 0.9},
    "gru": {"cell": "gru", "direction": "bidirectional"},
    "gru_resets_after": {"cell": "gru", "direction": "forward", "flag": True},
    "rnn": {"cell": "rnn", "direction": "reverse", "activations": ("softplus",)},
}


def loss_of(
    name: str, steps: int, kind: str = "float64", *, ends: bool = True
) -> tuple[Function, dict[str, Array]]:
    """Return the sum of all results, each times numbers, and what to feed it."""
    options, rng = CELLS[name], np.random.default_rng(3)
    directions, gates = 1 + (options["direction"] == "bidirectional"), GATES[options["cell"]]
    builder, feeds = glow_nb.Builder(), dict[str, Array]()

    def fed(name: str, *shape: int) -> Value:
        feeds[name] = rng.uniform(-1, 1, shape).astype(kind)
        return builder.input(name, f"{kind}<{' x '.join(map(str, shape))}>")

    is_lstm = options["cell"] == "lstm"
    feeds["lengths"] = np.array([steps, 1, max(1, steps - 1)], np.int32)
    lengths = builder.input("lengths", f"int32<{ROWS}>")
    layer = RecurrentLayer(
        fed("x", steps, ROWS, FEATURES),
        fed("w", directions, gates * SIZE, FEATURES),
        fed("r", directions, gates * SIZE, SIZE),
        fed("b", directions, 2 * gates * SIZE),
        lengths if ends else None,
        fed("h", directions, ROWS, SIZE),
        fed("c", directions, ROWS, SIZE) if is_lstm else None,
        fed("p", directions, 3 * SIZE) if is_lstm else None,
        **options,
    )
    total: Value | None = None
    for index, result in enumerate(builder.emit(layer).results):
        weighed = builder.emit(Mul(result, fed(f"up{index}", *result.type.shape)))
        part = builder.emit(ReduceSum(weighed, tuple(range(result.type.rank)), False))
        total = part if total is None else builder.emit(Add(total, part))
    assert total is not None
    builder.save(total, "loss")
    return builder.function(), feeds


def floats_of(feeds: dict[str, Array]) -> list[str]:
    return [name for name in feeds if name != "lengths"]


@pytest.mark.parametrize("name", CELLS)
def test_gradients_are_limits_of_differences(name: str) -> None:
    function, feeds = loss_of(name, steps=4)
    found = glow_nb.evaluate(glow_nb.differentiate(function, floats_of(feeds), "loss"), feeds)
    rng, step = np.random.default_rng(0), 1e-6
    for wrt in floats_of(feeds):
        tangent = rng.uniform(-1, 1, feeds[wrt].shape)
        ahead, behind = (
            glow_nb.evaluate(function, feeds | {wrt: feeds[wrt] + s * tangent})["loss"]
            for s in (step, -step)
        )
        wanted = (ahead - behind) / (2 * step)
        assert np.sum(found[f"d_{wrt}"] * tangent) == pytest.approx(wanted, rel=1e-5, abs=1e-7), wrt


@pytest.mark.parametrize("name", CELLS)
def test_length_adds_no_nodes(name: str) -> None:
    counts = []
    for steps in (5, 500):
        function, feeds = loss_of(name, steps, ends=False)
        inner = glow_nb.differentiate(function, floats_of(feeds), "loss")
        counts.append(Counter(node.opcode for node in inner))
    assert counts[0] == counts[1]


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("name", CELLS)
def test_machine_code_gives_the_same(name: str) -> None:
    function, feeds = loss_of(name, 3, "float32")
    gradients = glow_nb.differentiate(function, floats_of(feeds), "loss")
    wanted = glow_nb.evaluate(gradients, feeds)
    for threads in (1, 2):
        found = glow_nb.compile(gradients, threads=threads).run(feeds)
        for output, want in wanted.items():
            np.testing.assert_allclose(found[output], want, rtol=1e-4, atol=1e-5, err_msg=output)
