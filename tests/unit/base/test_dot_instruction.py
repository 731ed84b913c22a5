"""Kernels that use registers for whole matrices are known by their source."""

import pytest

from glow_nb.base.dot_instruction import uses_matrix_registers


@pytest.mark.parametrize(
    "name",
    ["tdpbf16ps", "tdpbusd", "tdpbssd", "tdpbsud", "tdpbuud"],
)
def test_a_kernel_that_calls_such_a_dot_uses_them(name: str) -> None:
    assert uses_matrix_registers(f"    tile_dot_{name}(tiles, x, 0)\n")


def test_other_dots_do_not() -> None:
    text = "# like tile_dot_tdpbusd\ntile_dot_vpdpbusd(t, x)\ntile_dot(t, x)\nmy_tile_dot_tdpx(t)"
    assert not uses_matrix_registers(text)
