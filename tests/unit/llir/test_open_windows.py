"""Windows whose sizes are open: what is said of them holds whatever the sizes are."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from glow_nb.base.size import Symbol, at
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.llir.generate import generate
from glow_nb.llir.in_place import is_same_memory
from glow_nb.llir.program import Activation, Buffer, Program, View
from glow_nb.llir.verify import element_interval, may_overlap, verify
from glow_nb.llir.windows import laid_around, rebased
from glow_nb.llir.with_sizes import Sizing
from tests.passes_for_cpu import run_passes

N, M = Symbol("n", 5, 1, 9), Symbol("m", 3, 1, 9)
SETS = [{"n": n, "m": m} for n, m in product((1, 2, 5, 9), (1, 3, 4, 9))]
n, m = N.size, M.size


def region(name: str, *shape: int) -> Activation:
    return Activation(name, TensorType(ElementKind.FLOAT32, shape))


def window(
    name: str, base: Buffer, shape: tuple[int, ...], offset: int, steps: tuple[int, ...] = ()
) -> View:
    type = TensorType(base.type.kind, shape)
    return View(name, type, base, offset, steps or base.strides)


def places_of(buffer: Buffer, sizes: dict[str, int]) -> Array:
    """Return which element of its region each element of *buffer* is."""
    sized = Sizing(lambda size: at(size, sizes)).buffer(buffer)
    numbers = np.arange(sized.root.type.size)
    return as_strided(
        numbers[sized.offset :], sized.type.shape, tuple(8 * step for step in sized.strides)
    )


WHOLE = region("whole", n, m + 4)
WINDOWS = [
    window("begin", WHOLE, (n, m), 0),
    window("end", WHOLE, (n, 4), m),
    window("late", WHOLE, (n, 3), m + 1),
    window("fixed", WHOLE, (n, 4), 0),
    window("last", WHOLE, (n, 1), m + 3),
    window("row", WHOLE, (1, m + 4), 0),
    window("others", WHOLE, (n - 1, m + 4), m + 4),
    window("odd", WHOLE, (n, 2), 1, (m + 4, 2)),
    window("even", WHOLE, (n, 2), 0, (m + 4, 2)),
    window("back", WHOLE, (n, m), m - 1, (m + 4, -1)),
]


@pytest.mark.parametrize("left", WINDOWS, ids=str)
def test_windows_that_meet_for_some_sizes_may_overlap(left: View) -> None:
    for right in WINDOWS:
        for sizes in SETS:
            common = np.intersect1d(places_of(left, sizes), places_of(right, sizes))
            assert may_overlap(left, right) or not common.size, f"{right} for {sizes}"
    assert not N.guards and not M.guards


def test_parts_of_a_concat_do_not_overlap() -> None:
    begin, end, late, fixed, last, *_ = WINDOWS
    assert not may_overlap(begin, end)
    assert not may_overlap(begin, last)
    assert not may_overlap(late, begin)
    assert may_overlap(fixed, begin)
    assert may_overlap(late, fixed)  # not for all sizes


@pytest.mark.parametrize("left", WINDOWS, ids=str)
def test_no_window_leaves_its_interval(left: View) -> None:
    for sizes in SETS:
        places = places_of(left, sizes)
        if places.size:
            interval = tuple(at(end, sizes) for end in element_interval(left))
            assert interval == (places.min(), places.max())


VALUE = region("value", n, m, 4)
WIDE = region("wide", n, m + 2, 8)
PLACES = [
    window("lines", WIDE, (n, m, 4), 0),
    window("later", WIDE, (n, m, 4), 8 + 2),
    window("sparse", WIDE, (n, m, 4), 1, ((m + 2) * 8, 8, 2)),
    window("turned", region("turned", 4, n, m), (n, m, 4), 0, (m, 1, n * m)),
]
PARTS = [
    window("all", VALUE, (n * m, 4), 0, (4, 1)),
    window("half", VALUE, (n, m, 2), 2),
    window("line", VALUE, (n, 1, 4), 4 * (m - 1)),
    window("image", VALUE, (1, m, 4), (n - 1) * m * 4),
    window("pieces", VALUE, (n, m * 2, 2), 0, (4 * m, 2, 1)),
    window("backwards", VALUE, (n, m, 4), 4 * (m - 1), (4 * m, -4, 1)),
]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_view_of_what_moves_shows_the_same_elements(place: View) -> None:
    found = {part.name: rebased(part, VALUE, place) for part in PARTS}
    for part in PARTS:
        moved = found[part.name]
        for sizes in SETS if moved else ():
            seen = places_of(place, sizes).reshape(-1)[places_of(part, sizes)]
            np.testing.assert_array_equal(places_of(moved or part, sizes), seen)
    assert all(found[name] for name in ("half", "line", "image", "backwards"))
    assert not N.guards and not M.guards


def test_what_lies_around_a_part_stays_inside() -> None:
    part = window("part", VALUE, (n, m, 2), 2)
    laid = laid_around(window("place", WIDE, (n, m, 2), 3), part)
    assert laid is not None
    assert (laid.offset, laid.strides) == (1, ((m + 2) * 8, 8, 1))
    assert laid_around(window("place", WIDE, (n, m, 2), 1), part) is None  # it begins before
    assert not N.guards and not M.guards


def growing() -> Program:
    """Return a step of a decoder: what is new joins what is kept, all of which is read."""
    builder = Builder("step")
    kept = builder.input("kept", TensorType(ElementKind.FLOAT32, (2, n, 8)))
    new = builder.input("new", TensorType(ElementKind.FLOAT32, (2, 1, 8)))
    keys = builder.emit(ops.Concat((kept, builder.emit(ops.Softmax(new, axis=2))), axis=1))
    last = ops.Slice(keys, starts=(0, n, 0), stops=(2, n + 1, 8), steps=(1, 1, 1))
    builder.save(builder.emit(ops.Softmax(builder.emit(last), axis=2)), "y")
    builder.save(keys, "keys")
    return generate(builder.function())


def test_what_is_new_is_made_behind_what_is_kept() -> None:
    program = growing()
    after = run_passes(program, ("eliminate_slices", "eliminate_copies"))
    verify(after)
    assert [i.opcode for i in program.work].count("copy") == 4
    copies = [i for i in after.work if i.opcode == "copy"]
    assert len(copies) == 1  # of what is kept
    made, seen = (i for i in after.work if i.opcode == "softmax")
    assert is_same_memory(made.dest, seen.input)  # type: ignore[attr-defined]
    assert not N.guards
