"""Copies through views of any steps, of every kind."""

from typing import Any

import numpy as np
import pytest

from glow_nb.base.types import ElementKind
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import Buffer, View
from tests.in_turn import one_in
from tests.unit.kernels.running import RunningKernel
from tests.unit.kernels.stacks.buffers import FLOAT32, TARGETS, buffer_of


def _view(base: Buffer, shape: tuple[int, ...], start: int, steps: tuple[int, ...]) -> View:
    return View("view", base.type.with_shape(shape), base=base, start=start, steps=steps)


def _copied(dest: Buffer, src: Buffer, target: Target) -> tuple[Any, Any]:
    """Return the region of *dest* after a copy into it, and what NumPy makes of the same copy."""
    kernel = RunningKernel(generate_kernel(CopyInst(dest, src), target), target)
    kind = dest.type.kind
    dtype = (
        np.dtype(np.uint8) if kind.is_storage else kind.dtype
    )  # NumPy cannot stride all of these
    numbers = np.arange(src.root.type.size).astype(dtype)
    regions = []
    for threads in (1, 3):
        region = np.full(dest.root.type.size, 99, dtype)
        kernel(
            region.view(kind.dtype)[dest.offset :],
            numbers.view(kind.dtype)[src.offset :],
            threads=threads,
        )
        regions.append(region)
    assert regions[0].tobytes() == regions[1].tobytes()
    wanted = np.full(dest.root.type.size, 99, dtype)
    _window(wanted, dest)[...] = _window(numbers, src)
    return regions[0], wanted


def _window(memory: Any, buffer: Buffer) -> Any:
    steps = [step * memory.itemsize for step in buffer.strides]
    return np.lib.stride_tricks.as_strided(memory[buffer.offset :], buffer.type.shape, steps)


VIEWS = [
    # channels 3 to 7 of 16, as Concat along the last axis writes them
    (_view(buffer_of(2, 9, 16), (2, 9, 5), 3, (144, 16, 1)), buffer_of(2, 9, 5)),
    # rows 2 to 4, as Split along an outer axis reads them
    (buffer_of(3, 40), _view(buffer_of(9, 40), (3, 40), 80, (40, 1))),
    # every second column, backwards
    (buffer_of(6, 10), _view(buffer_of(6, 20), (6, 10), 19, (20, -2))),
    # the rows of an image upside down
    (buffer_of(5, 33), _view(buffer_of(5, 33), (5, 33), 132, (-33, 1))),
    # a matrix, repeated and transposed
    (buffer_of(3, 4, 70), _view(buffer_of(4, 70), (3, 4, 70), 0, (0, 70, 1))),
    (buffer_of(17, 9), _view(buffer_of(9, 17), (17, 9), 0, (1, 17))),
    (_view(buffer_of(17, 9), (9, 17), 0, (1, 9)), _view(buffer_of(19, 9), (9, 17), 0, (1, 9))),
]


@pytest.mark.jit
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.lanes}-lanes")
@pytest.mark.parametrize(("dest", "src"), VIEWS)
def test_copy_goes_through_views(dest: Buffer, src: Buffer, target: Target) -> None:
    found, wanted = _copied(dest, src, target)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.jit
@pytest.mark.parametrize("kind", one_in(4, ElementKind, always=[FLOAT32]))
def test_copy_moves_every_kind(kind: ElementKind) -> None:
    found, wanted = _copied(buffer_of(7, 37, kind=kind), buffer_of(7, 37, kind=kind), Target.host())
    assert found.tobytes() == wanted.tobytes()
