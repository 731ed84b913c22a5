"""Whole networks compiled once for all sizes, beside ONNX Runtime's results and static programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import glow_nb
from experiments.networks import open_media
from experiments.networks.open_sizes import VOCABULARY, decoder_step, encoder, grouped_decoder
from glow_nb.base.types import Array
from glow_nb.llir.instructions.shape import CopyInst

ENGINES = [
    ("interpreter", 1),
    *(pytest.param("cpu", threads, marks=pytest.mark.slow) for threads in (1, 2)),
]
"""The encoder is compiled to machine code in the default run; the others are in the slow one."""


def _reference(model: onnx.ModelProto, feeds: dict[str, Array]) -> dict[str, Array]:
    """Return what NumPy makes of the graph of these sizes."""
    shapes = {name: array.shape for name, array in feeds.items()}
    function = glow_nb.load(model, shapes=shapes)
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
    model = encoder("tiny", 1, 2, 16)  # products of fewer columns have longer kernels
    sizes = {"batch": (1, 4), "length": (1, 64)}
    net = glow_nb.compile(model, sizes=sizes, hints={"length": 24}, threads=threads)
    assert isinstance(net, glow_nb.DynamicNetwork)
    assert not net.specialized
    assert not net.variants[0].guards
    rng = np.random.default_rng(0)
    for batch, length in ((1, 1), (1, 24), (4, 64), (3, 7), (2, 33)):
        _check(net, model, _tokens(rng, batch, length))
    assert len(net.variants) == 1


@pytest.mark.parametrize(("backend", "threads"), ENGINES)
def test_a_decoder_runs_for_all_caches_by_one_program(backend: str, threads: int) -> None:
    model = decoder_step("tiny", 1, 2, 8)
    sizes = {"batch": (1, 2), "past": (1, 100)}
    options: dict[str, Any] = {"backend": backend, "threads": threads}
    net = glow_nb.compile(model, sizes=sizes, hints={"past": 20}, **options)
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


MEDIA: dict[str, tuple[dict[str, tuple[int, int]], list[dict[str, int]]]] = {
    "speech_encoder": (
        {"time": (400, 192000)},
        [{"batch": 1, "time": 400}, {"batch": 2, "time": 7003}],
    ),
    "listener": (
        {"columns": (2, 2048), "length": (1, 64)},
        [{"batch": 1, "columns": 2, "length": 1}, {"batch": 3, "columns": 37, "length": 5}],
    ),
    "segmenter": (
        {"height": (16, 640), "width": (16, 640)},
        [{"batch": 1, "height": 16, "width": 17}, {"batch": 2, "height": 50, "width": 33}],
    ),
    "viewer": (
        {"height": (16, 640), "width": (16, 640)},
        [{"batch": 1, "height": 16, "width": 16}, {"batch": 2, "height": 100, "width": 49}],
    ),
    "matcher": (
        {"length": (1, 77)},
        [{"images": 1, "texts": 1, "length": 1}, {"images": 2, "texts": 3, "length": 7}],
    ),
    "grouped_decoder": (
        {"tokens": (1, 64), "past": (0, 900)},
        [{"batch": 1, "tokens": 1, "past": 0}, {"batch": 2, "tokens": 5, "past": 13}],
    ),
}


def _feeds(model: onnx.ModelProto, sizes: dict[str, int]) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    feeds: dict[str, Array] = {}
    for info in model.graph.input:
        tensor = info.type.tensor_type
        shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in tensor.shape.dim]
        if tensor.elem_type == onnx.TensorProto.INT64:
            feeds[info.name] = rng.integers(0, VOCABULARY, shape)
        else:
            feeds[info.name] = rng.standard_normal(shape, np.float32)
    return feeds


@pytest.mark.parametrize(("backend", "threads"), ENGINES)
@pytest.mark.parametrize("name", MEDIA)
def test_sounds_images_and_texts_of_all_sizes_run_by_one_program(
    name: str, backend: str, threads: int
) -> None:
    model, (ranges, sets) = getattr(open_media, name)(), MEDIA[name]
    net = glow_nb.compile(model, sizes=ranges, backend=backend, threads=threads)
    assert isinstance(net, glow_nb.DynamicNetwork)
    assert not net.specialized
    assert not net.variants[0].guards
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for sizes in sets:
        feeds = _feeds(model, sizes)
        found, names = net.run(feeds), [info.name for info in session.get_outputs()]
        for output, wanted in zip(names, session.run(names, feeds), strict=True):
            limit = 1e-5 * max(1.0, float(np.abs(wanted).max()))
            np.testing.assert_allclose(found[output], wanted, rtol=0, atol=limit, err_msg=output)
    assert len(net.variants) == 1


@pytest.mark.parametrize(("backend", "threads"), ENGINES)
@pytest.mark.parametrize("tokens_first", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_decoder_keeps_its_caches(backend: str, threads: int, *, tokens_first: bool) -> None:
    model = grouped_decoder("tiny", 2, 4, 2, 8, tokens_first=tokens_first)
    net = glow_nb.compile(
        model,
        sizes={"batch": (1, 2), "length": (1, 32), "past": (0, 64)},
        hints={"length": 1, "past": 20},
        caches={"past_key_values.*": "present.*"},
        backend=backend,
        threads=threads,
    )
    assert isinstance(net, glow_nb.GrowingNetwork)
    assert not net.specialized
    assert not net.variants[0].guards
    copies = [i.src.root.name for i in net.program.work if isinstance(i, CopyInst)]
    assert backend == "interpreter" or not set(copies) & set(CACHES)  # they are read as they lie
    rng = np.random.default_rng(0)
    for batch in (1, 2):
        net.reset()
        shape = (batch, 0, 2, 8) if tokens_first else (batch, 2, 0, 8)
        held = {name: np.zeros(shape, np.float32) for name in CACHES}
        for length in (5, 1, 32):
            ids = rng.integers(0, VOCABULARY, (batch, length))
            wanted = _reference(model, {"input_ids": ids, **held})
            found = net.run(input_ids=ids)["logits"]
            np.testing.assert_allclose(found, wanted["logits"], rtol=0, atol=2e-4)
            held = {name: wanted[output] for name, output in CACHES.items()}
        for name, array in net.caches.items():
            np.testing.assert_allclose(array, held[name], rtol=0, atol=2e-4)


CACHES = {
    f"past_key_values.{layer}.{kind}": f"present.{layer}.{kind}"
    for layer in range(2)
    for kind in ("key", "value")
}
