"""Networks with data-dependent sizes, and those that keep caches, on the disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import glow_nb
from glow_nb.base.errors import FeedError, ModelError, OptionError, UnsupportedError
from glow_nb.network.dynamic import DynamicNetwork
from glow_nb.network.network import CompiledNetwork
from glow_nb.network.saved.cache import NetworkCache
from glow_nb.network.saved.files import MANIFEST
from glow_nb.network.saved.saved_executable import SavedExecutable
from glow_nb.network.staged import StagedNetwork
from tests.caches import ALL, SIZES, STEPS, check_steps
from tests.unit.network.saved.models import (
    in_a_new_process,
    needs_loader,
    rewritten,
    wait_for_writers,
)

pytestmark = needs_loader

MODEL = """<ir_version: 9, opset_import: ["" : 18]>
rows (float[ROWS, 4] x) => (float[K, K] products, int64[2, K] places, float[ROWS, 4] same) {
    places = NonZero (x)
    floats = Cast <to = 1> (places)
    turned = Transpose <perm = [1, 0]> (floats)
    one = Constant <value = int64[1] {1}> ()
    zero = Constant <value = int64[1] {0}> ()
    column = ReduceSum (turned, one)
    row = ReduceSum (floats, zero)
    products = Mul (column, row)
    same = Relu (x)
}"""


def model_of(rows: int | str) -> onnx.ModelProto:
    return onnx.parser.parse_model(MODEL.replace("ROWS", str(rows)))


def x_of(rows: int, count: int) -> np.ndarray:
    """Return an array of which *count* elements are not 0."""
    return (np.arange(4 * rows) < count).astype(np.float32).reshape(rows, 4)


def is_right(net: glow_nb.Network, rows: int, count: int) -> bool:
    x = x_of(rows, count)
    outputs, places = net.run({"x": x}), np.array(np.nonzero(x))
    sums = places.sum(0).astype(np.float32)
    expected = np.outer(sums, sums)
    return (
        np.array_equal(outputs["products"], expected)
        and np.array_equal(outputs["places"], places)
        and np.array_equal(outputs["same"], x)
    )


def test_stages_are_saved_with_their_programs(tmp_path: Path) -> None:
    net = glow_nb.compile(model_of(3), threads=1)
    assert isinstance(net, StagedNetwork)
    net.save(tmp_path / "net")
    loaded = glow_nb.load_compiled(tmp_path / "net")
    assert isinstance(loaded, StagedNetwork)
    assert (loaded.inputs, loaded.outputs) == (net.inputs, net.outputs)
    assert repr(loaded) == repr(net) and loaded.course == net.course
    assert all(is_right(loaded, 3, count) for count in (5, 0, 12, 1))
    assert loaded.kernels == net.kernels and loaded.source == net.source
    assert loaded.profile({"x": x_of(3, 4)}, runs=1, limits=False).kernels
    with pytest.raises(UnsupportedError, match="the folder that it was loaded from has no model"):
        loaded.run({"x": x_of(3, 4)}, watch=["turned"])
    assert loaded.function is None
    loaded.save(tmp_path / "again")
    assert is_right(glow_nb.load_compiled(tmp_path / "again"), 3, 2)


def test_stages_of_open_sizes_are_saved(tmp_path: Path) -> None:
    net = glow_nb.compile(model_of("n"), sizes={"n": (1, 6)}, threads=1)
    net.save(tmp_path / "net")
    loaded = glow_nb.load_compiled(tmp_path / "net")
    assert isinstance(loaded, DynamicNetwork)
    assert isinstance(loaded.variants[0], StagedNetwork)
    assert all(is_right(loaded, rows, count) for rows, count in ((1, 2), (6, 20), (3, 0)))
    with pytest.raises(FeedError, match=r"7.*1\.\.6"):
        loaded.run({"x": x_of(7, 1)})


def test_another_process_runs_them(tmp_path: Path) -> None:
    glow_nb.compile(model_of(3), threads=1).save(tmp_path / "net")
    script = f"""
import sys, numpy, glow_nb
net = glow_nb.load_compiled({str(tmp_path / "net")!r})
print(net.run(x=numpy.eye(3, 4, dtype=numpy.float32))["products"].tolist())
print([name for name in ("numba", "llvmlite", "onnx", "glow_nb.hlir") if name in sys.modules])
"""
    printed = in_a_new_process(script, tmp_path / "cache")
    assert printed == "[[0.0, 0.0, 0.0], [0.0, 4.0, 8.0], [0.0, 8.0, 16.0]]\n[]\n"


@pytest.mark.parametrize("rows", [3, "n"])
def test_stages_are_found_in_the_cache(
    cache: NetworkCache, tmp_path: Path, rows: int | str
) -> None:
    onnx.save(model_of(rows), tmp_path / "model.onnx")
    nets = []
    for _ in range(2):
        net = glow_nb.compile(tmp_path / "model.onnx", threads=1)
        assert is_right(net, 3, 7)
        wait_for_writers()
        nets.append(net.variants[0] if isinstance(net, DynamicNetwork) else net)
    first, again = nets
    assert isinstance(again, StagedNetwork) and isinstance(first, StagedNetwork)
    for stage in again.stages:
        program = stage.variants[0] if isinstance(stage, DynamicNetwork) else stage
        assert isinstance(program, CompiledNetwork)
        assert isinstance(program.executable, SavedExecutable)
    assert is_right(again, 3, 7) and again.value_names == first.value_names
    assert again.run({"x": x_of(3, 2)}, watch=["turned"])["turned"].shape == (2, 2)
    assert str(again.function) == str(first.function)


def test_a_damaged_manifest_is_told(tmp_path: Path) -> None:
    glow_nb.compile(model_of(3), threads=1).save(tmp_path / "net")
    (entry,) = json.loads((tmp_path / "net" / MANIFEST).read_text())["networks"]
    passages = entry | {"passages": [[["x"], [["a"]]]]}
    damaged: list[Any] = [7, "first", {}, entry | {"stages": []}, passages]
    for wrong in damaged:
        with pytest.raises(ModelError, match="no manifest|no course"):
            glow_nb.load_compiled(rewritten(tmp_path / "net", networks=[wrong]))


def test_caches_are_saved_with_their_program(tmp_path: Path) -> None:
    step = STEPS["attention"]()
    plain, net = step.compiled(threads=1)
    net.run(step.feeds(np.random.default_rng(0), {"batch": 1, "length": 2, ALL: 2}))
    net.save(tmp_path / "net")
    loaded = glow_nb.load_compiled(tmp_path / "net")
    assert isinstance(loaded, glow_nb.GrowingNetwork)
    assert (loaded.length, loaded.specialized) == (0, net.specialized)
    assert (loaded.inputs, loaded.outputs) == (net.inputs, net.outputs)
    check_steps(step, plain, loaded, [3, 1, 1, 8])
    assert loaded.fork().length == 13
    manifest = json.loads((tmp_path / "net" / MANIFEST).read_text())
    damaged: list[Any] = [{}, manifest["grown"] | {"caches": [["past"]]}, 3]
    for wrong in damaged:
        with pytest.raises(ModelError, match="no manifest|no caches"):
            glow_nb.load_compiled(rewritten(tmp_path / "net", grown=wrong))


def test_caches_are_found_in_the_cache_of_networks(cache: NetworkCache, tmp_path: Path) -> None:
    step = STEPS["attention"]()
    path = tmp_path / "step.onnx"
    onnx.save(step.model, path)
    plain = glow_nb.compile(path, sizes=SIZES, threads=1)
    for is_there in (False, True):
        net = glow_nb.compile(path, sizes=SIZES, caches=step.caches, threads=1)
        assert isinstance(net, glow_nb.GrowingNetwork)
        assert isinstance(net.general.executable, SavedExecutable) is is_there
        assert net.value_names
        check_steps(step, plain, net, [2, 1])
        wait_for_writers()
    with pytest.raises(OptionError, match="no input of the model fits"):
        glow_nb.compile(path, sizes=SIZES, caches={"other*": "all*"}, threads=1)
