"""The kernel of attention with open numbers of samples, queries and keys."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.target import LANE_COUNTS, Target
from tests.in_turn import in_turn, marked_rows
from tests.unit.kernels.attention.test_attention import SMALL, TOKENS, Case, operands_of
from tests.unit.kernels.open_cases import check_open, open_size

pytestmark = pytest.mark.jit

FLOAT32 = ElementKind.FLOAT32
BATCH, PAST = open_size("batch", 2, high=8), open_size("past", 20)


LENGTHS = (1, 2, 7, 8, 9, 29, 37, 61, 70, 150)


def _length(hint: int, low: int = 1) -> int:
    return open_size("length", hint, low=low, high=512)


def _check(case: Case, target: Target, *lengths: int, mask: Any = None, **options: Any) -> None:
    """Compare the kernel with its operator for each of *lengths*, and several batches and pasts."""
    sets = [
        {"batch": 1 + n % 3, "past": 17 * n % 40, "length": length}
        for n, length in enumerate(lengths)
    ]
    instruction = case.build(mask, **options)
    tolerance: dict[str, Any] = (
        {"ulp": 64, "absolute": 2e-6} if case.kind is FLOAT32 else {"ulp": 2, "absolute": 1e-3}
    )
    check_open(instruction, sets, target, operands_of=operands_of, **tolerance)


@pytest.mark.parametrize(
    ("hint", "lanes", "causal"),
    marked_rows(
        itertools.product([37, 128], LANE_COUNTS, [False, True]),
        only=[(37, 4, True), (128, 8, False)],
    ),
)
def test_a_text_of_any_length(lanes: int, hint: int, causal: bool) -> None:
    length = _length(hint)
    case = Case(batch=BATCH, queries=length, keys=length, depth=20, width=12)
    _check(case, Target.host(lanes), *LENGTHS, causal=causal, **TOKENS)


def test_queries_after_a_cache_of_keys() -> None:
    """The keys are those of the past and of the queries."""
    length = _length(9)
    case = Case(batch=BATCH, heads=4, queries=length, keys=PAST + length)
    _check(case, SMALL, *LENGTHS[:-1], causal=True, offset=PAST)


@pytest.mark.parametrize("groups", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_step_of_a_decoder(groups: int) -> None:
    """One query reads keys where they lie, also if there are fewer than lanes."""
    case = Case(heads=4, groups=groups, queries=1, keys=PAST + 1, depth=26)
    _check(case, Target.host(8), *LENGTHS[:-1])
    _check(case, Target.host(8), *LENGTHS[:-1], causal=True, offset=PAST, **TOKENS)


MASKS = {
    "a bool for each key": (ElementKind.BOOL, (0, None, None, 3)),
    "a number for each score": (FLOAT32, (None, 1, 2, 3)),
    "a number for each query": (FLOAT32, (None, 1, 2, None)),
}


@pytest.mark.parametrize(("mask", "softcap"), in_turn(MASKS, [0.0, 4.0]))
def test_masks_of_any_length(mask: str, softcap: float) -> None:
    kind, axes = MASKS[mask]
    length = _length(37)
    case = Case(batch=BATCH, queries=length, keys=length + 1)
    sizes = (BATCH, case.heads, case.queries, case.keys)
    shape = tuple(1 if axis is None else sizes[axis] for axis in axes)
    _check(case, SMALL, *LENGTHS, mask=TensorType(kind, shape), softcap=softcap, fill=-9.0)


@pytest.mark.parametrize("kind", [ElementKind.FLOAT16, ElementKind.BFLOAT16, ElementKind.FLOAT64])
@pytest.mark.parametrize("queries", [1, None])
@pytest.mark.slow
def test_other_kinds(kind: ElementKind, queries: int | None) -> None:
    length = _length(37)
    case = Case(batch=BATCH, queries=queries or length, keys=length, kind=kind)
    _check(case, Target.host(), *LENGTHS, mask=TensorType(ElementKind.BOOL, (1, 1, 1, length)))


@pytest.mark.parametrize("masked_rows", ["zero", "nan"])
def test_there_may_be_no_keys(masked_rows: str) -> None:
    length = _length(20, low=0)
    case = Case(batch=BATCH, queries=3, keys=length)
    _check(case, SMALL, 0, 1, 20, 40, masked_rows=masked_rows)


def test_the_number_of_heads_may_be_open() -> None:
    heads = open_size("heads", 3, high=8)
    length = _length(37)
    instruction = Case(batch=BATCH, heads=heads, groups=heads, queries=length, keys=length).build()
    sets = [{"batch": 1, "heads": n, "length": 10 + n} for n in (1, 2, 5)]
    check_open(instruction, sets, SMALL, operands_of=operands_of, ulp=64, absolute=2e-6)
