"""Loop nests, shares and blocks as text."""

import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.loops import Nest, broadcast_strides, loops, share
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import (
    Block,
    blocks_of,
    ceil_power_of_two,
    floor_power_of_two,
    native_lanes,
)
from glow_nb.llir.program import Buffer


def _buffer(*shape: int) -> Buffer:
    return Buffer("buffer", TensorType(ElementKind.FLOAT32, shape))


def test_contiguous_tensors_are_one_loop() -> None:
    nest = Nest.over((2, 3, 4), (_buffer(2, 3, 4), _buffer(2, 3, 4)))
    assert nest == Nest((24,), ((1,), (1,)))


def test_dimensions_collapse_where_all_tensors_agree() -> None:
    nest = Nest.over((2, 3, 4, 5), (_buffer(2, 3, 4, 5), _buffer(1, 1, 4, 5), _buffer(2, 3, 1, 1)))
    assert nest == Nest((6, 20), ((20, 1), (0, 1), (1, 0)))


def test_single_steps_vanish() -> None:
    assert Nest.over((1, 1), (_buffer(1, 1),)) == Nest((1,), ((1,),))
    assert Nest.over((), (_buffer(),)) == Nest((1,), ((1,),))
    assert Nest.over((1, 7, 1), (_buffer(1, 7, 1),)) == Nest((7,), ((1,),))


def test_repeated_dimensions_have_stride_zero() -> None:
    assert broadcast_strides(_buffer(3, 1, 5), (3, 4, 5)) == (5, 0, 1)
    assert broadcast_strides(_buffer(1, 1), (1, 1)) == (1, 1)


def test_a_loop_can_be_moved_inside() -> None:
    nest = Nest((2, 3, 4), ((12, 1, 3), (1, 8, 2)))
    assert nest.with_innermost(1) == Nest((2, 4, 3), ((12, 3, 1), (1, 2, 8)))


@pytest.mark.parametrize("count", [0, 1, 5, 64])
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_shares_are_all_of_the_work_once(count: int, threads: int) -> None:
    pieces = [
        piece
        for thread in range(threads)
        for piece in eval(share(count), {"range": range, "thread": thread, "threads": threads})
    ]
    assert pieces == list(range(count))


def _text(sizes: list[int], *, shared: bool) -> str:
    out = SourceWriter()
    with loops(out, sizes, shared=shared) as names:
        out.line(f"visit({', '.join(names)})")
    return out.text


@pytest.mark.parametrize("sizes", [[], [1], [5], [1, 5, 1], [2, 3], [70, 3], [4, 20, 3, 2], [0, 4]])
@pytest.mark.parametrize("shared", [False, True])
def test_loops_visit_every_index_once(sizes: list[int], shared: bool) -> None:
    visited: list[tuple[int, ...]] = []
    threads = 3 if shared else 1
    for thread in range(threads):
        names = {"visit": lambda *i: visited.append(i), "thread": thread, "threads": threads}
        exec(_text(sizes, shared=shared), names)
    expected: list[tuple[int, ...]] = [()]
    for size in sizes:
        expected = [(*index, i) for index in expected for i in range(size)]
    assert sorted(visited) == expected


def test_one_piece_of_work_belongs_to_the_last_thread() -> None:
    assert _text([1, 1], shared=True) == "if thread == threads - 1:\n    visit(0, 0)\n"


def test_enough_outer_loops_are_shared_and_no_more() -> None:
    assert _text([80, 9], shared=True) == (
        "for i0 in range(thread * 80 // threads, (thread + 1) * 80 // threads):\n"
        "    for i1 in range(9):\n"
        "        visit(i0, i1)\n"
    )


@pytest.mark.parametrize("count", [0, 1, 3, 8, 13, 16, 17, 40])
@pytest.mark.parametrize("shared", [False, True])
def test_blocks_cover_every_element_once(count: int, shared: bool) -> None:
    out = SourceWriter()
    out.line("pass")
    for block in blocks_of(out, count, 8, shared=shared):
        out.line(f"visit({block.column}, {block.count or block.lanes})")
    visited: list[int] = []
    for thread in range(2 if shared else 1):
        names = {
            "visit": lambda begin, size: visited.extend(range(begin, begin + size)),
            "thread": thread,
            "threads": 2,
        }
        exec(out.text, names)
    assert sorted(visited) == list(range(count))


def test_masked_blocks_are_loaded_and_stored_by_their_count() -> None:
    block = Block("8", 4, 3)
    assert block.load("src", "row + 8") == "load_masked(src, row + 8, 4, 3)"
    assert block.store("dest", "8", "v") == "store_masked(dest, 8, v, 3)"
    assert block.only("v", "zero") == "where(less(iota_int32(4), splat_int32(3, 4)), v, zero)"
    assert Block("0", 4).only("v", "zero") == "v"


def test_vector_widths() -> None:
    target = Target.host(8)
    assert native_lanes(target, ElementKind.FLOAT32) == 8
    assert native_lanes(target, ElementKind.FLOAT32, ElementKind.INT64) == 4
    assert native_lanes(target, ElementKind.BOOL) == 32
    assert [floor_power_of_two(n) for n in (1, 2, 3, 8, 9)] == [1, 2, 2, 8, 8]
    assert [ceil_power_of_two(n) for n in (1, 2, 3, 8, 9)] == [1, 2, 4, 8, 16]
