"""Reports in a browser: clicked through, with mouse and keys, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_nb
from glow_nb.report.data import STAGES, Call, Compilation, Item, Life, Memory, Part, Report, Stage
from glow_nb.report.page import write_page
from tests.browsers import headless, prefer, resize
from tests.report_page import Page, key

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.jit
WICKED = "</script><img src=x onerror=\"document.title='broken'\">\u2028'quoted'"
MANY = 2000


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with headless(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, browser: Chrome) -> Path:
    """Return a folder with a report, a comparison, and a report of many nodes."""
    del browser  # which skips the tests if it is missing
    folder = tmp_path_factory.mktemp("pages")
    model = write_model(folder / "model.onnx")
    net = glow_nb.compile(str(model), threads=1)
    net.report(folder / "report.html", runs=2, title="one")
    low = glow_nb.compile(str(model), threads=1, precision="bfloat16", backend="interpreter")
    low.report(folder / "comparison.html", runs=0, against=net, title="fewer bits")
    write_page(many_nodes(), folder / "many.html")
    return folder


def write_model(path: Path) -> Path:
    """Write two layers, the second of which has a wicked name."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal((64, 64), np.float32), f"w{n}") for n in (0, 1)
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["first"], name="first"),
        helper.make_node("Relu", ["first"], ["positive"], name="positive"),
        helper.make_node("MatMul", ["positive", "w1"], ["second"], name=WICKED),
        helper.make_node("Softmax", ["second"], ["y"], name="last"),
    ]
    taken = helper.make_tensor_value_info("x", TensorProto.FLOAT, [32, 64])
    given = helper.make_tensor_value_info("y", TensorProto.FLOAT, [32, 64])
    graph = helper.make_graph(nodes, "layers", [taken], [given], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def many_nodes() -> Report:
    """Return a report as large as that of a network of :data:`MANY` nodes."""
    items = tuple(
        Item(f"node_{n}", "relu", "float32<64>", f"%node_{n} = relu()", (n,), (n,))
        for n in range(MANY)
    )
    lives = tuple(
        Life(f"node_{n}", "float32<64>", "relu", n, n + 2, 64 * (n % 2), 64)
        for n in range(MANY - 2)
    )
    calls = tuple(Call(n, n, "", 1, 1.0, 0, 64, 64, 0, 256, 256) for n in range(MANY))
    stages = tuple(Stage(key, key, key, items) for key in STAGES)
    memory = Memory(arena=128, lower_bound=128, lives=lives)
    part = Part("", stages, calls, sources=("",) * MANY, memory=memory)
    return Report("many", "1", (Compilation("many", (), (part,)),))


def test_two_clicks_lead_from_a_node_to_the_source_of_its_kernel_and_back(
    browser: Chrome, pages: Path
) -> None:
    page = Page(browser, pages / "report.html", "#stages/0/0")
    page.click('[data-stage="model"] .row', "first")
    assert page.names("model", ".selected") == ["first"]
    (kernel,) = page.names("kernels", ".related")
    assert "def kernel(" in page.text(".kernel-source pre")
    page.click(".trail button", kernel)
    assert page.names("kernels", ".selected") == [kernel]
    assert set(page.names("model", ".related")) == {"first", "positive"}
    page.click(".trail button", "first")
    assert page.names("model", ".selected") == ["first"]
    browser.back()
    page.wait(lambda: page.names("kernels", ".selected") == [kernel])
    page.require_no_errors()


def test_names_of_a_model_are_text(browser: Chrome, pages: Path) -> None:
    page = Page(browser, pages / "report.html", "#stages/0/0")
    assert any(name.startswith("</script><img src=x") for name in page.names("model"))
    page.click('[data-stage="model"] .row', "</script>")
    assert page.text(".item h2").startswith("Model: </script><img src=x onerror=")
    for view in ("kernels", "passes", "weights", "memory", "overview"):
        page.click("#views a", view.capitalize())
        assert not page.all("#main img")
    assert browser.title == "one"
    page.require_no_errors()


def test_search_goes_through_all_stages(browser: Chrome, pages: Path) -> None:
    page = Page(browser, pages / "report.html", "#stages/0/0")
    page.press("/")
    page.press("softmax")
    assert page.names("model") == ["last"]
    assert page.texts('[data-stage="kernels"] .about') == ["softmax · 1 call: 2"]
    assert page.texts(".stage .count")[0] == "1 of 4"
    page.press(key("ENTER"))
    assert page.names("model", ".selected") == ["last"]
    page.one("input[type=search]").clear()
    page.one("input[type=search]").send_keys("nothing is called like this")
    assert page.text('[data-stage="model"] .empty') == "Nothing is found."


def test_keys_move_through_a_stage_and_to_the_next_one(browser: Chrome, pages: Path) -> None:
    page = Page(browser, pages / "report.html", "#stages/0/0")
    page.click('[data-stage="model"] .row', "first")
    page.press(key("ARROW_DOWN"))
    assert page.names("model", ".selected") == ["positive"]
    page.press(key("ARROW_RIGHT"))
    assert page.names("graph", ".selected") == ["positive"]
    page.press(key("ARROW_RIGHT"), key("ARROW_RIGHT"), key("ARROW_RIGHT"))
    assert len(page.names("kernels", ".selected")) == 1
    assert browser.switch_to.active_element.get_attribute("role") == "listbox"


def test_the_memory_map_tells_what_the_mouse_and_the_keys_are_on(
    browser: Chrome, pages: Path
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    page = Page(browser, pages / "report.html", "#memory/0/0")
    ActionChains(browser).move_to_element(page.one(".life")).perform()
    told = page.text("#tooltip")
    assert "8.00 KiB at offset" in told
    assert "lives from instruction" in told
    page.one(".map").send_keys(key("ARROW_RIGHT"))
    assert "offset" in page.text("#life")
    page.click("#life button", "second")
    assert page.names("program", ".selected")


def test_passes_show_lines_before_and_after(browser: Chrome, pages: Path) -> None:
    page = Page(browser, pages / "report.html", "#passes/0/0")
    page.click(".row", "select_packed_operators")
    assert any("packed_mat_mul" in line.text for line in page.all(".diff .new"))
    assert any("mat_mul(" in line.text for line in page.all(".diff .gone"))
    count = len(page.all(".row"))
    page.one("input[type=checkbox]").click()
    assert len(page.all(".row")) > count
    page.click("button", "Slowest first")
    page.require_no_errors()


def test_kernels_have_times_plans_and_alternatives(browser: Chrome, pages: Path) -> None:
    page = Page(browser, pages / "report.html", "#kernels/0/0")
    assert len(page.all("svg .point")) >= 2
    page.click(".heads button", "time")
    assert page.text('.heads [aria-sort="descending"]') == "time"
    page.click(".row", "mat_mul")
    assert "Candidates by estimated cycles" in page.text(".item")
    assert len(page.all(".item tr.new")) == 1
    assert "def kernel(" in page.text(".kernel-source pre")
    page.require_no_errors()


@pytest.mark.parametrize("width", [390, 900])
def test_nothing_is_wider_than_a_narrow_page(browser: Chrome, pages: Path, width: int) -> None:
    page = Page(browser, pages / "comparison.html")
    resize(browser, width)
    for view in ("comparison", "overview", "stages", "passes", "kernels", "memory", "weights"):
        browser.get(f"{(pages / 'comparison.html').as_uri()}#{view}/1/0/model/0")
        assert page.width_beyond_sight() <= 0, view
    browser.get(f"{(pages / 'comparison.html').as_uri()}#stages/1/0")
    assert [e.get_attribute("data-stage") for e in page.all(".stage") if e.is_displayed()] == [
        "model"
    ]
    page.click(".stage-tabs button", "Program")
    assert page.names("program")
    page.require_no_errors()


def test_a_comparison_shows_what_differs(browser: Chrome, pages: Path) -> None:
    page = Page(browser, pages / "comparison.html")
    assert page.text('#views [aria-current="page"]') == "Comparison"
    assert "Outputs of both" in page.text("#main")
    page.click(".row.changed", "first")
    assert page.all("ins")
    assert page.all("del")
    count = len(page.all(".row"))
    page.click("button", "All")
    assert len(page.all(".row")) > count
    page.click("button", "Program")
    page.click("button", "By difference of time")
    page.click(".row", "second")
    page.click(".two button.link", "stack")
    assert page.text('#views [aria-current="page"]') == "Stages"
    assert len(page.names("kernels", ".selected")) == 1
    page.require_no_errors()


@pytest.mark.parametrize("address", ["#constructor/length/x/constructor/-1", "#stages/9/9/model/x"])
def test_an_address_that_means_nothing_leads_to_what_there_is(
    browser: Chrome, pages: Path, address: str
) -> None:
    page = Page(browser, pages / "report.html", address)
    assert page.all("#main *")
    page.require_no_errors()


def test_the_colours_are_those_that_the_reader_prefers(browser: Chrome, pages: Path) -> None:
    page = Page(browser, pages / "report.html")
    light = page.one("body").value_of_css_property("background-color")
    prefer(browser, "dark")
    assert page.one("body").value_of_css_property("background-color") != light


def test_thousands_of_nodes_are_not_drawn_at_once(browser: Chrome, pages: Path) -> None:
    page = Page(browser, pages / "many.html", f"#stages/0/0/model/{MANY // 2}")
    assert page.names("kernels", ".related") == [f"node_{MANY // 2}"]
    drawn: int = browser.execute_script("return document.getElementsByTagName('*').length")
    assert drawn < 1500
    page.one('[data-stage="model"] .list').send_keys(key("END"))
    assert page.names("model", ".selected") == [f"node_{MANY - 1}"]
    assert page.names("program", ".related") == [f"node_{MANY - 1}"]
    page.require_no_errors()
