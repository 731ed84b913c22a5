"""The estimate that decides how products are computed: what it must never get wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glow_nb.kernels.products.convolution_cost import convolution_candidates, product_candidates
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.matmul import MatMulShape
from glow_nb.kernels.target import Target
from glow_nb.types import ElementKind

FLOAT32 = ElementKind.FLOAT32
TARGET = Target("x86_64-unknown-linux-gnu", "znver4", "+avx,+avx2,+fma", 8)


def layer(size: int, channels: int, depth: int, taps: int = 3, stride: int = 1) -> ConvolutionShape:
    pads = (taps // 2,) * 4
    two = (taps, taps), (stride, stride)
    return ConvolutionShape(1, channels, depth, (size, size), *two, pads, (1, 1))


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        (layer(56, 64, 64), (4, 4)),
        (layer(56, 256, 256), (4, 4)),
        (layer(14, 512, 512), (4, 4)),
        (layer(224, 3, 64), None),  # too few channels for the transforms to pay
        (layer(224, 3, 64, taps=7, stride=2), None),
        (layer(56, 64, 256, taps=1), None),
    ],
)
def test_clear_cases(shape: ConvolutionShape, tile: tuple[int, ...] | None) -> None:
    assert convolution_candidates(shape, FLOAT32, TARGET)[0].tile == tile


def test_the_least_estimate_is_first() -> None:
    ways = convolution_candidates(layer(28, 96, 100), FLOAT32, TARGET, blocks=3)
    assert len({(way.tile, way.block) for way in ways}) == len(ways) > 5
    assert [way.cycles for way in ways] == sorted(way.cycles for way in ways)
    products = product_candidates(MatMulShape(1, 50, 64, 100), FLOAT32, TARGET, blocks=3)
    assert len({way.block for way in products}) == 3


def test_two_threads_get_panels_that_divide_by_two() -> None:
    alone, shared = (
        convolution_candidates(layer(14, 256, 256), FLOAT32, TARGET, blocks=3, threads=threads)
        for threads in (1, 2)
    )
    assert -(-256 // alone[0].block) % 2 == 1
    assert -(-256 // shared[0].block) % 2 == 0
    assert alone[0].cycles / 2 < shared[0].cycles < alone[0].cycles


def test_memory_is_shared_where_the_arithmetic_is_not() -> None:
    """Larger tiles save products, but their 36 MiB of weights take longer than those come in."""
    alone, shared = (
        convolution_candidates(layer(7, 512, 512), FLOAT32, TARGET, blocks=3, threads=threads)[0]
        for threads in (1, 2)
    )
    assert (alone.tile, shared.tile) == ((4, 4), (2, 4))


def test_winograd_can_be_forbidden_and_is_for_float32_alone() -> None:
    shape = layer(56, 64, 64)
    for kind, winograd in ((FLOAT32, False), (ElementKind.FLOAT64, True)):
        ways = convolution_candidates(shape, kind, TARGET, winograd=winograd)
        assert [way.tile for way in ways] == [None]


def test_more_work_takes_longer() -> None:
    shape = layer(28, 64, 64)
    larger = [
        replace(shape, batch=2),
        replace(shape, channels=128),
        replace(shape, depth=128),
        replace(shape, input=(56, 28)),
    ]
    base = {way.tile: way.cycles for way in convolution_candidates(shape, FLOAT32, TARGET)}
    for other in larger:
        for way in convolution_candidates(other, FLOAT32, TARGET):
            assert way.cycles > base[way.tile]


def test_a_product_of_one_row_takes_as_long_as_its_weights_take_from_memory() -> None:
    (way,) = product_candidates(MatMulShape(1, 1, 4096, 4096), FLOAT32, TARGET)
    assert 4 * 4096 * 4096 / 16 < way.cycles < 4 * 4096 * 4096 / 6


def test_nothing_to_do_has_an_estimate_too() -> None:
    empty = replace(layer(8, 4, 4), batch=0)
    assert convolution_candidates(empty, FLOAT32, TARGET)[0].cycles >= 0


def test_a_matrix_that_is_read_once_is_not_laid_out_in_panels() -> None:
    for rows, block in ((1, 64), (2, 64), (400, 32)):
        shape = MatMulShape(12, rows, 256, 64)
        assert product_candidates(shape, FLOAT32, TARGET, is_laid_out=False)[0].block == block
    assert product_candidates(MatMulShape(12, 1, 256, 64), FLOAT32, TARGET)[0].block < 64
    odd = product_candidates(MatMulShape(12, 1, 256, 60), FLOAT32, TARGET, is_laid_out=False)
    assert odd[0].block % TARGET.lanes == 0
