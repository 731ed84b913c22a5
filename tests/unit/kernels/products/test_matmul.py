"""Matrix product kernels against NumPy."""

from dataclasses import replace

import numpy as np
import pytest

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.ops.families import SHORT_INTEGERS
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.machine.rows import ROWS
from glow_nb.kernels.operators.packed_instructions import PackedMatMulInst
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Buffer, Register
from glow_nb.llir.stack import StackInst
from tests.candidates import product_candidates
from tests.in_turn import in_turn, marked, one_in
from tests.unit.kernels.cases import COMPUTED
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact

ReluInst = instruction_for(ops.Relu)

FLOAT32 = ElementKind.FLOAT32


def packed(rhs: Array, block: int) -> Array:
    """Lay ``[batch, inner, depth]`` out as ``[batch, panels, inner, block]``, zero padded."""
    batch, inner, depth = rhs.shape
    wide = np.pad(rhs, [(0, 0), (0, 0), (0, -depth % block)])
    panels = wide.reshape(batch, inner, -(-depth // block), block)
    return np.ascontiguousarray(np.swapaxes(panels, 1, 2))


def product_of(
    shape: MatMulShape, kind: ElementKind, block: int, *, has_bias: bool
) -> PackedMatMulInst:
    """Return the instruction of *shape*, with a right matrix for each of several left ones."""

    def buffer(name: str, *sizes: int) -> Buffer:
        return Buffer(name, TensorType(kind, sizes))

    panels = -(-shape.depth // block)
    batch = [shape.batch] if shape.batch > 1 else []
    return PackedMatMulInst(
        buffer("dest", *batch, shape.rows, shape.depth),
        buffer("lhs", *batch, shape.rows, shape.inner),
        buffer("rhs", *batch, panels, shape.inner, block),
        buffer("bias", panels * block) if has_bias else None,
        depth=shape.depth,
        block=block,
    )


def check(
    shape: MatMulShape,
    target: Target,
    threads: int = 1,
    kind: ElementKind = FLOAT32,
    *,
    has_bias: bool = True,
) -> None:
    block = product_candidates(shape, kind, target)[0].block
    random = np.random.default_rng(0)
    least = -4 if kind.is_signed else 0
    lhs = random.integers(least, 5, (shape.batch, shape.rows, shape.inner)).astype(kind.dtype)
    rhs = random.integers(least, 5, (shape.batch, shape.inner, shape.depth)).astype(kind.dtype)
    bias = random.integers(2 * least, 10, shape.depth if has_bias else 0).astype(kind.dtype)
    instruction = product_of(shape, kind, block, has_bias=has_bias)
    kernel = RunningKernel(generate_kernel(instruction, target), target)
    dest, whole = guarded((shape.batch, shape.rows, shape.depth), kind)
    operands = [lhs, packed(rhs, block)]
    if has_bias:
        operands.append(np.pad(bias, (0, -shape.depth % block)))
    kernel(dest, *operands, threads=threads)
    exact = lhs.astype(float) @ rhs.astype(float) + (bias.astype(float) if has_bias else 0)
    wide = np.int64 if not kind.is_float else float
    expected = exact.astype(wide).astype(kind.dtype)
    np.testing.assert_array_equal(dest.astype(float), expected.astype(float))
    assert guards_are_intact(whole)


SHAPES = {
    "square": MatMulShape(1, 33, 20, 45),
    "one row": MatMulShape(1, 1, 100, 77),
    "one column": MatMulShape(1, 50, 30, 1),
    "one number": MatMulShape(1, 1, 7, 1),
    "outer product": MatMulShape(1, 13, 1, 9),
    "batched": MatMulShape(4, 7, 12, 19),
    "batched rows": MatMulShape(5, 1, 12, 19),
    "empty sum": MatMulShape(1, 3, 0, 5),
    "no rows": MatMulShape(1, 0, 3, 5),
    "no columns": MatMulShape(1, 3, 4, 0),
}


SEEN = ["one number", "one row", "square"]
"""Shapes for the slow run: tests of widths and kinds have squares, a batch has rows."""


@pytest.mark.jit
@pytest.mark.parametrize("name", marked(SHAPES, slow=SEEN))
def test_product_is_that_of_numpy(name: str) -> None:
    lanes = LANE_COUNTS[len(name) % len(LANE_COUNTS)]
    has_bias = name not in ("outer product", "batched")
    check(SHAPES[name], Target.host(lanes), threads=1 + len(name) % 4, has_bias=has_bias)


@pytest.mark.jit
@pytest.mark.parametrize("lanes", LANE_COUNTS)
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_width_and_share_computes_all(lanes: int, threads: int) -> None:
    check(SHAPES["batched"], Target.host(lanes), threads, has_bias=False)


@pytest.mark.jit
@pytest.mark.parametrize(
    "kind",
    one_in(
        3, [kind for kind in COMPUTED if kind not in (FLOAT32, ElementKind.BOOL, *SHORT_INTEGERS)]
    ),
)
def test_other_kinds_share_the_generator(kind: ElementKind) -> None:
    check(SHAPES["square"], Target.host(8), kind=kind)


STREAMED = {
    "with a rest": (MatMulShape(1, 1, 1027, 70), 8, 1024),
    "one inner block": (MatMulShape(1, 1, 256, 32), 8, 1 << 20),
    "two rows": (MatMulShape(1, 2, 700, 33), 16, 4096),
    "batched": (MatMulShape(3, 1, 130, 16), 16, 32768),
}
"""Sizes, lanes, and bytes of the first-level cache."""


@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "kind"), in_turn(STREAMED, [FLOAT32, ElementKind.FLOAT64, ElementKind.FLOAT16])
)
def test_streams_sum_up_every_product_once(name: str, kind: ElementKind) -> None:
    shape, lanes, l1_bytes = STREAMED[name]
    planned, host = (
        replace(target, lanes=lanes, l1_bytes=l1_bytes, l2_bytes=1024)
        for target in (Target.of(ROWS["zen3"]), Target.host())
    )
    planned, host = (target.with_machine(min_stream_bytes=16) for target in (planned, host))
    block = product_candidates(shape, kind, planned)[0].block
    has_bias = shape.batch == 1
    source = generate_kernel(product_of(shape, kind, block, has_bias=has_bias), planned)
    assert "tile_streams(" in source.text
    assert ("for part in" in source.text) == (name not in ("one inner block", "batched"))
    check(shape, host, threads=1 + len(name) % 2, kind=kind, has_bias=has_bias)


def test_kind_without_product_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="matrix product of bool"):
        product_candidates(SHAPES["square"], ElementKind.BOOL, Target.host(8))


@pytest.mark.jit
@pytest.mark.parametrize("is_stacked", [False, True])
def test_a_matrix_is_multiplied_by_itself(is_stacked: bool) -> None:
    type, target = TensorType(FLOAT32, (1, 16, 16)), Target.host()
    x, made, dest = Buffer("x", type), Register("made", type), Buffer("dest", type)
    head = PackedMatMulInst(made if is_stacked else dest, x, x, None, depth=16, block=16)
    instruction = StackInst.of([head, ReluInst(dest, made)]) if is_stacked else head
    matrix = np.random.default_rng(0).integers(-4, 5, type.shape).astype(np.float32)
    operands = [matrix] if is_stacked else [matrix, matrix]
    result = np.zeros(type.shape, np.float32)
    RunningKernel(generate_kernel(instruction, target), target)(result, *operands)
    wanted = matrix @ matrix
    np.testing.assert_array_equal(result, np.maximum(wanted, 0) if is_stacked else wanted)
