"""``net.save`` and ``load_compiled``: the same numbers, all views, and every damage is refused."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import (
    FeedError,
    GlowError,
    ModelError,
    OptionError,
    StateError,
    UnsupportedError,
)
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.module import Module
from glow_nb.network.network import CompiledNetwork
from glow_nb.network.saved.files import MANIFEST, SUMS
from glow_nb.network.saved.key import network_key
from glow_nb.system.state_store import StateStore
from glow_nb.system.tile_registers import TILES_VARIABLE, tile_registers
from tests.unit.network.saved.models import (
    X,
    dense_model,
    expected,
    in_a_new_process,
    needs_loader,
    rewritten,
)

pytestmark = needs_loader


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "net"
    glow_nb.compile(dense_model(), threads=2).save(folder)
    return folder


@pytest.fixture
def copied(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "copy"))


def test_a_loaded_network_computes_the_same_bits(saved: Path) -> None:
    compiled = glow_nb.compile(dense_model(), threads=2)
    loaded = glow_nb.load_compiled(saved)
    outputs = loaded.run({"x": X})
    np.testing.assert_array_equal(outputs["y"], compiled.run({"x": X})["y"])
    np.testing.assert_allclose(outputs["y"], expected(), rtol=1e-5, atol=1e-6)
    assert (loaded.inputs, loaded.outputs) == (compiled.inputs, compiled.outputs)
    assert loaded.threads == 2


def test_a_loaded_network_has_all_views_of_the_compiled_one(saved: Path) -> None:
    compiled = glow_nb.compile(dense_model(), threads=2)
    loaded = glow_nb.load_compiled(saved)
    assert isinstance(compiled, CompiledNetwork) and isinstance(loaded, CompiledNetwork)
    assert str(loaded.program) == str(compiled.program)
    assert str(loaded.function) == str(compiled.function)
    assert str(loaded.pipeline) == str(compiled.pipeline)
    assert loaded.source == compiled.source
    assert loaded.kernels == compiled.kernels
    assert str(loaded.memory) == str(compiled.memory)
    assert repr(loaded) == repr(compiled)
    assert loaded.profile({"x": X}, runs=1, limits=False)


def test_another_process_runs_it_without_compiler_and_graph(saved: Path, tmp_path: Path) -> None:
    script = f"""
import sys, numpy as np, glow_nb
net = glow_nb.load_compiled({str(saved)!r})
x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
print(net.run({{"x": x}})["y"].tobytes().hex())
found = {{"numba", "llvmlite", "onnx", "glow_nb.hlir", "glow_nb.llir"}} & set(sys.modules)
assert not found, found
"""
    y = glow_nb.load_compiled(saved).run({"x": X})["y"]
    assert in_a_new_process(script, tmp_path).strip() == y.tobytes().hex()


def counting_module() -> Module:
    count = glow_nb.State(
        "count", TensorType(ElementKind.FLOAT32, (3,)), payload=np.ones(3, np.float32)
    )
    b = glow_nb.Builder("step")
    x = b.input("x", "float32<3>")
    total = b.emit(ops.Add(count, x))
    b.update(count, total)
    b.save(total, "y")
    step = b.function()
    b = glow_nb.Builder("read")
    b.save(b.emit(ops.Tanh(count)), "y")
    return Module((step, b.function()))


def test_functions_and_their_state_are_saved(tmp_path: Path) -> None:
    net = glow_nb.compile(counting_module(), threads=1)
    one = np.ones(3, np.float32)
    net["step"].run({"x": one})
    net.save(tmp_path / "net")
    net["step"].run({"x": one})
    loaded = glow_nb.load_compiled(tmp_path / "net")
    assert list(loaded) == ["step", "read"]
    np.testing.assert_array_equal(loaded.state["count"], 2 * one)
    np.testing.assert_array_equal(loaded["step"].run({"x": one})["y"], 3 * one)
    np.testing.assert_allclose(loaded["read"].run({})["y"], np.tanh(3 * one), rtol=1e-6)
    again = glow_nb.load_compiled(tmp_path / "net", state=net.state)
    np.testing.assert_array_equal(again["step"].run({"x": one})["y"], 4 * one)
    assert str(again["step"].program) == str(net["step"].program)


def test_a_saved_network_is_replaced_as_a_whole(tmp_path: Path) -> None:
    for seed in (1, 2):
        glow_nb.compile(dense_model(seed), threads=1).save(tmp_path / "net")
        y = glow_nb.load_compiled(tmp_path / "net").run({"x": X})["y"]
        np.testing.assert_allclose(y, expected(seed), rtol=1e-5, atol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["net"]


def test_files_of_the_user_are_not_replaced(copied: Path) -> None:
    (copied / "results.npy").write_bytes(b"")
    with pytest.raises(OptionError, match=r"no part of the saved network: results\.npy; move that"):
        glow_nb.load_compiled(copied).save(copied)
    assert (copied / "results.npy").exists()


def test_a_save_that_fails_leaves_the_old_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    glow_nb.compile(dense_model(1), threads=1).save(tmp_path / "net")

    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("glow_nb.system.replaced_folders._sync", full)
    with pytest.raises(GlowError, match="net: cannot be written: No space left on device"):
        glow_nb.compile(dense_model(2), threads=1).save(tmp_path / "net")
    y = glow_nb.load_compiled(tmp_path / "net").run({"x": X})["y"]
    np.testing.assert_allclose(y, expected(1), rtol=1e-5, atol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["net"]


def test_a_saved_network_is_moved_and_looked_at(saved: Path, tmp_path: Path) -> None:
    first = Path(shutil.copytree(saved, tmp_path / "first"))
    loaded = glow_nb.load_compiled(first)
    moved = glow_nb.load_compiled(first.rename(tmp_path / "moved"))
    np.testing.assert_array_equal(moved.run({"x": X})["y"], loaded.run({"x": X})["y"])
    assert str(moved.program)
    with pytest.raises(ModelError, match="was removed or changed since the network was loaded"):
        _ = loaded.program


def test_the_sums_are_those_that_sha256sum_reads(saved: Path) -> None:
    lines = (saved / SUMS).read_text().splitlines()
    names = {line.split("  ")[1] for line in lines}
    assert names == {path.name for path in saved.iterdir()} - {SUMS}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"machine": "x86_64: some other"}, "is for the processor x86_64: some other, this one is"),
        ({"versions": {"glow_nb": "9.9"}}, "glow_nb 9.9 made it, this one is"),
        ({"runtime": "other"}, "or was changed since"),
        ({"format": "glow_nb network 0"}, "its format is 'glow_nb network 0', this version of"),
        ({"functions": 3}, "no manifest of a network"),
        ({"functions": [{"name": "x"}]}, "no manifest of a network"),
        ({"regions": [[0]]}, "no manifest of a network"),
        ({"regions": [["constants.bin", 0, 1 << 40]]}, "are no part of a file of"),
        ({"regions": [["constants.bin", 64, 64]]}, "are no part of a file of"),
        ({"regions": [["../constants.bin", 0, 64]]}, "'../constants.bin' is no file of constants"),
        ({"unknown": 1}, "no manifest of a network"),
    ],
)
def test_what_differs_is_named(copied: Path, changes: dict[str, object], problem: str) -> None:
    with pytest.raises(ModelError, match=problem) as raised:
        glow_nb.load_compiled(rewritten(copied, **changes))
    assert str(copied) in str(raised.value)


@pytest.mark.skipif(
    not tile_registers().are_usable, reason=f"no tiles (AMX): {tile_registers().refusal}"
)
def test_a_process_that_is_refused_tiles_has_another_processor(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It loads nothing that was compiled with them, and finds nothing such in the cache."""
    monkeypatch.setenv(TILES_VARIABLE, "off")
    script = f"""
import glow_nb
from glow_nb.network.saved.key import network_key
try:
    glow_nb.load_compiled({str(saved)!r})
except glow_nb.ModelError as error:
    print("tiles refused; compile the model again on this machine" in str(error))
print(network_key("model", {{}}))
"""
    said, key = in_a_new_process(script, tmp_path).split()
    assert said == "True"
    assert key != network_key("model", {})


def test_what_is_no_saved_network_is_refused(tmp_path: Path, saved: Path) -> None:
    with pytest.raises(ModelError, match="no saved network: SHA256SUMS cannot be read"):
        glow_nb.load_compiled(tmp_path)
    with pytest.raises(ModelError, match="no saved network"):
        glow_nb.load_compiled(saved / MANIFEST)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("my work")
    net = glow_nb.compile(dense_model(), threads=1)
    with pytest.raises(OptionError, match="is no folder with a saved network"):
        net.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "my work"
    with pytest.raises(GlowError, match="cannot be written"):
        net.save(tmp_path / "absent" / "net")


def test_networks_without_machine_code_are_refused(tmp_path: Path) -> None:
    net = glow_nb.compile(dense_model(), backend="interpreter")
    with pytest.raises(UnsupportedError, match='compile for backend="cpu"'):
        net.save(tmp_path / "net")
    assert not list(tmp_path.iterdir())


def test_feeds_and_states_are_checked_as_ever(saved: Path) -> None:
    loaded = glow_nb.load_compiled(saved)
    with pytest.raises(FeedError, match="input 'x'"):
        loaded.run({"x": np.zeros((2, 5), np.float32)})
    with pytest.raises(FeedError, match="unknown input"):
        loaded.run({"z": X})
    with pytest.raises(UnsupportedError, match="cannot be copied or pickled"):
        copy.copy(loaded)


def test_a_state_of_another_type_is_refused(tmp_path: Path) -> None:
    net = glow_nb.compile(counting_module(), threads=1)
    net.save(tmp_path / "net")
    other = StateStore()
    other.put_all({"count": np.ones(4, np.float32)})
    with pytest.raises(StateError, match="count"):
        glow_nb.load_compiled(tmp_path / "net", state=other)


def test_code_that_nothing_defines_is_no_crash(copied: Path) -> None:
    functions = json.loads((copied / MANIFEST).read_text())["functions"]
    functions[0]["layout"]["symbol"] = "glow_entry_of_nobody"
    with pytest.raises(ModelError, match="glow_entry_of_nobody"):
        glow_nb.load_compiled(rewritten(copied, functions=functions)).run({"x": X})
