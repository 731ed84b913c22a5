"""Which items of two compilations belong together."""

from __future__ import annotations

from glow_nb.report.comparison import compared
from glow_nb.report.data import STAGES, Compilation, Item, Match, Part, Stage


def compilation(title: str, *items: Item) -> Compilation:
    names = ("conv", "bn", "relu", "pool")
    model = tuple(Item(name, name, "", name, (n,)) for n, name in enumerate(names))
    stages = [Stage(key, key, "", model if key == "model" else ()) for key in STAGES]
    stages[2] = Stage("lowered", "lowered", "", items)
    return Compilation(title, (("threads", title), ("same", "1")), (Part("", tuple(stages)),))


def lowered(left: Compilation, right: Compilation) -> tuple[Match, ...]:
    return compared(left, right).stages["lowered"]


def test_items_of_one_name_belong_together() -> None:
    left = compilation(
        "1", Item("conv", "convolution", "", "a", (0,)), Item("relu", "relu", "", "r")
    )
    right = compilation("2", Item("conv", "packed", "", "b", (0,)), Item("relu", "relu", "", "r"))
    assert lowered(left, right) == (Match(0, 0, False), Match(1, 1, True))


def test_items_that_do_the_same_work_belong_together() -> None:
    left = compilation(
        "1", Item("a", "convolution", "", "x", (0, 1)), Item("p", "pool", "", "p", (3,))
    )
    right = compilation(
        "2", Item("b", "convolution", "", "y", (0, 1)), Item("q", "pool", "", "p", (2,))
    )
    assert lowered(left, right) == (Match(0, 0, False), Match(-1, 1), Match(1, -1))


def test_work_of_another_kind_belongs_together_where_nothing_else_does() -> None:
    left = compilation("1", Item("a", "winograd", "", "x", (0,)))
    right = compilation("2", Item("b", "direct", "", "y", (0,)))
    assert lowered(left, right) == (Match(0, 0, False),)


def test_a_fused_product_belongs_to_the_product() -> None:
    product, reader = Item("conv", "conv", "", "x", (0,)), Item("relu", "relu", "", "r", (2,))
    fused = Item("relu", "conv + relu", "", "y", (0, 2))
    left, right = compilation("1", product, reader), compilation("2", fused)
    assert lowered(left, right) == (Match(0, 0, False), Match(1, -1))
    assert lowered(right, left) == (Match(0, 0, False), Match(-1, 1))


def test_the_same_kind_counts_more_than_the_number_of_common_nodes() -> None:
    left = compilation("1", Item("a", "pool", "", "x", (0, 1, 2)))
    right = compilation(
        "2", Item("b", "conv", "", "y", (0, 1, 2)), Item("c", "pool", "", "z", (2,))
    )
    assert lowered(left, right) == (Match(-1, 0), Match(0, 1, False))


def test_quantized_items_belong_to_those_whose_names_they_extend() -> None:
    left = compilation("1", Item("r_1", "conv + relu", "", "x"), Item("r_2", "conv", "", "x"))
    right = compilation(
        "2", Item("r_2_quantize", "conv + round", "", "y"), Item("r_1_q_r", "conv", "", "z")
    )
    assert lowered(left, right) == (Match(0, 1, False), Match(1, 0, False))
    assert lowered(right, left) == (Match(0, 1, False), Match(1, 0, False))


def test_new_items_stand_behind_what_they_follow() -> None:
    left = compilation("1", Item("conv", "c", "", "c"), Item("relu", "r", "", "r"))
    right = compilation(
        "2", Item("new", "n", "", "n"), Item("conv", "c", "", "c"), Item("more", "m", "", "m")
    )
    found = lowered(left, right)
    assert found == (Match(-1, 0), Match(0, 1, True), Match(-1, 2), Match(1, -1))


def test_facts_of_both_stand_side_by_side() -> None:
    assert compared(compilation("1"), compilation("2")).facts == (
        ("threads", "1", "2"),
        ("same", "1", "1"),
    )
