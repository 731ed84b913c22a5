"""Attention in parts: their kernel, that which puts them together, and both against the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import UnsupportedError, VerifyError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.ops.attention import by_heads
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators.attention_instructions import (
    AttentionPartsInst,
    MergeAttentionPartsInst,
)
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.attention import AttentionInst
from tests.in_turn import left_out, marked
from tests.unit.kernels.cases import assert_close, check, expected_of, instruction_of, run

FLOAT32 = ElementKind.FLOAT32
SMALL = replace(Target.host(8), l1_bytes=1024, l2_bytes=8192)


def sizes(
    heads: int, groups: int, queries: int, keys: int, width: int = 13, layout: str = "heads"
) -> list[TensorType]:
    """Return the types of query, key and value."""
    shapes = ((1, heads, queries, 8), (1, groups, keys, 8), (1, groups, keys, width))
    return [TensorType(FLOAT32, by_heads(shape, layout)) for shape in shapes]


def operands_of(types: list[TensorType]) -> list[Array]:
    random = np.random.default_rng(0)
    return [random.normal(size=type.shape).astype(np.float32) for type in types]


TOKENS = dict.fromkeys(("query_layout", "key_layout", "value_layout", "result_layout"), "tokens")

CASES: dict[str, tuple[list[TensorType], dict[str, Any]]] = {
    "one query": (sizes(1, 1, 1, 150), {}),
    "heads that share keys": (sizes(6, 2, 2, 130), {}),
    "parts that nobody sees": (sizes(2, 2, 3, 130), {"causal": True, "offset": 50}),
    "queries that see nothing": (sizes(2, 2, 5, 80), {"causal": True, "offset": -2}),
    "one part": (sizes(2, 2, 5, 40), {}),
    "many queries": (sizes(2, 2, 30, 200), {"softcap": 2.0}),
    "tokens": (sizes(4, 2, 3, 100, layout="tokens"), TOKENS),
    "no keys": (sizes(2, 2, 3, 0), {}),
    "no width": (sizes(2, 2, 5, 80, width=0), {}),
    "no queries": (sizes(2, 2, 0, 80), {}),
}


@pytest.mark.jit
@pytest.mark.parametrize("name", marked(CASES, slow=["one part", *left_out(2, CASES)]))
def test_parts_put_together_are_the_attention(name: str) -> None:
    """The slow run also has one part alone, many queries, and heads that share keys."""
    types, options = CASES[name]
    operands = operands_of(types)
    options = {"scale": 0.5, "masked_rows": "zero", **options}
    cut = instruction_of(AttentionPartsInst, types, part_keys=48, **options)
    (parts,) = run(cut, operands, SMALL)
    (wanted,) = expected_of(cut, operands)
    assert_close(parts, wanted, absolute=4e-6)
    layout = options.get("result_layout", "heads")
    merge = instruction_of(
        MergeAttentionPartsInst,
        [TensorType(FLOAT32, parts.shape)],
        layout=layout,
        masked_rows="zero",
    )
    (result,) = run(merge, [parts], SMALL)
    (of_operator,) = expected_of(merge, [parts])
    assert_close(result, of_operator, absolute=1e-6)
    (whole,) = expected_of(instruction_of(AttentionInst, types, **options), operands)
    assert_close(result, whole, absolute=4e-6)


@pytest.mark.jit
@pytest.mark.parametrize("masked_rows", ["nan", "zero", "zero_for_nan"])
def test_infinities_and_nan_in_parts(masked_rows: str) -> None:
    type = TensorType(FLOAT32, (3, 1, 1, 4, 11))
    (parts,) = operands_of([type])
    parts[..., -1] = 1
    parts[:, 0, 0, 0, :-2], parts[:, 0, 0, 0, -2], parts[:, 0, 0, 0, -1] = 0, -np.inf, 0
    parts[1, 0, 0, 1, :-2], parts[1, 0, 0, 1, -2], parts[1, 0, 0, 1, -1] = 0, -np.inf, 0
    parts[2, 0, 0, 2, -1] = np.nan
    merge = instruction_of(MergeAttentionPartsInst, [type], masked_rows=masked_rows)
    check(merge, SMALL, operands=[parts], absolute=1e-6)


def test_parts_that_are_not_whole_vectors_are_refused() -> None:
    cut = instruction_of(AttentionPartsInst, sizes(1, 1, 1, 150), scale=1.0, part_keys=20)
    with pytest.raises(UnsupportedError, match="20 keys.*a multiple of 8"):
        generate_kernel(cut, SMALL)


@pytest.mark.parametrize("shape", [(2, 1, 1, 10), (2, 1, 1, 4, 1)])
def test_what_has_not_the_shape_of_parts_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(VerifyError, match=r"must be \[parts, batch, heads, queries, width \+ 2\]"):
        instruction_of(MergeAttentionPartsInst, [TensorType(FLOAT32, shape)])


def test_parts_without_keys_are_refused() -> None:
    with pytest.raises(VerifyError, match="part_keys is 0, but must be positive"):
        instruction_of(AttentionPartsInst, sizes(1, 1, 1, 9), scale=1.0, part_keys=0)
