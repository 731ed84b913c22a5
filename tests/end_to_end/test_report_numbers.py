"""What the pages of a report say of times, limits and memory, for numbers that are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from glow_nb.report.comparison import compared
from glow_nb.report.data import (
    Call,
    Compilation,
    Item,
    Life,
    Measurement,
    Memory,
    Part,
    PassRow,
    Report,
    Roof,
    Stage,
    Time,
)
from glow_nb.report.page import write_page
from tests.browsers import headless, resize
from tests.report_page import Page, key

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

US = 1e-6
NAMES = ("conv", "relu", "copy")
ROOF = Roof(
    peaks=(("multiply-adds of float32", 1e11), ("vpdpbusd", 4e11)),
    levels=(("L2", 1e11), ("L3", 1.1e10), ("DRAM", 1e10)),
    raised=("multiply-adds of float32",),
    machine=(("processor", "some-cpu"), ("threads", "2"), ("L2, 1.00 MiB", "read 100.00 GB/s")),
)


def stage(key: str, *items: Item) -> Stage:
    return Stage(key, key.capitalize(), "", items)


def item(name: str, kind: str, *origins: int) -> Item:
    return Item(name, kind, "float32<4>", f"{kind} %{name}", origins)


def call(instruction: int, kernel: int, time: Time, flops: int = 1_000_000) -> Call:
    return Call(instruction, kernel, "", 2, 5000.0, 0, flops, flops // 2, 0, 4096, 4096, time=time)


def part(program: tuple[Item, ...], times: tuple[Time, ...], run: Measurement) -> Part:
    model = stage("model", *(item(name, name.capitalize(), n) for n, name in enumerate(NAMES)))
    kernels = stage(
        "kernels",
        *(Item(f"glow_{n}", one.kind, "", "", one.origins, (n,)) for n, one in enumerate(program)),
    )
    stages = (model, stage("graph"), stage("lowered"), stage("program", *program), kernels)
    calls = tuple(call(n, n, time) for n, time in enumerate(times))
    lives = (
        Life("first", "float32<4>", "conv", 0, 2, 0, 1 << 20, (0, 1)),
        Life("tiny", "float32<1>", "copy", 1, 2, 1 << 20, 64, (1,)),
    )
    passes = (
        PassRow("fold", "graph", 0.1, True, 1, 1, items=4, lines=("-a", "+b")),
        PassRow("generate", "program", 0.1, True, items=2, lines=("@ made of a graph",)),
    )
    memory = Memory(arena=(1 << 20) + 64, lower_bound=1 << 20, lives=lives)
    sources = ("",) * len(program)
    return Part("", stages, calls, sources, passes, memory=memory, measurement=run)


def run(plain: float, median: float) -> Measurement:
    """Return times whose runs with time stamps are 2 us shorter, as the call is not in them."""
    stamped = ((plain - 2) * US, (median - 2) * US)
    return Measurement(9, *stamped, plain * US, "random numbers", ROOF, median * US, True)


SLOW = Time(20 * US, 21 * US, 5 * US, "memory", "", "DRAM")
RAISED = Time(10 * US, 11 * US, 12 * US, "arithmetic")
APART = (item("conv", "conv", 0), item("relu", "relu", 1), item("copy", "copy", 2))
FUSED = (item("relu", "conv + relu", 0, 1), item("copy", "copy", 2))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with headless(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, browser: Chrome) -> Path:
    """Return a folder with a report of two kernels, and a comparison with three."""
    del browser  # which skips the tests if it is missing
    folder = tmp_path_factory.mktemp("pages")
    fused = Compilation("fused", (), (part(FUSED, (RAISED, SLOW), run(40, 45)),))
    apart = Compilation("apart", (), (part(APART, (RAISED, SLOW, SLOW), run(44, 60)),))
    write_page(Report("one", "1", (fused,)), folder / "one.html")
    names = tuple(f"{'long_' * 20}{end}" for end in ("quantize", "requantize"))
    long = tuple(item(name, "conv", 0) for name in names)
    roof = replace(ROOF, levels=(("L1", 2e11), ("L2", 1.2e11), ("DRAM", 1e10)))
    near = replace(run(40, 45), roof=roof)
    named = Compilation("long", (), (part(long, (RAISED, SLOW), near),))
    write_page(Report("long", "1", (named,)), folder / "long.html")
    write_page(Report("two", "1", (apart, fused), compared(apart, fused)), folder / "two.html")
    return folder


def cells(page: Page, title: str) -> dict[str, list[str]]:
    """Return the rows of the table below the heading *title*, by their first cells."""
    boxes = page.all(".panel")
    titles = [each.text.partition("\n")[0] for each in boxes]
    page.require_no_errors()
    assert title in titles
    box = boxes[titles.index(title)]
    rows = [
        row.find_elements("css selector", "td") for row in box.find_elements("css selector", "tr")
    ]
    return {row[0].text: [cell.text for cell in row[1:]] for row in rows if row}


def drawn_width(browser: Chrome) -> float:
    """Return the width that the first chart is drawn for: letters have their size in this one."""
    width: float = browser.execute_script(
        "return document.querySelector('svg').viewBox.baseVal.width"
    )
    return width


def test_the_overview_says_what_each_time_is_and_shows_the_machine(
    browser: Chrome, pages: Path
) -> None:
    page = Page(browser, pages / "one.html")
    said = page.text("main > .faint")
    assert "with the call from Python: shortest run 40.0 µs, median 45.0 µs." in said
    assert "without the call: shortest run 38.0 µs, median 43.0 µs." in said
    assert "Kernels alone: 30.0 µs" in said
    assert "The limits of all kernels add up to 15.0 µs." in said
    assert "50 %" in page.text(".tiles")
    machine = cells(page, "Machine")
    assert machine["peak of multiply-adds of float32"] == [
        "100 GFLOP/s, raised to what a kernel reached"
    ]
    assert machine["processor"] == ["some-cpu"]
    page.require_no_errors()


def test_raised_limits_and_levels_of_the_memory_are_named(browser: Chrome, pages: Path) -> None:
    page = Page(browser, pages / "one.html", "#kernels/0/0/program/0")
    first, second = page.texts(".stage .row")
    assert "arithmetic, raised" in first
    assert "memory, DRAM" in second
    costs = cells(page, "What instruction relu costs (2 nodes)")
    assert costs["limit of the machine"] == [
        "raised to 10.0 µs: the kernel was faster than the measured limit of 12.0 µs, arithmetic"
    ]
    assert "peak of multiply-adds of float32, raised" in page.text("svg")
    assert "L3 and DRAM" in page.text("svg")


@pytest.mark.parametrize("width", [390, 1440])
def test_the_name_of_a_level_is_below_its_own_line(
    browser: Chrome, pages: Path, width: int
) -> None:
    page = Page(browser, pages / "long.html", "#kernels/0/0")
    resize(browser, width)
    page.wait(lambda: drawn_width(browser) < width)
    lines, names = browser.execute_script(
        "const all = (which) => [...document.querySelectorAll(which)];"
        "const numbers = (one, keys) => keys.map((key) => Number(one.getAttribute(key)));"
        "return [all('svg .level').map((line) => numbers(line, ['x1', 'y1', 'x2', 'y2'])),"
        " all('svg .on-lines').map((text) => [text.textContent, numbers(text, ['x', 'y'])])]"
    )
    for number, name in enumerate(("L1", "L2", "DRAM")):
        x, y = dict(names)[name]
        heights = [y1 + (y2 - y1) * (x - x1) / (x2 - x1) for x1, y1, x2, y2 in lines]
        above = {height: n for n, height in enumerate(heights) if height < y - 8}
        assert above[max(above)] == number, name


def test_a_point_of_the_chart_leads_to_the_details_of_its_kernel(
    browser: Chrome, pages: Path
) -> None:
    page = Page(browser, pages / "one.html", "#kernels/0/0")
    resize(browser, 900, 500)
    page.wait(lambda: drawn_width(browser) < 900)  # the chart is drawn anew
    page.all("svg .point")[1].click()
    assert page.text(".item h2") == "Program: copy"
    top = browser.execute_script(
        "return document.querySelector('.item').getBoundingClientRect().top"
    )
    assert 0 <= top < 400


def test_a_second_click_turns_the_order_around(browser: Chrome, pages: Path) -> None:
    page = Page(browser, pages / "one.html", "#kernels/0/0")
    for sign, direction, order in (
        ("above limit", "descending", ["1", "0"]),
        ("above limit", "ascending", ["0", "1"]),
        ("#", "ascending", ["0", "1"]),
        ("#", "descending", ["1", "0"]),
    ):
        page.click(".heads button", sign)
        assert page.text(f'.heads [aria-sort="{direction}"]') == sign
        assert [row.split()[0] for row in page.texts(".stage .row")] == order


def test_a_step_between_levels_says_what_it_makes(browser: Chrome, pages: Path) -> None:
    page = Page(browser, pages / "one.html", "#passes/0/0")
    assert "makes 2 instructions of the graph" in page.texts(".row")[1]


def test_the_memory_map_names_all_writers_and_its_choice_is_in_the_address(
    browser: Chrome, pages: Path
) -> None:
    page = Page(browser, pages / "one.html", "#memory/0/0")
    browser.execute_script(
        "document.querySelector('.life').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert browser.current_url.endswith("#memory/0/0/life/0")
    assert page.text("#life").count("relu") + page.text("#life").count("copy") >= 2
    heights = [float(each.get_attribute("height") or 0) for each in page.all(".life")]
    assert min(heights) >= 4
    page.one(".map").send_keys(key("END"))
    page.wait(lambda: page.text("#life h2") == "tiny")
    before = browser.execute_script("return document.querySelector('.map').scrollLeft")
    page.click("button", "Wider")
    page.click("button", "Wider")
    assert browser.execute_script("return document.querySelector('.map').scrollLeft") > before
    page.click("#views a", "Kernels")
    browser.back()
    page.wait(lambda: bool(page.all("#life h2")) and page.text("#life h2") == "tiny")
    page.require_no_errors()


def test_charts_and_columns_follow_the_width_of_the_window(browser: Chrome, pages: Path) -> None:
    page = Page(browser, pages / "one.html", "#kernels/0/0")
    page.one("input[type=search]").send_keys("copy")
    resize(browser, 390)
    page.wait(lambda: drawn_width(browser) < 390)
    assert page.one("svg").size["width"] == pytest.approx(drawn_width(browser), abs=1)
    assert page.one("input[type=search]").get_attribute("value") == "copy"
    assert len(page.all(".stage .row")) == 1
    assert page.width_beyond_sight() <= 0
    resize(browser, 1440)
    page.wait(lambda: drawn_width(browser) > 1000)


def test_the_ends_of_long_names_are_in_sight(browser: Chrome, pages: Path) -> None:
    page = Page(browser, pages / "long.html", "#stages/0/0/program/0")
    assert [name[-10:] for name in page.names("program")] == ["g_quantize", "requantize"]
    for width in (390, 1440):
        resize(browser, width)
        cut = browser.execute_script(
            "const right = (element) => element.getBoundingClientRect().right;"
            "const ends = [...document.querySelectorAll('[data-stage=program] .end')];"
            "return ends.map((end) => right(end) > right(end.closest('.name')) + 1)"
        )
        assert cut == [False, False]
    page.require_no_errors()


def test_differences_of_time_are_those_beyond_noise_and_of_the_same_nodes(
    browser: Chrome, pages: Path
) -> None:
    page = Page(browser, pages / "two.html")
    numbers = cells(page, "In numbers")
    assert numbers["a run, shortest"] == ["44.0 µs", "40.0 µs", "within noise"]
    assert numbers["all kernels, shortest"] == ["50.0 µs", "30.0 µs", "0.60 ×"]
    assert numbers["time in passes"] == ["200 ms", "200 ms", ""]
    assert page.text('.bar [aria-pressed="true"]') == "Program"
    rows = [row.splitlines() for row in page.texts(".stage .row")]
    assert [row[0] for row in rows] == ["≠", "−"]
    assert [row[1] for row in rows] == ["conv", "relu"]  # conv is paired with conv + relu
    assert all("−20.0 µs" in row for row in rows)
    page.click(".stage .row", "conv")
    assert browser.current_url.endswith("#comparison/0/0/program/0")
    assert "Instructions of the same nodes: 30.0 µs and 10.0 µs, −20.0 µs" in page.text("#main")
    page.click(".stage .row", "—")
    assert "Its nodes are computed by relu." in page.text("#main")
    browser.back()
    page.wait(lambda: browser.current_url.endswith("#comparison/0/0/program/0"))
    page.require_no_errors()


@pytest.mark.parametrize("width", [390, 900, 1440])
def test_tables_of_a_comparison_are_in_sight(browser: Chrome, pages: Path, width: int) -> None:
    Page(browser, pages / "two.html")
    resize(browser, width)
    browser.get("about:blank")
    browser.get((pages / "two.html").as_uri())
    cut = browser.execute_script(
        "const boxes = [...document.querySelectorAll('.scroll')];"
        "return boxes.filter((box) => box.scrollWidth > box.clientWidth)"
        ".map((box) => box.parentElement.textContent.slice(0, 30))"
    )
    assert cut == []
