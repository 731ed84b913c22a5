"""Choosing by measurement. Times are made up, but for one test that looks only at their sign."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu import tune
from glow_nb.backends.cpu.algorithms import Candidate
from glow_nb.backends.cpu.measure_candidates import candidate_program, measure_programs
from glow_nb.backends.cpu.products import Product, product_key
from glow_nb.backends.cpu.select_packed_operators import (
    candidates_of,
    select_packed_operators,
)
from glow_nb.backends.cpu.tune import MeasuringTuner
from glow_nb.base.errors import GlowWarning, OptionError
from glow_nb.base.plan import Plan
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant, Function, Value
from glow_nb.hlir.rewrite import substitute
from glow_nb.kernels import operators
from glow_nb.kernels.target import Target
from glow_nb.llir.program import Program
from glow_nb.system import cache_folder
from glow_nb.system.cache_folder import CACHE_VARIABLE
from tests.candidates import tile_of

HOST = Target.host()


def network(kind: str = "float32") -> tuple[Function, list[Product]]:
    """Return a function with a 3x3 convolution and a product of many rows, and these nodes."""
    b = Builder()
    x = b.input("x", f"{kind}<1 x 12 x 12 x 16>")
    dtype = x.type.kind.dtype
    filter = b.constant("w", np.ones((24, 3, 3, 16), dtype))
    bias = b.constant("b", np.zeros(24, dtype))
    convolution = b.emit(
        ops.Convolution(
            x,
            filter,
            bias,
            kernel=(3, 3),
            stride=(1, 1),
            pads=(1, 1, 1, 1),
            dilation=(1, 1),
            group=1,
        )
    )
    b.save(convolution, "y")
    lhs, rhs = b.input("lhs", f"{kind}<999 x 32>"), b.constant("rhs", np.ones((32, 45), dtype))
    product = b.emit(ops.MatMul(lhs, rhs))
    b.save(product, "z")
    return b.function(), [convolution, product]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Return how many programs each measurement had; the one before the last is the fastest."""
    counts: list[int] = []

    def measure(programs: Sequence[Program], target: Target, threads: int) -> list[float]:
        counts.append(len(programs))
        seconds = [float(index + 2) for index in range(len(programs))]
        seconds[-2] = 1.0
        return seconds

    monkeypatch.setattr(tune, "measure_programs", measure)
    monkeypatch.setattr(tune, "compile_objects", lambda *_, **__: {})
    monkeypatch.setattr(tune, "_measured", {})
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    return counts


def test_the_fastest_is_chosen(asked: list[int]) -> None:
    function, nodes = network()
    tuner = MeasuringTuner(HOST, 1)
    picks = tuner.choose(nodes, "auto")
    assert set(picks) == set(map(product_key, nodes))
    for node in nodes:
        times = tuner.measure([node])[product_key(node)]
        assert 2 <= len(times) <= tune.MOST_CANDIDATES + 1
        assert any(tile_of(candidate.plan) is None for candidate in times)
        assert next(iter(times)) == candidates_of(node, HOST, "auto")[0]
        assert picks[product_key(node)] == list(times)[-2]
    selected = select_packed_operators(function, target=HOST, tuner=tuner)
    blocks = [node.block for node in selected if hasattr(node, "block")]
    assert blocks == [picks[product_key(node)].plan.number("block") for node in nodes]


def test_what_was_measured_is_kept(
    asked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, nodes = network()
    first = MeasuringTuner(HOST, 1).choose(nodes, "auto")
    assert len(asked) == 2
    monkeypatch.setattr(tune, "_measured", {})  # as in another process
    assert MeasuringTuner(HOST, 1).choose(nodes, "auto") == first
    assert len(asked) == 2
    MeasuringTuner(HOST, 2).choose(nodes, "auto")
    MeasuringTuner(Target.host(lanes=8 if HOST.lanes == 4 else 4), 1).choose(nodes, "auto")
    assert len(asked) == 6


def test_a_measurement_does_not_transform_weights_that_are_not_finite(asked: list[int]) -> None:
    function, _ = network()
    odd = function.constants[0].array.copy()
    odd.flat[7] = np.inf
    constants: dict[Value, Value] = {
        c: Constant(c.name, c.type, odd) for c in function.constants if c.name == "w"
    }

    class Transformer:
        """Chooses Winograd's algorithm for everything."""

        def choose(
            self, nodes: Sequence[Product], winograd: str, strassen: str
        ) -> dict[str, Candidate]:
            plan = Plan.of("winograd", dot="tile_dot", tile=(4, 4), block=16)
            return {product_key(node): Candidate(plan, 1.0) for node in nodes[:1]}

    for each, is_transformed in ((function, True), (substitute(function, constants), False)):
        selected = select_packed_operators(each, target=HOST, tuner=Transformer())
        assert any(isinstance(n, operators.WinogradConvolution) for n in selected) == is_transformed


@pytest.mark.parametrize("content", ["", "[]", '{"key": "other"}', '{"key": 1, "seconds": {}}'])
def test_a_spoilt_file_is_measured_anew(
    asked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    _, nodes = network()
    MeasuringTuner(HOST, 1).choose(nodes, "auto")
    for path in tmp_path.glob("tuned-*.json"):
        path.write_text(content)
    monkeypatch.setattr(tune, "_measured", {})
    MeasuringTuner(HOST, 1).choose(nodes, "auto")
    assert len(asked) == 4


@pytest.mark.parametrize("change", [{"seconds": {}}, {"key": "0"}, {"seconds": {"tile": 1.0}}])
def test_a_file_of_something_else_is_measured_anew(
    asked: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, object],
) -> None:
    _, nodes = network()
    MeasuringTuner(HOST, 1).choose(nodes[:1], "auto")
    (path,) = tmp_path.glob("tuned-*.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    monkeypatch.setattr(tune, "_measured", {})
    MeasuringTuner(HOST, 1).choose(nodes[:1], "auto")
    assert len(asked) == 2


def test_kernels_of_another_version_are_measured_anew(
    asked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, nodes = network()
    for version in ("a", "b", "b"):
        place = tmp_path / version / "products"
        place.mkdir(parents=True, exist_ok=True)
        (place / "matmul.py").write_text(version)
        monkeypatch.setattr(tune, "KERNELS", place.parent)
        MeasuringTuner(HOST, 1).choose(nodes[:1], "auto")
    assert len(asked) == 2


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 0.0, -1.0])
def test_times_that_cannot_be_are_measured_anew(
    asked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    _, nodes = network()
    MeasuringTuner(HOST, 1).choose(nodes[:1], "auto")
    (path,) = tmp_path.glob("tuned-*.json")
    entry = json.loads(path.read_text())
    entry["seconds"][list(entry["seconds"])[-1]] = seconds
    path.write_text(json.dumps(entry))
    monkeypatch.setattr(tune, "_measured", {})
    MeasuringTuner(HOST, 1).choose(nodes[:1], "auto")
    assert len(asked) == 2


def test_without_a_folder_measurements_last_for_the_process(
    asked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(cache_folder, "_TIMES_REFUSED", itertools.count())
    _, nodes = network()
    tuner = MeasuringTuner(HOST, 1, tmp_path / "file" / "folder")
    with pytest.warns(GlowWarning, match="Not a directory"):
        first = tuner.choose(nodes, "auto")
    assert tuner.choose(nodes, "auto") == first
    assert len(asked) == 2


def test_winograd_off_is_respected(asked: list[int]) -> None:
    _, nodes = network()
    picks = MeasuringTuner(HOST, 1).choose(nodes, "off")
    assert all(tile_of(pick.plan) is None for pick in picks.values())


def test_other_kinds_are_left_to_the_estimate(asked: list[int]) -> None:
    function, nodes = network("float64")
    tuner = MeasuringTuner(HOST, 1)
    assert tuner.choose(nodes, "auto") == {}
    assert select_packed_operators(function, tuner=tuner) is not function


@pytest.mark.jit
@pytest.mark.slow
def test_every_way_can_be_measured() -> None:
    _, nodes = network()
    for node in nodes:
        candidates = candidates_of(node, HOST, "auto")
        programs = [candidate_program(node, candidate, 1 << 16) for candidate in candidates]
        assert all(seconds > 0 for seconds in measure_programs(programs, HOST, 2))


@pytest.mark.jit
def test_a_tuned_network_computes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "_measured", {})
    monkeypatch.setattr(tune, "default_folder", lambda: tmp_path)
    monkeypatch.setattr(tune, "MOST_CANDIDATES", 2)  # each is compiled
    function, _ = network()
    rng = np.random.default_rng(0)
    tuned = glow_nb.compile(function, tune=True, threads=1)
    feeds = {p.name: rng.normal(size=p.type.shape).astype("f4") for p in function.inputs}
    plain = glow_nb.compile(function, backend="interpreter").run(feeds)
    for name, array in tuned.run(feeds).items():
        np.testing.assert_allclose(array, plain[name], rtol=1e-4, atol=1e-3)
    assert len(list(tmp_path.glob("tuned-*.json"))) == 2
    again = glow_nb.compile(function, tune=True, threads=1)
    assert again.source == tuned.source


def test_tune_is_a_yes_or_no() -> None:
    function, _ = network()
    with pytest.raises(OptionError, match="tune='fast'"):
        glow_nb.compile(function, tune="fast")
