"""Attention in matrix registers, by AMX's instructions and where there are none."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from glow_nb.base.dot_instruction import MATRIX_REGISTERS
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.plan import Plan
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.attention.matrix_plan import DOT
from glow_nb.kernels.attention.matrix_products import split_factor
from glow_nb.kernels.attention.plan import plan_attention
from glow_nb.kernels.attention.shape import AttentionShape
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.machine.rows import SAPPHIRE_RAPIDS
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.attention import AttentionInst
from tests.in_turn import each_with_one_width, marked_rows
from tests.matrix_targets import EMULATED, INSTRUCTIONS, without_matrix_registers
from tests.unit.kernels.attention.test_attention import TOKENS, Case, operands_of
from tests.unit.kernels.cases import check, expected_of
from tests.unit.kernels.open_cases import check_open, open_size
from tests.unit.kernels.running import RunningKernel

BFLOAT16, FLOAT32 = ElementKind.BFLOAT16, ElementKind.FLOAT32
IN_REGISTERS = Plan.of("attention", dot=DOT.name)
TOLERANCE: dict[str, Any] = {"ulp": 0, "absolute": 0.01}
"""Weights are off by 2^-8 of themselves at most, and values are seldom above 4."""


@pytest.fixture(params=[EMULATED, pytest.param(INSTRUCTIONS, marks=pytest.mark.slow)])
def target(request: pytest.FixtureRequest) -> Target:
    """Return this processor, whose caches hold a few rows only, with matrix registers or without.

    Small shapes need several blocks of all kinds. The default run has instructions only where a
    test asks for them.
    """
    host = Target.host()
    if request.param == INSTRUCTIONS and MATRIX_REGISTERS not in host.instruction_sets:
        pytest.skip("this processor has no matrix registers, or may not use them")
    small = replace(host, l1_bytes=1024, l2_bytes=16384)
    return small if request.param == INSTRUCTIONS else without_matrix_registers(small)


def built(case: Case, mask: TensorType | None = None, **options: Any) -> AttentionInst:
    """Return the attention of *case* in matrix registers, with a result of float32."""
    options = {"wide": True, "rounds_weights": True, **options}
    return replace(replace(case, kind=BFLOAT16).build(mask, **options), plan=IN_REGISTERS)


CASES: dict[str, tuple[Case, dict[str, Any]]] = {
    "several blocks": (Case(queries=70, keys=150, depth=32, width=32), {}),
    "one query": (Case(queries=1, keys=75), {}),
    "one key": (Case(keys=1), {}),
    "no depth": (Case(depth=0), {}),
    "odd depth": (Case(queries=13, keys=37, depth=13, width=26), {}),
    "depth of 26": (Case(queries=20, keys=64, depth=26, width=16), {}),
    "depth of 80": (Case(queries=37, keys=101, depth=80, width=80), {}),
    "wide": (Case(queries=5, keys=9, depth=40, width=104), {}),
    "groups": (Case(heads=6, groups=2, queries=11, keys=30), {}),
    "causal": (Case(queries=70, keys=70), {"causal": True}),
    "causal with past keys": (Case(queries=40, keys=97), {"causal": True, "offset": 57}),
    "causal, first rows see nothing": (Case(queries=50), {"causal": True, "offset": -40}),
    "causal, nothing is seen": (Case(queries=20), {"causal": True, "offset": -40}),
    "causal groups": (
        Case(heads=6, groups=2, queries=33, keys=40, batch=2),
        {"causal": True, "offset": 7},
    ),
    "soft cap": (Case(), {"softcap": 0.5}),
    "negative scale": (Case(), {"scale": -0.3}),
    "scale of zero": (Case(), {"scale": 0.0}),
    "tokens": (Case(heads=4, groups=2, batch=2), TOKENS),
    "odd tokens": (Case(heads=3, groups=3, queries=20, keys=41, depth=9, width=11), TOKENS),
    "zeros for masked rows": (
        Case(queries=20),
        {"causal": True, "offset": -4, "masked_rows": "zero"},
    ),
    "a result of 16 bits": (Case(queries=20, width=24), {"wide": False}),
}

SHOWN = ["several blocks", "depth of 80", "causal groups", "odd tokens"]


@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "target"),
    marked_rows(
        itertools.product(CASES, (EMULATED, INSTRUCTIONS)),
        only=[*((name, EMULATED) for name in SHOWN), ("several blocks", INSTRUCTIONS)],
    ),
    indirect=["target"],
)
def test_attention_is_that_of_its_operator(name: str, target: Target) -> None:
    case, options = CASES[name]
    instruction = built(case, **options)
    check(instruction, target, operands=operands_of(instruction), **TOLERANCE)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "lanes"), each_with_one_width(["odd depth", "causal groups"], only=["odd depth"])
)
def test_every_width_of_vectors(name: str, lanes: int) -> None:
    case, options = CASES[name]
    target = without_matrix_registers(replace(Target.host(lanes), l1_bytes=1024, l2_bytes=16384))
    instruction = built(case, **options)
    check(instruction, target, operands=operands_of(instruction), **TOLERANCE)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "shape"),
    marked_rows(
        [("bool", (2, 4, 9, 45)), ("float32", (1, 4, 1, 45)), ("bfloat16", (2, 1, 9, 1))],
        only=[("float32", (1, 4, 1, 45))],
    ),
)
def test_masks(kind: str, shape: tuple[int, ...], target: Target) -> None:
    mask = TensorType(ElementKind(kind), shape)
    instruction = built(Case(heads=4, groups=2, batch=2, keys=45), mask)
    check(instruction, target, operands=operands_of(instruction), **TOLERANCE)


@pytest.mark.jit
@pytest.mark.parametrize("target", [EMULATED, INSTRUCTIONS], indirect=True)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("operand", [0, 1, 2])
def test_special_numbers_spread_as_in_the_formula(
    operand: int, special: float, target: Target
) -> None:
    """Some stand beside the zeros that fill up rows and keys."""
    instruction = built(Case(queries=20, keys=150, depth=7, width=9), scale=1.0)
    operands = operands_of(instruction)
    operands[operand][0, 1, 1, 3] = special
    operands[operand][0, 0, -1, -1] = special
    check(instruction, target, operands=operands, **TOLERANCE)


class DirtyKernel(RunningKernel):
    """A kernel whose scratch holds NaN of each kind when it begins."""

    @override
    def call(self, *pointers_and_share: int) -> None:
        *_, scratch, _, _ = pointers_and_share
        ctypes.memset(scratch, 0xFF, self.source.scratch_bytes)
        super().call(*pointers_and_share)


@pytest.mark.jit
def test_what_is_left_in_scratch_is_not_multiplied(target: Target) -> None:
    case = Case(queries=11, keys=37, depth=13, width=11)
    instruction = built(case, causal=True, offset=20)
    operands = operands_of(instruction)
    found = np.empty(instruction.dest.type.shape, np.float32)
    DirtyKernel(generate_kernel(instruction, target), target)(found, *operands)
    (wanted,) = expected_of(instruction, operands)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=0.01)


@pytest.mark.jit
def test_large_scores_do_not_overflow(target: Target) -> None:
    instruction = built(Case(queries=20, keys=150), scale=1.0)
    query, key, value = operands_of(instruction)
    check(instruction, target, operands=[300 * query, key, value], **TOLERANCE)


@pytest.mark.jit
def test_scores_that_grow_from_block_to_block(target: Target) -> None:
    instruction = built(Case(queries=20, keys=150), scale=1.0)
    query, key, value = operands_of(instruction)
    query[:, :, ::2] = 1  # every second row sees larger scores in each block, the others do not
    key += np.linspace(0, 10, 150).astype(key.dtype)[:, None]
    check(instruction, target, operands=[query, key, value], **TOLERANCE)


LENGTHS = (1, 2, 7, 16, 29, 33, 61, 150)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("causal", "target"),
    marked_rows(
        itertools.product((False, True), (EMULATED, INSTRUCTIONS)),
        only=[(False, EMULATED), (True, INSTRUCTIONS)],
    ),
    indirect=["target"],
)
def test_a_text_of_any_length(causal: bool, target: Target) -> None:
    length, batch = open_size("length", 37, high=512), open_size("batch", 2, high=8)
    case = Case(batch=batch, queries=length, keys=length, depth=20, width=12)
    layouts: Any = TOKENS
    instruction = built(case, causal=causal, **layouts)
    sets = [{"batch": 1 + n % 3, "length": length} for n, length in enumerate(LENGTHS)]
    check_open(instruction, sets, target, operands_of=operands_of, **TOLERANCE)


@pytest.mark.jit
def test_queries_after_a_cache_of_keys(target: Target) -> None:
    length, past = open_size("length", 9, high=512), open_size("past", 20)
    case = Case(heads=4, queries=length, keys=past + length)
    instruction = built(case, causal=True, offset=past)
    sets = [{"past": 17 * n % 40, "length": length} for n, length in enumerate(LENGTHS)]
    check_open(instruction, sets, target, operands_of=operands_of, **TOLERANCE)


@pytest.mark.jit
def test_there_may_be_no_keys(target: Target) -> None:
    length = open_size("length", 20, low=0, high=512)
    instruction = built(Case(queries=9, keys=length), masked_rows="zero")
    sets = [{"length": length} for length in (0, 1, 20, 40)]
    check_open(instruction, sets, target, operands_of=operands_of, **TOLERANCE)


def plan_for(case: Case, target: Target, **options: Any) -> str:
    """Return the dot instruction that *target* takes for *case* if no plan is given."""
    return plan_attention(AttentionShape.of(built(case, **options)), target).dot


def test_registers_are_taken_where_the_processor_has_them_and_rows_are_enough() -> None:
    target = Target.of(SAPPHIRE_RAPIDS)
    many = Case(heads=12, groups=12, queries=197, keys=197, depth=64, width=64)
    assert plan_for(many, target) == DOT.name
    assert plan_for(replace(many, queries=1), target) == ""
    assert plan_for(many, without_matrix_registers(target)) == ""
    assert plan_for(many, target, rounds_weights=False) == ""


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sum_vectors": 1}, "matrix registers need the same number"),
        ({"rows": 48}, "leave 32"),
        ({"block_keys": 80, "score_vectors": 1, "sum_vectors": 1}, "must be a multiple of 32"),
        ({"pack_values": None}, "matrix registers read copies alone"),
        ({"dot": "tile_dot_tdpbssd"}, "is not multiplied by 'tile_dot_tdpbssd'"),
    ],
)
def test_plans_that_do_not_fit_are_refused(wrong: Any, message: str) -> None:
    instruction, target = built(Case(queries=32, keys=64)), Target.of(SAPPHIRE_RAPIDS)
    shape = AttentionShape.of(instruction)
    settings = {"rows": 32, "score_vectors": 2, "sum_vectors": 2, "chunk_rows": 96}
    plan = (
        plan_attention(shape, target, DOT.name).as_plan().updated(**{**settings, "block_rows": 96})
    )
    with pytest.raises(UnsupportedError, match=message):
        generate_kernel(replace(instruction, plan=plan.updated(**wrong)), target)


def test_an_attention_that_may_not_round_its_weights_is_refused() -> None:
    instruction = built(Case(), rounds_weights=False)
    with pytest.raises(UnsupportedError, match="matrix registers round exponentials"):
        generate_kernel(instruction, Target.of(SAPPHIRE_RAPIDS))


@pytest.mark.parametrize("factor", [0.125, -3.0, 80**-0.5, 0.0, 1.0])
def test_the_factor_of_queries_is_a_power_of_two(factor: float) -> None:
    power, rest = split_factor(factor)
    assert power * rest == factor
    assert 1 <= rest < 2
    assert np.frexp(power)[0] in (0, 0.5, -0.5)
