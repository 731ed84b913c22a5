"""The loops of products: every order, operands in any layout, and unlike kinds."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators.packed_instructions import PackedMatMulInst
from glow_nb.kernels.products import product_plan
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.product_loops import generate_product
from glow_nb.kernels.products.product_nest import (
    LeftLayout,
    ProductKinds,
    ProductNest,
    RightLayout,
)
from glow_nb.kernels.products.product_plan import plan_loops
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.program import Buffer
from tests.in_turn import in_turn, left_out
from tests.unit.kernels.cases import instruction_of
from tests.unit.kernels.products.test_convolution import SHAPES, check, conv
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact

FLOAT32 = ElementKind.FLOAT32


def small_caches(lanes: int, l1_bytes: int, l2_bytes: int) -> Target:
    """Return this machine with caches so small that little is cut into many blocks."""
    return replace(Target.host(lanes), l1_bytes=l1_bytes, l2_bytes=l2_bytes)


CACHES = [(1024, 8192), (2048, 2048), (1, 1)]


def order_of(panels_inside: bool) -> Callable[..., bool]:
    """Return an estimate that prefers one of the two orders."""
    return lambda nest, plan, target: plan.panels_inside is not panels_inside


NAMES = [*SHAPES]
ORDERS = (False, True)
"""Of the shapes, a third is in the default run of the convolutions, and another third in this."""


@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "panels_inside"),
    in_turn(NAMES, ORDERS, slow=left_out(6, NAMES)),
)
def test_sums_in_many_blocks_are_the_same(
    name: str, panels_inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = LANE_COUNTS[len(name) % len(LANE_COUNTS)]
    caches = CACHES[len(name) // 3 % len(CACHES)]
    monkeypatch.setattr(product_plan, "traffic_cycles", order_of(panels_inside))
    check(SHAPES[name], small_caches(lanes, *caches), threads=1 + len(name) % 3)


def test_both_orders_are_planned() -> None:
    shape = conv(1, 512, 512, (90,), (1,))
    nest = ProductNest.packed(shape, ProductKinds.of(FLOAT32), 16)
    kib = 1024
    features = "+avx,+avx2,+fma,+avx512f,+avx512vl"
    tight, roomy = (
        plan_loops(nest, replace(small_caches(8, 32 * kib, l2_bytes), features=features))
        for l2_bytes in (128 * kib, 1024 * kib)
    )
    assert tight.panels_inside
    assert not roomy.panels_inside
    assert tight.sum.blocks == roomy.sum.blocks > 1


class FreeProductInst(PackedMatMulInst):
    """A product whose operands may be of any kind, and lie in any way."""

    @override
    def verify(self) -> None:
        """Accept everything."""


def product_of(
    lhs: Array,
    rhs: Array,
    kinds: ProductKinds,
    target: Target,
    *,
    turns_left: bool = False,
    in_place: bool = False,
    threads: int = 1,
) -> Array:
    """Return ``lhs @ rhs`` in the kind of the sums, with operands in the layout that is asked for.

    Args:
        lhs: ``[batch, rows, inner]``.
        rhs: ``[batch, inner, depth]``.
        kinds: Kinds of the operands and of the sums.
        target: The processor.
        turns_left: The left matrices lie transposed.
        in_place: The right matrices lie as they are, not in panels.
        threads: Threads that share the work.
    """
    (batch, rows, inner), depth = lhs.shape, rhs.shape[-1]
    block = 2 * target.lanes
    shape = ConvolutionShape(batch, inner, depth, (rows,), (1,), (1,), (0, 0), (1,))
    nest = ProductNest.packed(shape, kinds, block, filter_per_image=batch > 1)
    left = np.swapaxes(lhs, 1, 2) if turns_left else lhs
    if turns_left:
        nest = replace(nest, left=LeftLayout(1, rows, rows * inner))
    right = np.pad(rhs, [(0, 0), (0, 0), (0, -depth % block)])
    right = np.swapaxes(right.reshape(batch, inner, -1, block), 1, 2)
    if in_place:
        right = rhs
        image = inner * depth if batch > 1 else 0
        nest = replace(nest, right=RightLayout(depth, block, image, is_padded=False))
    operands = [np.ascontiguousarray(left), np.ascontiguousarray(right)]
    instruction = FreeProductInst(
        Buffer("dest", TensorType(kinds.total, (batch, rows, depth))),
        Buffer("lhs", TensorType(kinds.left, operands[0].shape)),
        Buffer("rhs", TensorType(kinds.right, operands[1].shape)),
        None,
        depth=depth,
        block=block,
    )
    source = generate_product(
        nest, plan_loops(nest, target), Fusion.of(instruction), family="mat_mul", title="product"
    )
    dest, whole = guarded((batch, rows, depth), kinds.total)
    RunningKernel(source, target)(dest, *operands, threads=threads)
    assert guards_are_intact(whole)
    return dest


INT8, UINT8, INT32 = ElementKind.INT8, ElementKind.UINT8, ElementKind.INT32
KINDS = {
    "float32": ProductKinds.of(FLOAT32),
    "float64": ProductKinds.of(ElementKind.FLOAT64),
    "float16 to float32": ProductKinds.of(ElementKind.FLOAT16),
    "float32 times float16": ProductKinds(FLOAT32, ElementKind.FLOAT16, FLOAT32),
    "int8 to int32": ProductKinds(INT8, INT8, INT32),
    "uint8 times int8": ProductKinds(UINT8, INT8, INT32),
    "int16 to int32": ProductKinds(ElementKind.INT16, ElementKind.INT16, INT32),
}


@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "in_place"),
    in_turn(KINDS, [False, True], only=["float16 to float32", "uint8 times int8"]),
)
def test_each_operand_has_its_own_kind(name: str, in_place: bool) -> None:
    """The default run has a float and an integer that are summed up in a wider kind."""
    kinds, random = KINDS[name], np.random.default_rng(0)
    lhs, rhs = (
        random.integers(-128 if kind.is_signed else 0, 127, shape).astype(kind.dtype)
        for kind, shape in ((kinds.left, (1, 9, 37)), (kinds.right, (1, 37, 21)))
    )
    found = product_of(lhs, rhs, kinds, Target.host(8), in_place=in_place)
    np.testing.assert_array_equal(found, lhs.astype(float) @ rhs.astype(float))


@pytest.mark.jit
@settings(max_examples=settings().max_examples // 8)
@given(
    rows=st.integers(1, 30),
    inner=st.integers(1, 40),
    depth=st.integers(1, 50),
    batch=st.integers(1, 3),
    turns_left=st.booleans(),
    in_place=st.booleans(),
    lanes=st.sampled_from(LANE_COUNTS),
    caches=st.sampled_from([(1024, 4096), (4096, 2048), (32768, 524288)]),
    panels_inside=st.booleans(),
    threads=st.integers(1, 3),
)
def test_operands_lie_in_any_layout(
    rows: int,
    inner: int,
    depth: int,
    batch: int,
    turns_left: bool,
    in_place: bool,
    lanes: int,
    caches: tuple[int, int],
    panels_inside: bool,
    threads: int,
) -> None:
    random = np.random.default_rng(rows + inner)
    lhs = random.integers(-4, 5, (batch, rows, inner)).astype(np.float32)
    rhs = random.integers(-4, 5, (batch, inner, depth)).astype(np.float32)
    target = small_caches(lanes, *caches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(product_plan, "traffic_cycles", order_of(panels_inside))
        found = product_of(
            lhs,
            rhs,
            KINDS["float32"],
            target,
            turns_left=turns_left,
            in_place=in_place,
            threads=threads,
        )
    np.testing.assert_array_equal(found, lhs @ rhs)


@pytest.mark.parametrize(("l2_bytes", "is_fetched"), [(1 << 20, False), (1 << 12, True)])
def test_results_that_the_second_level_cache_does_not_hold_are_fetched_ahead(
    l2_bytes: int, is_fetched: bool
) -> None:
    target = replace(Target.host(8), l2_bytes=l2_bytes)
    types = [TensorType(FLOAT32, shape) for shape in ((64, 8), (1, 8, 16))]
    instruction = instruction_of(PackedMatMulInst, types, depth=16, block=16)
    text = generate_kernel(instruction, target).text
    assert ("tile_prefetch(dest" in text) is is_fetched
