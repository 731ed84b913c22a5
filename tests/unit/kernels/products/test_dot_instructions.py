"""Dot instructions are rows: one from outside multiplies convolutions and products exactly."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.base.dot_instruction import (
    ANY_PROCESSOR,
    DOTS,
    SINGLE,
    DotInstruction,
    register_dot,
)
from glow_nb.base.errors import DefinitionError, UnsupportedError, VerifyError
from glow_nb.base.plan import Plan
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.codegen.compile import compile_assembly
from glow_nb.hlir import ops
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators.packed_instructions import PackedMatMulInst
from glow_nb.kernels.operators.panels import panels_of
from glow_nb.kernels.target import Target
from glow_nb.simd.lanes import Lanes
from glow_nb.simd.multiply_adds import MULTIPLY_ADDS, emits
from tests.unit.kernels.cases import check, instruction_of

INT8, UINT8, FLOAT32 = ElementKind.INT8, ElementKind.UINT8, ElementKind.FLOAT32
BYTES = frozenset({INT8})
SIGNED = DotInstruction(
    "tile_dot_signed", BYTES, BYTES, group=8, rows=4, columns=4, needs=ANY_PROCESSOR
)
"""Blocks of 4 x 4 results, of groups of eight signed bytes."""

VPDPBUSD = DOTS["tile_dot_vpdpbusd"]
FLOATS = DotInstruction(
    "tile_dot_floats",
    frozenset({FLOAT32}),
    frozenset({FLOAT32}),
    group=2,
    rows=2,
    columns=4,
    needs=ANY_PROCESSOR,
)


WINDOW: Any = {"kernel": (3, 3), "stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1)}


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    known, functions = dict(DOTS), dict(MULTIPLY_ADDS)
    yield
    for table, before in ((DOTS, known), (MULTIPLY_ADDS, functions)):
        for name in set(table) - set(before):
            del table[name]


def product(kind: str, rows: int, inner: int, depth: int) -> Function:
    b = glow_nb.Builder("product")
    x = b.input("x", f"{kind}<{rows} x {inner}>")
    weights = numbers(kind, (inner, depth), 1)
    b.save(b.emit(ops.MatMul(x, b.constant("w", weights))), "y")
    return b.function()


def convolution(kind: str, channels: int, depth: int, group: int = 1) -> Function:
    b = glow_nb.Builder("convolution")
    x = b.input("x", f"{kind}<2 x 5 x 7 x {channels}>")
    weights = b.constant("w", numbers(kind, (depth, 3, 3, channels // group), 2))
    total = np.int32 if kind == "int8" else np.float32
    bias = b.constant("b", np.arange(depth).astype(total))
    b.save(b.emit(ops.Convolution(x, weights, bias, group, **WINDOW)), "y")
    return b.function()


def numbers(kind: str, shape: tuple[int, ...], seed: int) -> Array:
    made = np.random.default_rng(seed).integers(-128, 128, shape)
    return made.astype(kind) if kind == "int8" else (made / 8).astype(np.float32)


def check_network(function: Function, kind: str, dot: str, lanes: int, threads: int) -> None:
    feeds = {"x": numbers(kind, function.inputs[0].type.shape, 3)}
    backend = CpuBackend(Target.host(lanes))
    net = glow_nb.compile(function, backend=backend, threads=threads)
    assert f'dot = "{dot}"' in str(glow_nb.plans(function, backend=backend, threads=threads))
    texts = [(str(kernel.instruction), kernel.source) for kernel in net.kernels]
    assert any(f'dot = "{dot}"' in plan and f"{dot}(" in source for plan, source in texts)
    wanted = evaluate(function, feeds)["y"]
    if kind == "int8":
        np.testing.assert_array_equal(net.run(feeds)["y"], wanted)
    else:
        np.testing.assert_allclose(net.run(feeds)["y"], wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("function", "lanes", "threads"),
    [
        (product("int8", 9, 21, 13), 8, 1),  # neither rows, groups nor columns are whole
        (product("int8", 1, 8, 4), 4, 2),
        (convolution("int8", 5, 9), 16, 2),
        (convolution("int8", 16, 24, group=2), 8, 1),
    ],
)
def test_an_instruction_from_outside_multiplies_blocks_of_bytes(
    function: Function, lanes: int, threads: int
) -> None:
    register_dot(SIGNED)
    check_network(function, "int8", SIGNED.name, lanes, threads)


@pytest.mark.jit
def test_whole_groups_of_floats_are_multiplied_in_blocks() -> None:
    register_dot(FLOATS)
    check_network(product("float32", 7, 10, 19), "float32", FLOATS.name, 8, 1)


def test_groups_of_floats_that_are_not_whole_are_left_to_others() -> None:
    """Zeros that fill up a group would meet inputs that may be infinite."""
    register_dot(FLOATS)
    table = str(glow_nb.plans(product("float32", 7, 9, 19), backend=CpuBackend(Target.host(8))))
    assert FLOATS.name not in table
    assert f'dot = "{SINGLE.name}"' in table


def instruction(dot: DotInstruction, rows: int, inner: int, depth: int) -> PackedMatMulInst:
    left, right = min(dot.left, key=str), min(dot.right, key=str)
    panels, groups = panels_of(depth, 16), panels_of(inner, dot.group)
    types = [
        TensorType(left, (rows, inner)),
        TensorType(right, (panels, groups, 16 * dot.group)),
        TensorType(left if dot.is_float else ElementKind.INT32, (panels * 16,)),
    ]
    plan = Plan.of("direct", dot=dot.name)
    made = instruction_of(PackedMatMulInst, types, depth=depth, block=16, plan=plan)
    assert isinstance(made, PackedMatMulInst)
    return made


ROWS = [dot for dot in (*DOTS.values(), SIGNED) if dot is not SINGLE and not dot.is_paired]


@pytest.mark.jit
@pytest.mark.parametrize("dot", ROWS, ids=[dot.name for dot in ROWS])
def test_a_processor_without_an_instruction_does_the_same_by_single_products(
    dot: DotInstruction,
) -> None:
    """Its plan may come from another processor, or from a user who wants to see it."""
    if dot is SIGNED:
        register_dot(replace(dot, needs=()))
    target = replace(Target.host(4), cpu="x86-64", features="+sse2,-avx")
    check(instruction(dot, 5, 2 * dot.group, 20), target)


@pytest.mark.jit
@pytest.mark.parametrize("has_it", [True, False])
def test_the_function_from_outside_is_taken_where_the_processor_has_the_instruction(
    has_it: bool,
) -> None:
    features = "+sse2,+avx,+avx2" if has_it else "+sse2,+avx"
    target = replace(Target.host(8), cpu="x86-64", features=features)
    register_dot(replace(SIGNED, needs=((8, frozenset({"avx2"})),)))
    emitted: list[int] = []

    @emits(SIGNED.name)
    def wrong_but_seen(total: Lanes, x: Lanes, w: Lanes) -> Lanes:
        emitted.append(x.lanes + w.lanes)
        return total

    compile_assembly(generate_kernel(instruction(SIGNED, 4, 8, 16), target), target)
    assert set(emitted) == ({4 * 8 + 4 * 8} if has_it else set())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "dot; import os"}, "its name is 'dot; import os'; give 'tile_dot_'"),
        ({"name": "tile_dot_codes"}, "glow_nb has it; choose another name"),
        ({"name": VPDPBUSD.name}, "glow_nb has it; choose another name"),
        ({"group": 0}, "group is 0; give a positive number"),
        ({"rows": 3}, "rows is 3; give a power of two"),
        ({"columns": -4}, "columns is -4; give a power of two"),
        ({"left": frozenset()}, "give the kinds that groups and blocks are made of"),
    ],
)
def test_rows_that_cannot_be_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        register_dot(replace(SIGNED, **fields))  # type: ignore[arg-type]


def test_a_plan_must_name_what_multiplies_the_operands() -> None:
    made = instruction(VPDPBUSD, 3, 8, 16)
    with pytest.raises(VerifyError, match="'tile_dot_paired', which multiplies no panels"):
        replace(made, plan=Plan.of("direct", dot="tile_dot_paired"))
    with pytest.raises(VerifyError, match="'rhs' is int8<1 x 2 x 64>, but lhs .* needs"):
        replace(made, plan=None)  # single products lie in other panels
    with pytest.raises(UnsupportedError, match="no dot instruction is called 'tile_dot_signed'"):
        replace(made, plan=Plan.of("direct", dot=SIGNED.name))
