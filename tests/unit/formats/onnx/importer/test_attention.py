"""Attention means what ONNX's reference takes it for, with each operand and attribute."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator

from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from tests.unit.formats.onnx.importer.complaints import complaint
from tests.unit.formats.onnx.importer.models import model, value
from tests.unit.formats.onnx.importer.reference import numbers

OPSET = 25
"""The last one that changed the operator: windows came."""

INPUTS = ("q", "k", "v", "mask", "past_k", "past_v", "real")

needs_opset = pytest.mark.skipif(
    onnx.defs.onnx_opset_version() < 28, reason="the reference of earlier releases was corrected"
)


def node_of(feeds: dict[str, Any], outputs: tuple[str, ...] = ("y",), **attributes: Any) -> Any:
    """Return a model of one node whose operands are *feeds*, some of INPUTS."""
    names = [name if name in feeds else "" for name in INPUTS]
    while not names[-1]:
        names.pop()
    infos = [
        value(name, array.shape, helper.np_dtype_to_tensor_dtype(array.dtype))
        for name, array in feeds.items()
    ]
    node = helper.make_node("Attention", names, outputs, **attributes)
    return model([node], infos, [name for name in outputs if name], opset=OPSET)


def check(feeds: dict[str, Any], outputs: tuple[str, ...] = ("y",), **attributes: Any) -> Any:
    """Compare the imported node with ONNX's reference; return the results."""
    proto = node_of(feeds, outputs, **attributes)
    results = evaluate(import_onnx(proto), feeds)
    for info in proto.graph.output:
        info.type.tensor_type.elem_type = onnx.TensorProto.UNDEFINED
    with np.errstate(all="ignore"):
        expected = ReferenceEvaluator(proto).run(None, feeds)
    assert list(results) == list(outputs)
    for got, wanted in zip(results.values(), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    return results


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    attributes: dict[str, Any] = {"is_causal": draw(st.integers(0, 1))}
    for side in ("left", "right"):
        if draw(st.booleans()):
            attributes[f"{side}_window_size"] = draw(st.integers(-1, 4))
    return attributes


@st.composite
def masks(draw: st.DrawFn, scores: tuple[int, ...]) -> Any:
    """Draw a mask that broadcasts to the shape of *scores*, of all keys or fewer."""
    shape = [draw(st.sampled_from([1, n])) for n in scores[:3]]
    shape.append(draw(st.sampled_from([scores[3], max(scores[3] - 1, 1)])))
    mask = numbers(*shape[draw(st.integers(0, 2)) :])
    return mask > -0.5 if draw(st.booleans()) else np.where(mask > -0.5, mask, -np.inf)


@needs_opset
@given(st.data())
def test_attention_agrees_with_the_reference(data: st.DataObject) -> None:
    size = st.integers(1, 4)
    batch, groups, share, queries, keys, depth, width = (data.draw(size) for _ in range(7))
    heads, past, is_flat = groups * share, data.draw(st.integers(0, 3)), data.draw(st.booleans())
    attributes = data.draw(windows())
    shapes = {
        "q": (batch, heads, queries, depth),
        "k": (batch, groups, keys, depth),
        "v": (batch, groups, keys, width),
    }
    feeds = {name: numbers(*shape) for name, shape in shapes.items()}
    if is_flat:
        feeds = {n: x.swapaxes(1, 2).reshape(batch, x.shape[2], -1) for n, x in feeds.items()}
        attributes |= {"q_num_heads": heads, "kv_num_heads": groups}
    if past:
        feeds["past_k"] = numbers(batch, groups, past, depth)
        feeds["past_v"] = numbers(batch, groups, past, width)
    if data.draw(st.booleans()):
        mask = data.draw(masks((batch, heads, queries, past + keys)))
        # The reference takes the queries of a causal mask for as many as a given mask has.
        rows = queries if attributes["is_causal"] else mask.shape[-2]
        feeds["mask"] = np.repeat(mask, rows // mask.shape[-2], axis=-2)
    if not past and data.draw(st.booleans()):
        counts = [data.draw(st.integers(1, keys)) for _ in range(batch)]
        assume("mask" not in feeds or feeds["mask"].shape[-1] == keys)
        feeds["real"] = np.array(counts, np.int64)
    if data.draw(st.booleans()):
        attributes["scale"] = data.draw(st.sampled_from([0.25, 1.0]))
    attributes["softcap"] = data.draw(st.sampled_from([0.0, 0.5]))
    # The reference caps the raw scores, too, against the specification and its own expansion.
    stage = st.integers(1 if attributes["softcap"] else 0, 3)
    attributes["qk_matmul_output_mode"] = data.draw(stage)
    outputs = ("y", "present_k", "present_v", "scores")[: data.draw(st.integers(1, 4))]
    if past:  # the present outputs go with it
        outputs = ("y", "present_k", "present_v", "scores")[: data.draw(st.integers(3, 4))]
    check(feeds, outputs, **attributes)


def qkv(*sizes: tuple[int, ...]) -> dict[str, Any]:
    return {name: numbers(*shape) for name, shape in zip("qkv", sizes, strict=True)}


def test_scores_alone_are_nodes_of_their_own() -> None:
    feeds = qkv((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4))
    function = import_onnx(node_of(feeds))
    assert [node.opcode for node in function] == ["attention", "save"]
    function = import_onnx(node_of(feeds, ("y", "", "", "scores")))
    assert [node.opcode for node in function].count("mat_mul") == 1


@needs_opset
def test_halves_are_rounded_once() -> None:
    feeds = {n: x.astype(np.float16) for n, x in qkv(*[(2, 3, 9, 8)] * 3).items()}
    results = evaluate(import_onnx(node_of(feeds, ("y", "", "", "scores"))), feeds)
    wide = {name: array.astype(np.float32) for name, array in feeds.items()}
    exact = ReferenceEvaluator(node_of(wide, ("y", "", "", "scores"))).run(None, wide)
    for got, wanted in zip(results.values(), exact, strict=True):
        assert got.dtype == np.float16
        np.testing.assert_allclose(got, wanted, rtol=2**-10, atol=1e-6)


@pytest.mark.parametrize(
    ("feeds", "attributes", "message"),
    [
        (qkv((2, 3, 8), (2, 3, 8), (2, 3, 8)), {}, "'q_num_heads' is missing"),
        (
            qkv((2, 3, 8), (2, 3, 8), (2, 3, 8)),
            {"q_num_heads": 3, "kv_num_heads": 3},
            "%q : float32<2 x 3 x 8> has the width 8, which q_num_heads must divide; that is 3",
        ),
        (qkv((3, 8), (3, 8), (3, 8)), {}, r"must be \[batch, heads, tokens, depth\]"),
        (qkv((1, 6, 3, 8), (1, 4, 3, 8), (1, 4, 3, 8)), {}, "with 6 heads.* with 4"),
        (qkv((1, 2, 3, 8), (1, 2, 5, 8), (1, 2, 4, 8)), {}, "5 x 8>.*4 x 8>"),
        (
            qkv((1, 2, 3, 8), (1, 2, 5, 8), (1, 2, 5, 8)) | {"mask": numbers(4, 5)},
            {},
            r"'mask' is float32<1 x 1 x 4 x 5>.*\[1, 2, 3, 5\]",
        ),
        (
            qkv((1, 2, 3, 8), (1, 2, 5, 8), (1, 2, 5, 8)) | {"mask": numbers(1, 1, 1, 3, 5)},
            {},
            r"%mask : float32<1 x 1 x 1 x 3 x 5> has 5 dimensions.*\[1, 2, 3, 5\]",
        ),
        (
            qkv((1, 2, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8)) | {"past_k": numbers(1, 2, 3, 8)},
            {},
            "past_key and past_value must be given together",
        ),
        (
            qkv((1, 3, 16), (1, 3, 16), (1, 3, 16))
            | {"past_k": numbers(1, 3, 4, 8), "past_v": numbers(1, 2, 4, 8)},
            {"q_num_heads": 2, "kv_num_heads": 2},
            "past_key %past_k : float32<1 x 3 x 4 x 8> does not fit the new keys, "
            "float32<1 x 2 x 3 x 8> by heads: it must be float32<1 x 2 x tokens x 8>",
        ),
        (
            qkv(*[(1, 2, 3, 8)] * 3) | {"past_k": numbers(1, 2, 4, 8), "past_v": numbers(1, 2, 8)},
            {},
            "past_value %past_v : float32<1 x 2 x 8> does not fit the new values",
        ),
        (qkv(*[(1, 2, 3, 8)] * 3), {"left_window_size": -3}, "windows -3 and -1 must be -1"),
    ],
)
def test_operands_that_do_not_fit_are_refused(
    feeds: dict[str, Any], attributes: dict[str, Any], message: str
) -> None:
    said = complaint(node_of(feeds, **attributes))
    assert re.search(f"Attention.*{message}", said), said


def test_an_unknown_stage_of_the_scores_is_refused() -> None:
    proto = node_of(qkv(*[(1, 2, 3, 8)] * 3), ("y", "", "", "s"), qk_matmul_output_mode=4)
    assert "qk_matmul_output_mode 4 must be 0, 1, 2 or 3" in complaint(proto)


def test_the_scale_that_is_not_given_is_not_rounded() -> None:
    feeds = {n: x.astype(np.float64) for n, x in qkv(*[(1, 2, 5, 3)] * 3).items()}
    (found,) = evaluate(import_onnx(node_of(feeds)), feeds).values()
    scores = feeds["q"] @ feeds["k"].swapaxes(2, 3) / np.sqrt(3.0)
    powers = np.exp(scores)
    wanted = powers / powers.sum(axis=-1, keepdims=True) @ feeds["v"]
    np.testing.assert_allclose(found, wanted, rtol=1e-13)
