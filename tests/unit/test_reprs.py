"""What networks, graphs and reports look like when they are printed, and in notebooks."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import glow_nb
from glow_nb.base.table import Table
from glow_nb.hlir.ops import Relu
from glow_nb.quant.comparison import Drift
from glow_nb.quant.value_drift import ValueDrift

HOSTILE = '<script>alert("x")</script>&lt;'


class Elements(HTMLParser):
    """Collects the elements and the text of a page, and that what is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.text = ""
        self._open: list[str] = []

    @override
    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.names.add(tag)
        self._open.append(tag)

    @override
    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    @override
    def handle_data(self, data: str) -> None:
        self.text += data


def network(name: str = "layer", value: str = "x") -> glow_nb.Network:
    builder = glow_nb.Builder(name)
    builder.save(builder.emit(Relu(builder.input(value, "float32<7>"))), "y")
    return glow_nb.compile(builder.function(), backend="interpreter", threads=1)


def hostile_drift() -> Drift:
    row = ValueDrift(HOSTILE, "relu", 12.5, 0.25, 0.0)
    return Drift(HOSTILE, (row,), (row,))


def test_names_of_a_model_are_text_in_a_notebook() -> None:
    net = network(HOSTILE, HOSTILE)
    module = glow_nb.Module((net.function,)) if net.function else None
    shown = (net, net.function, net.program, module, net.memory, net.kernels, hostile_drift())
    for each in (*shown, Table((HOSTILE, f"#{HOSTILE}"), ((HOSTILE, HOSTILE),))):
        assert each is not None
        page = Elements()
        page.feed(each._repr_html_())
        page.close()
        assert page.names <= {"table", "thead", "tbody", "tr", "th", "td", "pre"}
    assert HOSTILE.replace('"', '\\"') in elements_of(net).text


def elements_of(shown: Any) -> Elements:
    page = Elements()
    page.feed(shown._repr_html_())
    return page


def test_open_sizes_and_modules_have_a_page_too() -> None:
    text = "func @{}(%x : float32<4>) -> (%y : float32<4>) {{ %y_save = save(%x, %y) }}"
    module = glow_nb.compile("\n".join(map(text.format, "ab")), backend="interpreter")
    assert "ModuleNetwork: a, b" in elements_of(module).text


def test_small_sizes_are_not_zero() -> None:
    memory = network().memory
    assert "arena 0 B" in str(memory)
    assert "MiB" not in repr(memory)
    assert repr(memory) == f"<MemoryReport {memory}>"


def test_repr_of_a_report_is_one_line() -> None:
    net = network()
    for each in (net, net.function, net.program, net.memory, net.kernels, hostile_drift()):
        assert "\n" not in repr(each)
        assert len(repr(each)) < 300


@pytest.mark.jit
def test_profile_is_printed_with_its_kernels() -> None:
    builder = glow_nb.Builder("layer")
    builder.save(builder.emit(Relu(builder.input("x", "float32<7>"))), "y")
    net = glow_nb.compile(builder.function(), threads=1)
    profile = net.profile(x_of(7), runs=1, limits=False)
    title, head, row = str(profile).splitlines()
    assert title.startswith("layer: 1 kernel, threads 1, runs 1, min ")
    assert head.split()[-2:] == ["limit", "limit"]
    assert row.split()[0] == net.kernels[0].family
    assert repr(profile) == f"<Profile {title}>"
    assert elements_of(profile).names >= {"pre", "table", "td"}


def x_of(size: int) -> Any:
    return np.ones(size, np.float32)
