"""How sums over low-bit weights are cut."""

import pytest

from glow_nb.base.errors import UnsupportedError
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.products.coded_weights import CodedWeights
from glow_nb.kernels.target import Target
from tests.unit.kernels.stacks.test_in_place import product_of_codes


@pytest.mark.parametrize(
    ("inner", "bits", "size", "limit", "unit"),
    [
        (4096, 4, 32, 128, 32),  # whole blocks
        (4096, 4, 256, 100, 64),  # equal parts of a block
        (4096, 8, 4096, 100, 100),  # one scale a column: any rows
        (4096, 4, 4096, 100, 96),  # whole words of them
        (8 * 509 * 2, 4, 8 * 509, 100, 8 * 509),  # no part of about so many
        (24, 4, 24, 100, 24),
    ],
)
def test_a_piece_has_one_scale_or_whole_blocks(
    inner: int, bits: int, size: int, limit: int, unit: int
) -> None:
    codes = CodedWeights(inner, bits, size, in_registers=False)
    assert codes.unit(limit) == unit


@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.parametrize("size", [16, 32, 96, 480, 960])
@pytest.mark.parametrize("limit", [20, 100, 380])
def test_pieces_cover_all_rows_and_none_straddles_a_block(
    in_registers: bool, size: int, limit: int
) -> None:
    codes = CodedWeights(960, 4, size, in_registers)
    sum = codes.reduction(1, limit)
    pieces = sum.inner[0].count if in_registers else sum.blocks
    assert (pieces - 1) * sum.dot < codes.inner <= pieces * sum.dot
    assert size % sum.dot == 0 or sum.dot % size == 0 or codes.blocks == 1


def test_panels_that_are_no_whole_vectors_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="panels of 3 columns: no kernel"):
        generate_kernel(product_of_codes(3, 9, block=3), Target.host())
