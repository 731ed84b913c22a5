"""Whole networks compiled once for all sizes, beside ONNX Runtime's results and static programs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import glow_nb
from experiments.networks.open_sizes import VOCABULARY, decoder_step, encoder
from glow_nb.base.types import Array


def _reference(model: onnx.ModelProto, feeds: dict[str, Array]) -> dict[str, Array]:
    """Return what NumPy makes of the graph of these sizes."""
    shapes = {name: array.shape for name, array in feeds.items()}
    function = glow_nb.load(model, shapes=shapes)
    assert isinstance(function, glow_nb.Function)
    return glow_nb.evaluate(function, feeds)


def _tokens(rng: np.random.Generator, batch: int, length: int) -> dict[str, Array]:
    mask = (rng.random((batch, length)) < 0.8).astype(np.int64)
    mask[:, 0] = 1
    return {"input_ids": rng.integers(0, VOCABULARY, (batch, length)), "attention_mask": mask}


def _check(net: glow_nb.Network, model: onnx.ModelProto, feeds: dict[str, Array]) -> None:
    found, wanted = net.run(feeds), _reference(model, feeds)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=2e-4, err_msg=name)


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_encoder_runs_for_all_lengths_by_one_program(threads: int) -> None:
    model = encoder("tiny", 1, 2, 8)
    sizes = {"batch": (1, 4), "length": (1, 64)}
    net = glow_nb.compile(model, sizes=sizes, hints={"length": 24}, threads=threads)
    assert isinstance(net, glow_nb.DynamicNetwork)
    assert not net.specialized
    assert not net.variants[0].guards
    rng = np.random.default_rng(0)
    for batch, length in ((1, 1), (1, 24), (4, 64), (3, 7), (2, 33)):
        _check(net, model, _tokens(rng, batch, length))
    assert len(net.variants) == 1


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_decoder_runs_for_all_caches_by_one_program(threads: int) -> None:
    model = decoder_step("tiny", 1, 2, 8)
    sizes = {"batch": (1, 2), "past": (1, 100)}
    net = glow_nb.compile(model, sizes=sizes, hints={"past": 20}, threads=threads)
    assert isinstance(net, glow_nb.DynamicNetwork)
    assert not net.specialized
    assert not net.variants[0].guards
    rng = np.random.default_rng(0)
    for batch, past in ((1, 1), (2, 99), (1, 20), (2, 33)):
        feeds: dict[str, Array] = {"input_ids": rng.integers(0, VOCABULARY, (batch, 1))}
        cache = (batch, 2, past, 8)
        feeds |= {f"past_{n}": rng.standard_normal(cache, np.float32) for n in range(2)}
        _check(net, model, feeds)
    assert len(net.variants) == 1
