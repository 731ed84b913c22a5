"""Attention against its formula, query by query, and against its lowering."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.errors import VerifyError
from glow_nb.hlir import ops
from tests.unit.hlir.ops.applying import (
    Numbers,
    apply,
    check_close,
    check_lowering,
    floats,
    value,
)

LAYOUTS = ("query_layout", "key_layout", "value_layout", "result_layout")
INF, NAN = math.inf, math.nan


def attended(
    query: Numbers, key: Numbers, value: Numbers, mask: Numbers | None = None, **options: Any
) -> Numbers:
    """Return the attention of operands in layout ``heads``, in float64, query by query."""
    batch, heads, queries, _ = query.shape
    share = heads // key.shape[1]
    result = np.zeros((batch, heads, queries, value.shape[3]))
    seen = None if mask is None else np.broadcast_to(mask, (batch, heads, queries, key.shape[2]))
    for place in np.ndindex(batch, heads, queries):
        b, h, i = place
        keys, values = (x[b, h // share].astype(np.float64) for x in (key, value))
        scores = options["scale"] * (keys @ query[place].astype(np.float64))
        cap = options.get("softcap", 0)
        scores = cap * np.tanh(scores / cap) if cap else scores
        if seen is not None:
            is_bool = seen.dtype == np.bool_
            scores = np.where(seen[place], scores, -INF) if is_bool else scores + seen[place]
        if options.get("causal"):
            scores[max(i + options.get("offset", 0) + 1, 0) :] = -INF
        if (scores == -INF).all():
            result[place] = 0 if options.get("masked_rows") == "zero" else NAN
            continue
        powers = np.exp(scores - scores.max())
        result[place] = powers / powers.sum() @ values
    return result


def arranged(array: Numbers, layout: str) -> Numbers:
    return array if layout == "heads" else np.ascontiguousarray(array.swapaxes(1, 2))


@st.composite
def masks(draw: st.DrawFn, scores: tuple[int, ...]) -> Numbers | None:
    """Draw no mask, or one of either sort that broadcasts to the shape of *scores*."""
    sort = draw(st.sampled_from(["none", "bool", "added"]))
    shape = [draw(st.sampled_from([1, n])) for n in scores]
    numbers = floats(*shape, seed=draw(st.integers(0, 9)))
    if sort == "none":
        return None
    return numbers > -0.5 if sort == "bool" else np.where(numbers > -0.5, numbers, -INF)


@given(st.data())
def test_every_query_weighs_the_values_of_its_keys(data: st.DataObject) -> None:
    size = st.integers(1, 4)
    batch, groups, share, queries, keys, depth, width = (data.draw(size) for _ in range(7))
    heads = groups * share
    query = floats(batch, heads, queries, depth)
    key, value = floats(batch, groups, keys, depth, seed=1), floats(batch, groups, keys, width)
    mask = data.draw(masks((batch, heads, queries, keys)))
    options = {
        "scale": data.draw(st.sampled_from([0.5, 1.0, -2.0])),
        "causal": data.draw(st.booleans()),
        "offset": data.draw(st.integers(-1, 3)),
        "softcap": data.draw(st.sampled_from([0.0, 0.75])),
        "masked_rows": data.draw(st.sampled_from(["zero", "nan"])),
    }
    layouts = {name: data.draw(st.sampled_from(["heads", "tokens"])) for name in LAYOUTS}
    expected = attended(query, key, value, mask, **options).astype(np.float32)
    laid = (
        arranged(array, layouts[name])
        for name, array in zip(LAYOUTS, (query, key, value), strict=False)
    )
    operands = (*laid, None if mask is None else mask.astype(mask.dtype, order="C"))
    found = apply(ops.Attention, *operands, **options, **layouts)
    check_close(found, arranged(expected, layouts["result_layout"]))
    check_lowering(ops.Attention, *operands, **options, **layouts)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("mask_dtype", [np.float32, None])
def test_kinds_keep_their_precision(dtype: Any, mask_dtype: Any) -> None:
    q, k, v = (floats(2, 3, 5, 4, seed=i).astype(dtype) for i in range(3))
    mask = floats(1, 1, 5, 5).astype(mask_dtype or dtype)
    found = apply(ops.Attention, q, k, v, mask, scale=0.5)
    exact = attended(q, k, v, mask, scale=0.5)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, exact.astype(dtype), rtol=1e-14)  # rounded once
    check_lowering(ops.Attention, q, k, v, mask, scale=0.5)


def test_scores_of_halves_do_not_overflow() -> None:
    query = np.full((1, 1, 1, 4), 300, np.float16)
    value = floats(1, 1, 2, 3).astype(np.float16)
    found = apply(ops.Attention, query, np.repeat(query, 2, axis=2), value, None, scale=1.0)
    np.testing.assert_array_equal(
        found[0, 0, 0], value[0, 0].mean(axis=0, dtype=np.float64).astype(np.float16)
    )


@pytest.mark.parametrize(("rows", "expected"), [("nan", NAN), ("zero", 0.0)])
def test_a_query_that_may_see_nothing(rows: str, expected: float) -> None:
    query, key, value = floats(1, 1, 3, 2), floats(1, 1, 2, 2), floats(1, 1, 2, 2)
    masks = (
        {"mask": np.array([[[[True, True], [False, False], [True, False]]]])},
        {"mask": np.array([[[[0, 0], [-INF, -INF], [-INF, 1]]]], np.float32)},
        {"mask": None, "causal": True, "offset": -2},
    )
    for case in masks:
        mask = case.pop("mask")
        found = apply(ops.Attention, query, key, value, mask, scale=1.0, masked_rows=rows, **case)
        np.testing.assert_array_equal(found[0, 0, 1], [expected, expected])
        assert np.isfinite(found[0, 0, 2]).all()
        check_lowering(ops.Attention, query, key, value, mask, scale=1.0, masked_rows=rows, **case)


def test_nan_and_infinities_spread() -> None:
    query, key, value = floats(1, 1, 4, 2), np.ones((1, 1, 3, 2), np.float32), floats(1, 1, 3, 2)
    query[0, 0, 0, 1] = NAN
    query[0, 0, 1, 0] = INF  # all scores are infinite
    mask = np.zeros((1, 1, 4, 3), np.float32)
    mask[0, 0, 2, 1] = NAN
    for rows in ("nan", "zero"):
        found = apply(ops.Attention, query, key, value, mask, scale=1.0, masked_rows=rows)
        assert np.isnan(found[0, 0, :3]).all()
        assert np.isfinite(found[0, 0, 3]).all()
        check_lowering(ops.Attention, query, key, value, mask, scale=1.0, masked_rows=rows)


@pytest.mark.parametrize("axis", range(7))
def test_sizes_of_nothing(axis: int) -> None:
    sizes = [2] * 7
    sizes[axis] = 0
    batch, groups, share, queries, keys, depth, width = sizes
    query = floats(batch, groups * share, queries, depth)
    key, value = floats(batch, groups, keys, depth), floats(batch, groups, keys, width)
    for rows in ("nan", "zero"):
        options = {"scale": 1.0, "masked_rows": rows}
        found = apply(ops.Attention, query, key, value, None, **options)
        assert found.shape == (batch, groups * share, queries, width)
        assert keys or (found == 0).all()
        check_lowering(ops.Attention, query, key, value, None, **options)


def test_a_mask_that_hides_nothing_leaves_no_node() -> None:
    step, past = floats(1, 2, 1, 4), floats(1, 2, 9, 4)
    lowered = check_lowering(
        ops.Attention, step, past, past, None, scale=0.5, causal=True, offset=8
    )
    assert "select" not in [node.opcode for node in lowered.nodes]


def test_what_is_hidden_costs_nothing() -> None:
    q, k = value("float32<1 x 2 x 3 x 8>"), value("float32<1 x 2 x 4 x 8>")
    whole = ops.Attention(q, k, k, None, scale=1.0).cost()
    assert whole.multiply_adds == 2 * 3 * 4 * 16
    causal = ops.Attention(q, k, k, None, scale=1.0, causal=True, offset=-1).cost()
    assert causal.multiply_adds == 2 * (0 + 1 + 2) * 16


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (
            ("3 x 4", "3 x 4", "3 x 4"),
            r"'query' is float32<3 x 4>.*\[batch, heads, tokens, depth\]",
        ),
        (("1 x 6 x 5 x 8", "1 x 4 x 7 x 8", "1 x 4 x 7 x 8"), "with 6 heads.*with 4"),
        (("1 x 6 x 5 x 8", "1 x 0 x 7 x 8", "1 x 0 x 7 x 8"), "with 6 heads.*with 0"),
        (("1 x 2 x 5 x 8", "1 x 2 x 7 x 4", "1 x 2 x 7 x 4"), "'key' is .*7 x 4>.*needs .*7 x 8>"),
        (("1 x 2 x 5 x 8", "1 x 2 x 7 x 8", "1 x 2 x 6 x 8"), "'value' is .*6 x 8>.*need .*7 x 8>"),
        (("1 x 2 x 5 x 8", "1 x 2 x 7 x 8", "1 x 1 x 7 x 8"), "'value' is .*'key' need"),
        (("2 x 2 x 5 x 8", "1 x 2 x 7 x 8", "1 x 2 x 7 x 8"), "'key' is .*'query' needs .*<2 x 2"),
    ],
)
def test_operands_that_do_not_fit_are_named(types: tuple[str, str, str], message: str) -> None:
    q, k, v = (value(f"float32<{shape}>") for shape in types)
    with pytest.raises(VerifyError, match=rf"attention %unfit: .*{message}"):
        ops.Attention(q, k, v, None, scale=1.0, name="unfit")


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ("float32<5 x 7>", r"'mask' is float32<5 x 7>.*\[1, 2, 5, 7\]"),
        ("bool<1 x 2 x 5 x 6>", r"'mask' is bool<1 x 2 x 5 x 6>.*\[1, 2, 5, 7\]"),
        ("float16<1 x 1 x 1 x 7>", "'mask' is float16.*bool"),
    ],
)
def test_masks_that_do_not_fit_are_named(mask: str, message: str) -> None:
    q, k = value("float32<1 x 2 x 5 x 8>"), value("float32<1 x 2 x 7 x 8>")
    with pytest.raises(VerifyError, match=rf"attention %unfit: .*{message}"):
        ops.Attention(q, k, k, value(mask), scale=1.0, name="unfit")


def test_numbers_that_make_no_sense_are_named() -> None:
    q = value("float32<1 x 2 x 5 x 8>")
    with pytest.raises(VerifyError, match="scale is inf"):
        ops.Attention(q, q, q, None, scale=INF)
    with pytest.raises(VerifyError, match="softcap is -1"):
        ops.Attention(q, q, q, None, scale=1.0, softcap=-1.0)
    with pytest.raises(VerifyError, match="'query_layout' must be 'heads' or 'tokens'"):
        ops.Attention(q, q, q, None, scale=1.0, query_layout="rows")
    with pytest.raises(VerifyError, match="'key' is float16"):
        ops.Attention(q, value("float16<1 x 2 x 5 x 8>"), q, None, scale=1.0)
