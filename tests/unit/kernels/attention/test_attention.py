"""The kernel of attention against its operator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.ops.attention import by_heads
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.attention import AttentionInst
from glow_nb.llir.program import Buffer, View
from tests.in_turn import each_with_one_width, in_turn, marked
from tests.unit.kernels.cases import assert_close, check, expected_of, instruction_of, run
from tests.unit.kernels.running import RunningKernel

pytestmark = pytest.mark.jit

FLOAT32 = ElementKind.FLOAT32
SMALL = replace(Target.host(8), l1_bytes=1024, l2_bytes=8192)
"""Caches that hold a few rows only, so that small shapes need several blocks of all kinds."""


@dataclass(frozen=True)
class Case:
    """Sizes of one attention."""

    heads: int = 2
    groups: int = 2
    queries: int = 9
    keys: int = 21
    depth: int = 8
    width: int = 8
    batch: int = 1
    kind: ElementKind = FLOAT32

    def build(self, mask: TensorType | None = None, **options: Any) -> AttentionInst:
        """Return the instruction with *options*."""
        query = (self.batch, self.heads, self.queries, self.depth)
        key = (self.batch, self.groups, self.keys, self.depth)
        value = (self.batch, self.groups, self.keys, self.width)
        layouts = (options.get(f"{name}_layout", "heads") for name in ("query", "key", "value"))
        shapes = map(by_heads, (query, key, value), layouts)
        types = [TensorType(self.kind, shape) for shape in shapes]
        options = {"scale": self.depth**-0.5 if self.depth else 1.0, **options}
        types += [] if mask is None else [mask]
        made = instruction_of(AttentionInst, types, **options)
        assert isinstance(made, AttentionInst)
        return made


def operands_of(instruction: AttentionInst, seed: int = 0) -> list[Array]:
    """Return normally distributed operands; a bool mask lets three quarters be seen."""
    random = np.random.default_rng(seed)
    made: list[Array] = []
    for buffer in (instruction.query, instruction.key, instruction.value, instruction.mask):
        if buffer is not None and buffer.type.kind is ElementKind.BOOL:
            made.append(random.random(buffer.type.shape) < 0.75)
        elif buffer is not None:
            made.append(random.normal(size=buffer.type.shape).astype(buffer.type.kind.dtype))
    return made


TOKENS = dict.fromkeys(("query_layout", "key_layout", "value_layout", "result_layout"), "tokens")

CASES: dict[str, tuple[Case, dict[str, Any]]] = {
    "several blocks": (Case(queries=70, keys=150), {}),
    "one query": (Case(queries=1, keys=75), {}),
    "one key": (Case(keys=1), {}),
    "few keys": (Case(queries=3, keys=3), {}),
    "few queries of many keys": (Case(queries=3, groups=2, keys=141, depth=26), {}),
    "no depth": (Case(depth=0), {}),
    "odd sizes": (Case(queries=13, keys=37, depth=13, width=26), {}),
    "wide": (Case(queries=5, keys=9, depth=40, width=104), {}),
    "groups": (Case(heads=6, groups=2, queries=11, keys=30), {}),
    "one query of a group": (Case(heads=8, groups=1, queries=1, keys=61), {}),
    "causal": (Case(queries=70, keys=70), {"causal": True}),
    "causal with past keys": (Case(queries=40, keys=97), {"causal": True, "offset": 57}),
    "causal, first rows see nothing": (Case(queries=20), {"causal": True, "offset": -4}),
    "causal, nothing is seen": (Case(queries=20), {"causal": True, "offset": -40}),
    "causal groups": (
        Case(heads=6, groups=2, queries=33, keys=40, batch=2),
        {"causal": True, "offset": 7},
    ),
    "causal, few queries": (Case(queries=3, keys=50), {"causal": True, "offset": 30}),
    "soft cap": (Case(), {"softcap": 0.5}),
    "negative scale": (Case(), {"scale": -1.5}),
    "tokens": (Case(heads=4, groups=2, batch=2), TOKENS),
    "few tokens": (Case(heads=4, groups=4, batch=2, queries=2, width=13), TOKENS),
    "zeros for masked rows": (
        Case(queries=20),
        {"causal": True, "offset": -4, "masked_rows": "zero"},
    ),
    "no keys": (Case(keys=0), {}),
    "no queries": (Case(queries=0), {}),
    "no width": (Case(width=0), {}),
    "no heads": (Case(heads=0, groups=0), {}),
    "no samples": (Case(batch=0), {}),
}


SHOWN = ["causal, first rows see nothing", "no keys", "no width", "one query of a group", "tokens"]
"""Cases for the default run; tests of widths, kinds, masks and sums below have others."""


@pytest.mark.parametrize("name", marked(CASES, only=SHOWN))
def test_attention_is_that_of_its_operator(name: str) -> None:
    case, options = CASES[name]
    instruction = case.build(**options)
    check(instruction, SMALL, operands=operands_of(instruction), absolute=2e-6)


@pytest.mark.parametrize(
    ("name", "lanes"),
    each_with_one_width(
        ["odd sizes", "few queries of many keys", "causal groups"], only=["odd sizes"]
    ),
)
def test_every_width_of_vectors(name: str, lanes: int) -> None:
    case, options = CASES[name]
    instruction = case.build(**options)
    check(instruction, Target.host(lanes), operands=operands_of(instruction), absolute=2e-6)


@pytest.mark.parametrize(
    ("kind", "name"),
    in_turn(
        ["float64", "float16", "bfloat16"],
        ["odd sizes", "few queries of many keys"],
        only=["float64"],
    ),
)
def test_other_kinds(kind: str, name: str) -> None:
    case, options = CASES[name]
    instruction = replace(case, kind=ElementKind(kind)).build(**options)
    check(instruction, SMALL, operands=operands_of(instruction), absolute=2e-6)


MASKS = [(2, 4, 9, 21), (1, 4, 1, 21), (2, 1, 9, 1), (1, 1, 1, 1), (1, 1, 9, 21), (2, 1, 1, 21)]


@pytest.mark.parametrize(
    ("shape", "kind"),
    in_turn(MASKS, ["bool", "float32", "float16"], only=[MASKS[1], MASKS[5]]),
)
def test_masks(shape: tuple[int, ...], kind: str) -> None:
    """The default run has a row and columns, with another kind each."""
    mask = TensorType(ElementKind(kind), shape)
    operand_kind = ElementKind.FLOAT16 if kind == "float16" else FLOAT32
    instruction = Case(heads=4, groups=2, batch=2, kind=operand_kind).build(mask)
    check(instruction, SMALL, operands=operands_of(instruction), absolute=2e-6)


def test_mask_soft_cap_and_causal_together() -> None:
    mask = TensorType(FLOAT32, (1, 1, 30, 40))
    options = {"softcap": 2.0, "causal": True, "offset": 10}
    instruction = Case(heads=4, groups=2, queries=30, keys=40).build(mask, **options)
    check(instruction, SMALL, operands=operands_of(instruction), absolute=2e-6)


@pytest.mark.parametrize(("masked_rows", "queries"), in_turn(["nan", "zero"], [12, 2]))
def test_infinities_in_masks(masked_rows: str, queries: int) -> None:
    mask = TensorType(FLOAT32, (1, 1, queries, 40))
    instruction = Case(queries=queries, keys=40).build(mask, masked_rows=masked_rows)
    *operands, numbers = operands_of(instruction)
    numbers[0, 0, 0] = -np.inf  # nothing is seen
    numbers[0, 0, 1, :39] = -np.inf  # all blocks but the last are hidden
    if queries > 2:
        numbers[0, 0, 2, 7:] = -np.inf  # all but the first
        numbers[0, 0, 3] = np.finfo(np.float32).min  # what exporters write: all are equal
        numbers[0, 0, 4, 5] = np.inf
        numbers[0, 0, 5, 30] = np.nan
        numbers[0, 0, 6, :20] = np.finfo(np.float32).min
    operands.append(numbers)
    (result,) = run(instruction, operands, SMALL)
    (wanted,) = expected_of(instruction, operands)
    assert_close(result, wanted, absolute=2e-6)
    assert np.isnan(result[0, 0, 0]).all() == (masked_rows == "nan")


FEW, MANY = Case(queries=2, keys=40), Case(queries=20, keys=150)
"""Tests of numbers share these kernels."""


@pytest.mark.parametrize("queries", [2, 20])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("operand", [0, 1, 2])
def test_special_numbers_spread_as_in_the_formula(
    operand: int, special: float, queries: int
) -> None:
    instruction = (FEW if queries == 2 else MANY).build(scale=1.0)
    operands = operands_of(instruction)
    operands[operand][0, 1, 1, 3] = special
    check(instruction, SMALL, operands=operands, absolute=2e-6)


def test_large_scores_do_not_overflow() -> None:
    instruction = MANY.build(scale=1.0)
    query, key, value = operands_of(instruction)
    check(instruction, SMALL, operands=[300 * query, key, value], ulp=4000, absolute=1e-3)


@pytest.mark.parametrize("query", [1.0, 2.4e38])
def test_scores_may_be_as_large_as_floats_are(query: float) -> None:
    instruction = Case(queries=1, keys=2, depth=1, width=1).build(scale=1.0)
    queries, keys, values = operands_of(instruction)
    queries[:] = query
    keys[..., 0, :], keys[..., 1, :] = 2.4e38 / query, -2.4e38 / query
    check(instruction, SMALL, operands=[queries, keys, values])


def test_scores_that_grow_from_block_to_block() -> None:
    instruction = MANY.build(scale=1.0)
    query, key, value = operands_of(instruction)
    query[:, :, ::2] = 1  # every second row sees larger scores in each block, the others do not
    key += np.linspace(0, 10, 150, dtype=np.float32)[:, None]
    # scores of 80 are rounded to multiples of 7.6e-6, so that their exponentials are as far off
    check(instruction, SMALL, operands=[query, key, value], absolute=1e-5)


def test_key_and_value_may_be_one_tensor() -> None:
    instruction = Case().build()
    same = replace(instruction, value=instruction.key)
    query, key, _ = operands_of(instruction)
    check(same, SMALL, operands=[query, key, key], absolute=2e-6)


def test_source_names_its_operands() -> None:
    mask = TensorType(FLOAT32, (1, 1, 1, 21))
    source = generate_kernel(Case().build(mask), SMALL)
    assert source.parameters == ("dest", "query", "key", "value", "mask")
    assert source.text.startswith("# attention of float32: 1 x 2 x 1 heads, 9 queries, 21 keys")


def test_operands_may_have_gaps_between_rows() -> None:
    instruction = Case(queries=12, keys=20).build()
    operands = operands_of(instruction)
    wide = [np.pad(operand, [(0, 0)] * 3 + [(0, 5)]) for operand in operands]

    def window(buffer: Buffer) -> View:
        *sizes, columns = buffer.type.shape
        base = Buffer("wide", buffer.type.with_shape((*sizes, columns + 5)))
        return View(buffer.name, buffer.type, base, steps=base.strides)

    gapped = replace(
        instruction,
        dest=window(instruction.dest),
        query=window(instruction.query),
        key=window(instruction.key),
        value=window(instruction.value),
    )
    result = np.full((1, 2, 12, 13), 7, np.float32)
    RunningKernel(generate_kernel(gapped, SMALL), SMALL)(result, *wide)
    (wanted,) = expected_of(instruction, operands)
    assert_close(result[..., :8], wanted, absolute=2e-6)
    assert (result[..., 8:] == 7).all()


def test_long_sums_of_few_rows_are_cut_into_chains() -> None:
    instruction = Case(queries=2, keys=1301).build()
    target = replace(Target.host(8), l1_bytes=32768)
    assert "for chain in range" in generate_kernel(instruction, target).text
    check(instruction, target, operands=operands_of(instruction), absolute=2e-6)
