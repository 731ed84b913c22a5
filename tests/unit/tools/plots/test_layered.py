"""Places of boxes in a drawn graph."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.tools.plots.layered import GAP, isotonic, lay_out

Sizes = dict[int, tuple[float, float]]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Sizes, list[tuple[int, int]]]:
    count = draw(st.integers(0, 12))
    sizes = {key: (draw(st.floats(5, 200)), draw(st.floats(5, 80))) for key in range(count)}
    pairs = list(combinations(range(count), 2))
    edges = draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []
    return sizes, edges


@given(graphs())
def test_boxes_do_not_touch_and_edges_go_down(graph: tuple[Sizes, list[tuple[int, int]]]) -> None:
    sizes, edges = graph
    layout = lay_out(sizes, edges)
    assert layout.centres.keys() == sizes.keys()
    for one, other in combinations(sizes, 2):
        (x, y), (u, v) = layout.centres[one], layout.centres[other]
        apart_x = abs(x - u) - (sizes[one][0] + sizes[other][0]) / 2
        apart_y = abs(y - v) - (sizes[one][1] + sizes[other][1]) / 2
        assert apart_x > GAP - 1e-6 or apart_y > 0
    for (source, target), bends in layout.bends.items():
        heights = [layout.centres[source][1], *(y for _, y in bends), layout.centres[target][1]]
        assert all(upper < lower for upper, lower in pairwise(heights))
    for key, (width, height) in sizes.items():
        x, y = layout.centres[key]
        assert width / 2 - 1e-6 <= x <= layout.width - width / 2 + 1e-6
        assert height / 2 - 1e-6 <= y <= layout.height - height / 2 + 1e-6


def test_what_reads_nothing_stands_right_above_its_reader() -> None:
    sizes = dict.fromkeys(("x", "a", "b", "w", "c"), (50.0, 20.0))
    layout = lay_out(sizes, [("x", "a"), ("a", "b"), ("b", "c"), ("w", "c")])
    assert layout.centres["w"][1] == layout.centres["b"][1]


def test_a_chain_is_straight_and_crossings_are_undone() -> None:
    sizes = dict.fromkeys("abcdef", (30.0, 20.0))
    chain = lay_out(sizes, list(pairwise("abcdef")))
    assert np.ptp([x for x, _ in chain.centres.values()]) < 1e-6
    crossed = lay_out(sizes, [("a", "d"), ("b", "c"), ("c", "e"), ("d", "f")])
    left = crossed.centres["a"][0] < crossed.centres["b"][0]
    assert (crossed.centres["d"][0] < crossed.centres["c"][0]) == left


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(0.1, 5)), min_size=1, max_size=9))
def test_isotonic_fit_is_ordered_and_the_nearest(pairs: list[tuple[float, float]]) -> None:
    targets, weights = zip(*pairs, strict=True)
    fitted = isotonic(targets, weights)
    assert all(left <= right for left, right in pairwise(fitted))

    def cost(values: list[float]) -> float:
        apart = np.array(values) - np.array(targets)
        return float((np.array(weights) * apart**2).sum())

    for index, step in ((i, s) for i in range(len(fitted)) for s in (-1e-3, 1e-3)):
        other = [*fitted[:index], fitted[index] + step, *fitted[index + 1 :]]
        if all(left <= right for left, right in pairwise(other)):
            assert cost(other) >= cost(fitted) - 1e-9
