"""Integer expressions as text."""

import pytest

from glow_nb.kernels.writing.index_text import index_text, plus, times


@pytest.mark.parametrize(
    ("names", "strides", "offset", "text"),
    [
        (["i", "j"], [12, 1], 0, "i * 12 + j"),
        (["i", "j"], [0, 4], 3, "j * 4 + 3"),
        (["i"], [0], 0, "0"),
        (["0", "j"], [5, 1], 0, "j"),
        ([], [], 7, "7"),
    ],
)
def test_indices_are_written_without_what_is_zero(
    names: list[str], strides: list[int], offset: int, text: str
) -> None:
    assert index_text(names, strides, offset) == text


def test_sums_leave_out_zeros() -> None:
    assert plus("0", "i", "0", "4") == "i + 4"
    assert plus("0", "0") == "0"
    assert plus(0, -3) == "-3"


def test_a_negative_number_is_subtracted() -> None:
    assert plus("i", -3, 4) == "i - 3 + 4"


def test_products_leave_out_one_and_zero() -> None:
    assert (times("i", 1), times("i", 0), times("0", 5)) == ("i", "0", "0")
    assert times("(i + j)", 3) == "(i + j) * 3"
