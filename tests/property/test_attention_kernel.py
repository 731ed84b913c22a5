"""The kernel of attention means what its operator means, whatever the sizes, options and caches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glow_nb.base.plan import Plan
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.ops.attention import HEADS, NAN, TOKENS, ZERO, ZERO_FOR_NAN, by_heads
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.attention import AttentionInst
from glow_nb.system.host_caches import KIBIBYTE
from tests.matrix_targets import without_matrix_registers
from tests.unit.kernels.cases import check, instruction_of

pytestmark = pytest.mark.jit

SPECIALS = (np.nan, np.inf, -np.inf)
KINDS = [ElementKind.FLOAT32] * 3 + [ElementKind.FLOAT16, ElementKind.FLOAT64]


@st.composite
def attentions(
    draw: st.DrawFn, /, kinds: Sequence[ElementKind] = KINDS, **more: Any
) -> tuple[AttentionInst, list[Array]]:
    """Draw an attention and its operands, some of whose masks hide all keys of a query."""
    kind = draw(st.sampled_from(kinds))
    batch, groups, share = (draw(st.integers(1, most)) for most in (2, 2, 3))
    queries, keys = draw(st.integers(1, 60)), draw(st.integers(1, 80))
    depth, width = draw(st.integers(1, 35)), draw(st.integers(1, 35))
    names = ("query_layout", "key_layout", "value_layout", "result_layout")
    layouts = {name: draw(st.sampled_from([HEADS, TOKENS])) for name in names}
    heads = groups * share
    shapes = ((heads, queries, depth), (groups, keys, depth), (groups, keys, width))
    types = [
        TensorType(kind, by_heads((batch, *shape), layout))
        for shape, layout in zip(shapes, layouts.values(), strict=False)
    ]
    mask_kind = draw(st.sampled_from([None, ElementKind.BOOL, ElementKind.FLOAT32, kind]))
    if mask_kind is not None:
        scores = (batch, heads, queries, keys)
        types.append(TensorType(mask_kind, tuple(draw(st.sampled_from([1, n])) for n in scores)))
    options: dict[str, Any] = {
        "scale": draw(st.sampled_from([0.125, 1.0, -0.5])),
        "causal": draw(st.booleans()),
        "offset": draw(st.integers(-5, 60)),
        "softcap": draw(st.sampled_from([0.0, 0.0, 1.5])),
        "fill": draw(st.sampled_from([-np.inf, -1e4])),
        "masked_rows": draw(st.sampled_from([NAN, ZERO, ZERO_FOR_NAN])),
        **layouts,
        **more,
    }
    random = np.random.default_rng(draw(st.integers(0, 99)))
    operands = [operand_of(random, type) for type in types]
    if draw(st.booleans()):
        # A value that causal hides may or may not spread, so values stay finite.
        chosen = operands[random.choice([0, 1, len(operands) - 1])]
        if chosen is not operands[2] and chosen.dtype != np.bool_:
            place = tuple(random.integers(0, size) for size in chosen.shape)
            chosen[place] = random.choice(SPECIALS)
    instruction = instruction_of(AttentionInst, types, **options)
    assert isinstance(instruction, AttentionInst)
    return instruction, operands


def operand_of(random: np.random.Generator, type: TensorType) -> Array:
    """Return numbers of one magnitude, or a mask that lets three quarters be seen."""
    if type.kind is ElementKind.BOOL:
        return np.asarray(random.random(type.shape) < 0.75)
    return np.asarray(random.normal(size=type.shape)).astype(type.kind.dtype)


@settings(max_examples=max(1, settings().max_examples // 20))
@given(
    attentions(),
    st.sampled_from(LANE_COUNTS),
    st.sampled_from([4, 16, 512]),
)
def test_kernel_is_the_operator(
    drawn: tuple[AttentionInst, list[Array]], lanes: int, l2: int
) -> None:
    instruction, operands = drawn
    target = replace(Target.host(lanes), l1_bytes=KIBIBYTE, l2_bytes=l2 * KIBIBYTE)
    check(instruction, target, operands=operands, ulp=16, absolute=4e-6)


@settings(max_examples=max(1, settings().max_examples // 20))
@given(
    attentions([ElementKind.BFLOAT16], wide=True, rounds_weights=True),
    st.sampled_from(LANE_COUNTS),
    st.sampled_from([4, 16, 512]),
    st.booleans(),
)
def test_kernel_of_matrix_registers_is_the_operator(
    case: tuple[AttentionInst, list[Array]], lanes: int, l2: int, is_emulated: bool
) -> None:
    """Weights are off by 2^-8 of themselves at most, and values are seldom above 4."""
    instruction, operands = case
    target = replace(Target.host(lanes), l1_bytes=2048, l2_bytes=l2 * KIBIBYTE)
    target = without_matrix_registers(target) if is_emulated else target
    planned = replace(instruction, plan=Plan.of("attention", dot="tile_dot_tdpbf16ps"))
    check(planned, target, operands=operands, ulp=0, absolute=0.02)
