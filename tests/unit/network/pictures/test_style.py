"""Colours and units of pictures."""

from __future__ import annotations

import pytest

style = pytest.importorskip("glow_nb.network.pictures.style", exc_type=ImportError)


@pytest.mark.parametrize(
    ("sizes", "unit"),
    [
        ([], ("B", 1)),
        ([0, 1000], ("B", 1)),
        ([12, 5000], ("KiB", 1 << 10)),
        ([1 << 20, 3], ("MiB", 1 << 20)),
        ([2 << 40], ("TiB", 1 << 40)),
        ([5 << 50], ("TiB", 1 << 40)),
    ],
)
def test_all_sizes_of_a_picture_have_the_unit_of_the_largest(
    sizes: list[int], unit: tuple[str, int]
) -> None:
    assert style.byte_unit(sizes) == unit


@pytest.mark.parametrize(
    ("seconds", "unit"), [(2.0, "s"), (0.5, "ms"), (1e-3, "ms"), (9e-4, "µs"), (0.0, "µs")]
)
def test_a_span_has_the_unit_that_suits_it(seconds: float, unit: str) -> None:
    assert style.time_unit(seconds)[0] == unit


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (10.0, "10.0"),
        (2.9, "2.90"),
        (0, "0"),
        (0.0123, "0.0123"),
        (1234.5, "1234"),
        (999.9, "1000"),
    ],
)
def test_numbers_beside_bars_have_three_digits(number: float, text: str) -> None:
    assert style.three_digits(number) == text


def test_text_has_contrast_on_each_colour() -> None:
    colours = [*style.PALETTE, style.REST, *style.ENGINES.values(), "white", "black"]
    for colour in colours:
        lighter, darker = sorted(
            (style._luminance(colour), style._luminance(style.ink_on(colour))), reverse=True
        )
        assert (lighter + 0.05) / (darker + 0.05) > 3.5, colour


def test_colours_are_told_apart_by_those_who_see_no_red_or_no_green() -> None:
    """Distances in the plane of what is left of a colour, by the matrices of Viénot (1999)."""
    np = pytest.importorskip("numpy")
    to_rgb = pytest.importorskip("matplotlib.colors").to_rgb
    blind_to_red = np.array([[0.1124, 0.8876, 0], [0.1124, 0.8876, 0], [0.004, -0.004, 1]])
    blind_to_green = np.array([[0.2928, 0.7072, 0], [0.2928, 0.7072, 0], [-0.0223, 0.0223, 1]])
    for matrix in (blind_to_red, blind_to_green):
        seen = [matrix @ np.array(to_rgb(colour)) for colour in style.PALETTE]
        for place, one in enumerate(seen):
            for other in seen[:place]:
                assert np.linalg.norm(one - other) > 0.1


@pytest.mark.parametrize(("limits", "text"), [((0.3, 2.0), "0.6"), ((0.05, 2000.0), "100")])
def test_numbers_of_logarithmic_axes_are_no_formulas(
    limits: tuple[float, float], text: str
) -> None:
    agg = pytest.importorskip("matplotlib.backends.backend_agg")
    with style.own_style():
        figure = pytest.importorskip("matplotlib.figure").Figure()
        agg.FigureCanvasAgg(figure)
        axes = figure.subplots()
        axes.set(yscale="log", ylim=limits)
        style.plain_numbers(axes.yaxis)
        figure.canvas.draw()
        written = [label.get_text() for label in axes.get_yticklabels(which="both")]
    assert text in written and not any("$" in label for label in written)
