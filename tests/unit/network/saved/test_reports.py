"""Reports of networks that come from the cache: like those of networks that were compiled now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import glow_nb
from glow_nb.network.network import Network
from glow_nb.network.reporting.parts import DIFFERS
from glow_nb.network.saved.cache import NetworkCache
from glow_nb.report.data import Part
from glow_nb.report.page import read_page
from tests.unit.network.saved.models import (
    cut_model,
    found,
    needs_loader,
    saved_model,
    wait_for_writers,
)
from tests.unit.network.saved.test_stages import model_of

pytestmark = needs_loader

SOFTMAX = """<ir_version: 9, opset_import: ["" : 18]>
probabilities (float[4, 24] x) => (float[4, 24] y) {
    sums = Add (x, x)
    y = Softmax <axis = 1> (sums)
}"""


def parts_of(net: Network, folder: Path) -> Sequence[Part]:
    path = folder / "report.html"
    net.report(path, runs=0)
    return read_page(path).compilations[0].parts


def timeless(part: Part) -> list[object]:
    """Return what a page shows of *part*, without times and without how code was made now."""
    rows = [(row.name, row.changed, row.items, row.lines) for row in part.passes]
    alternatives = [call.alternatives for call in part.calls]
    return [part.stages, rows, part.no_passes, alternatives, part.memory, part.weights]


@pytest.mark.parametrize(
    "options",
    [{}, {"precision": "bfloat16"}, {"without": ("stack_instructions",)}, {"winograd": "off"}],
)
def test_the_second_report_of_a_network_equals_the_first(
    cache: NetworkCache, tmp_path: Path, options: dict[str, object]
) -> None:
    path = saved_model(tmp_path / "model")
    first = glow_nb.compile(path, threads=1, **options)  # type: ignore[arg-type]
    (expected,) = parts_of(first, tmp_path)
    assert not found(first)
    second = glow_nb.compile(path, threads=1, **options)  # type: ignore[arg-type]
    assert found(second)
    (part,) = parts_of(second, tmp_path)
    assert part.passes
    assert timeless(part) == timeless(expected)


def test_what_the_backend_has_a_kernel_for_is_not_lowered(
    cache: NetworkCache, tmp_path: Path
) -> None:
    model = onnx.parser.parse_model(SOFTMAX)
    for is_found in (False, True):
        net = glow_nb.compile(model.SerializeToString(), threads=1)
        assert found(net) == is_found
        (part,) = parts_of(net, tmp_path)
        assert part.passes[-1].items == len(net.program.work)


@pytest.mark.parametrize("sizes", [{}, "each"])
def test_programs_of_open_sizes_are_compiled_by_their_own_steps(
    cache: NetworkCache, tmp_path: Path, sizes: dict[str, int] | str
) -> None:
    pages = []
    for _ in range(2):
        net = glow_nb.compile(cut_model(), threads=1, sizes=sizes)  # type: ignore[arg-type]
        if sizes == "each":
            net.run({"x": np.ones((3, 4), np.float32)})
        pages.append([timeless(part) for part in parts_of(net, tmp_path)])
        wait_for_writers()
    assert pages[0] == pages[1]
    assert all(rows for part in pages[1] for rows in part[1:2])


def test_stages_are_compiled_by_their_own_steps(cache: NetworkCache, tmp_path: Path) -> None:
    pages = []
    for _ in range(2):
        net = glow_nb.compile(model_of(4), threads=1)
        pages.append([timeless(part) for part in parts_of(net, tmp_path)])
        wait_for_writers()
    assert pages[0] == pages[1]
    assert all(rows for part in pages[1] for rows in part[1:2])


def test_passes_that_end_with_another_program_are_not_shown(tmp_path: Path) -> None:
    path = saved_model(tmp_path / "a")
    net = glow_nb.compile(path, threads=1)
    other = glow_nb.compile(path, threads=1, without=("stack_instructions",))
    net.rebuilding.again = lambda: other  # type: ignore[attr-defined]
    (part,) = parts_of(net, tmp_path)
    assert part.no_passes == DIFFERS
    assert not part.passes
    (graph,) = [stage for stage in part.stages if stage.key == "graph"]
    assert (graph.missing, graph.items) == (DIFFERS, ())
    assert not any(call.alternatives for call in part.calls)
