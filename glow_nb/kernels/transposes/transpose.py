"""Transpose: a matrix of which the rows of one tensor are the columns of the other, in outer loops.

Dimensions that stay neighbours are collapsed first, and a few elements that stay together are taken
as one. What is left is either a copy through a view, or a matrix to transpose in blocks of tiles
(see :mod:`glow_nb.kernels.transposes.plan`).
"""

from __future__ import annotations

from glow_nb.base.map_sizes import at_hints
from glow_nb.base.plan import Plan
from glow_nb.base.size import surely, symbols_of
from glow_nb.base.types import ElementKind
from glow_nb.kernels.registry import kernel_for, plan_of
from glow_nb.kernels.stacks.elementwise import elementwise_source
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.transposes.blocks import write_blocks
from glow_nb.kernels.transposes.plan import TRANSPOSE, Blocks, Matrix
from glow_nb.kernels.writing.loops import Nest
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.instructions.shape import CopyInst, TransposeInst
from glow_nb.llir.program import View
from glow_nb.llir.traits import KernelTraits

LONG_RUN_BYTES = 128
"""Elements that stay together in this number of bytes are whole cache lines: a copy moves them as
well."""

MOVED_AS = {
    ElementKind.BOOL: ElementKind.UINT8,
    ElementKind.FLOAT16: ElementKind.UINT16,
    ElementKind.BFLOAT16: ElementKind.UINT16,
}
"""Kinds that are moved as plain bits of the same size; the others as they are."""

WIDE_KINDS = {2: ElementKind.UINT16, 4: ElementKind.UINT32, 8: ElementKind.UINT64}
"""By size in bytes, what neighbours that stay together are moved as."""


def plan_transpose(
    instruction: TransposeInst,
    target: Target,
    fusion: Fusion,
) -> Plan | None:
    """Plan the blocks of a transpose; None if it is a copy through a view."""
    matrix = matrix_of(instruction)
    return None if matrix is None else Blocks.of(at_hints(matrix), target).as_plan()


@kernel_for(
    TransposeInst,
    traits=KernelTraits(strided=("dest", "input")),
    planner=plan_transpose,
    sees_open_sizes=True,  # of which the example may have other loops to exchange, or none
)
def transpose_source(instruction: TransposeInst, target: Target) -> KernelSource:
    """Return the kernel of a transpose of any rank and permutation."""
    dest = instruction.dest
    matrix = matrix_of(instruction)
    if matrix is None:
        return elementwise_source(CopyInst(dest, _permuted(instruction)), target)
    out, kind = SourceWriter(), dest.type.kind
    with out.block("def kernel(dest, src, scratch, thread, threads):"):
        if matrix.kind is not kind:
            out.line(f"dest = as_{matrix.kind.value}(dest)")
            out.line(f"src = as_{matrix.kind.value}(src)")
        blocks = Blocks.from_plan(plan_of(instruction, TRANSPOSE), matrix, target)
        write_blocks(out, matrix, blocks)
    return KernelSource("transpose", out.text, (kind, kind), blocks.scratch_bytes)


def matrix_of(instruction: TransposeInst) -> Matrix | None:
    """Return the matrix that *instruction* transposes, or None if it is a copy through a view."""
    dest = instruction.dest
    if surely(dest.type.size, "==", 0):
        return None
    nest = Nest.over(dest.type.shape, (dest, _permuted(instruction)))
    nest, moved = _widened(nest, MOVED_AS.get(dest.type.kind, dest.type.kind))
    return _matrix_of(nest, moved)


def _permuted(instruction: TransposeInst) -> View:
    """Return the operand of *instruction*, seen in the shape of its result."""
    source = instruction.input
    steps = tuple(source.strides[axis] for axis in instruction.permutation)
    return View("turned", instruction.dest.type, base=source, steps=steps)


def _widened(nest: Nest, kind: ElementKind) -> tuple[Nest, ElementKind]:
    """Return *nest* with the few elements that stay neighbours taken as one, and its kind."""
    inner, size = [strides[-1] for strides in nest.strides], nest.sizes[-1]
    wide = WIDE_KINDS.get(size * kind.size_bytes)
    if inner != [1, 1] or size == 1 or len(nest.sizes) < 2 or not wide:
        return nest, kind
    if any(step % size != 0 for strides in nest.strides for step in strides[:-1]):
        return nest, kind
    strides = tuple(tuple(step // size for step in steps[:-1]) for steps in nest.strides)
    return Nest(nest.sizes[:-1], strides), wide


def _matrix_of(nest: Nest, kind: ElementKind) -> Matrix | None:
    """Return the loops to exchange, or None if a copy along one loop does as well."""
    run, loop_count = 1, len(nest.sizes)
    if all(strides[-1] == 1 for strides in nest.strides):
        run, loop_count = nest.sizes[-1], loop_count - 1
    if symbols_of(run) or run * kind.size_bytes >= LONG_RUN_BYTES:
        return None
    dest, src = (strides[:loop_count] for strides in nest.strides)
    if run not in src or run not in dest:
        return None
    rows, columns = src.index(run), dest.index(run)
    if rows == columns:
        return None
    outer = [loop for loop in range(loop_count) if loop not in (rows, columns)]
    return Matrix(
        kind,
        nest.sizes[rows],
        nest.sizes[columns],
        run,
        dest[rows],
        src[columns],
        tuple(nest.sizes[loop] for loop in outer),
        tuple(dest[loop] for loop in outer),
        tuple(src[loop] for loop in outer),
    )
