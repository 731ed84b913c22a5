"""The cache of networks: found by content, never stale, never wrong, bounded, and no error."""

from __future__ import annotations

import errno
import importlib
import itertools
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import glow_nb
from glow_nb.network.saved import kept
from glow_nb.network.saved.cache import NetworkCache
from glow_nb.network.saved.files import CONSTANTS, SUMS
from glow_nb.system.file_digests import MOST_NOTES
from tests.unit.network.saved.models import (
    X,
    close,
    dense_model,
    found,
    in_a_new_process,
    needs_loader,
    saved_model,
    wait_for_writers,
    y_of,
)

pytestmark = needs_loader


def test_the_same_model_is_found_by_its_content(cache: NetworkCache, tmp_path: Path) -> None:
    path = saved_model(tmp_path / "a")
    first = glow_nb.compile(path, threads=1)
    assert not found(first)
    again = glow_nb.compile(str(path), threads=1)
    assert found(again)
    np.testing.assert_array_equal(y_of(again), y_of(first))
    os.utime(path, (1, 1))
    assert found(glow_nb.compile(path, threads=1))
    elsewhere = shutil.copy(path, tmp_path / "other.onnx")
    assert found(glow_nb.compile(elsewhere, threads=1))
    assert found(glow_nb.compile(path.read_bytes(), threads=1))
    assert len(cache.kept()) == 1


def test_another_content_is_another_network(cache: NetworkCache, tmp_path: Path) -> None:
    hits = []
    for seed in (1, 2, 1):
        net = glow_nb.compile(saved_model(tmp_path / "a", seed), threads=1)
        assert close(net, seed)
        hits.append(found(net))
    assert hits == [False, False, True]


def test_data_beside_the_model_are_part_of_it(cache: NetworkCache, tmp_path: Path) -> None:
    hits, path = [], tmp_path / "a" / "model.onnx"
    for seed in (1, 2, 1):
        saved_model(path.parent, seed, external="w.bin")
        net = glow_nb.compile(path, threads=1)
        assert close(net, seed)
        hits.append(found(net))
    assert hits == [False, False, True]
    (tmp_path / "a" / "w.bin").unlink()
    with pytest.raises(glow_nb.ModelError, match=r"w\.bin"):
        glow_nb.compile(path, threads=1)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"threads": 1}, {"threads": 2}),
        ({"winograd": "off"}, {"winograd": "auto"}),
        ({"without": ("fold_constants",)}, {}),
        ({"pipeline": ("fold_constants",)}, {"pipeline": ("eliminate_dead_nodes",)}),
        ({"plan": {}}, {"plan": {"product": "direct"}}),
    ],
)
def test_arguments_are_part_of_the_key(
    cache: NetworkCache, tmp_path: Path, first: dict[str, object], second: dict[str, object]
) -> None:
    path = saved_model(tmp_path / "a")
    for options in (first, second):
        threads = {"threads": 1} | options
        assert not found(glow_nb.compile(path, **threads))  # type: ignore[arg-type]
        assert found(glow_nb.compile(path, **threads))  # type: ignore[arg-type]


def test_a_pass_is_known_by_its_source(
    cache: NetworkCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, module = saved_model(tmp_path / "a"), tmp_path / "own_passes.py"
    monkeypatch.syspath_prepend(str(tmp_path))
    hits = []
    for text in ("return function", "return function", "return  function"):
        module.write_text(f"def own_pass(function):\n    {text}\n")
        monkeypatch.delitem(sys.modules, "own_passes", raising=False)
        own = importlib.import_module("own_passes").own_pass
        hits.append(found(glow_nb.compile(model, threads=1, pipeline=(own, "fold_constants"))))
    assert hits == [False, True, False]


def test_functions_that_change_or_have_no_name_are_not_kept(
    cache: NetworkCache, tmp_path: Path
) -> None:
    path, runs, graphs = saved_model(tmp_path / "a"), [], []

    def observer(run: object) -> None:
        runs.append(run)

    def local_pass(function: glow_nb.Function) -> glow_nb.Function:
        graphs.append(function)
        return function

    passes = (local_pass, lambda function: function)
    options_of: list[dict[str, object]] = [{"pipeline": (one,)} for one in passes]
    for options in (*options_of, {"observer": observer}, {"cache": False}):
        for _ in range(2):
            net = glow_nb.compile(path, threads=1, **options)  # type: ignore[arg-type]
            assert not found(net)
    assert runs and len(graphs) == 4 and not cache.kept()


def test_the_variable_turns_it_off(
    cache: NetworkCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kept.NETWORKS_VARIABLE, "0")
    assert not found(glow_nb.compile(saved_model(tmp_path / "a"), threads=1))
    assert not cache.kept()


@pytest.mark.parametrize("damage", [b"", b"half", None])
def test_what_is_damaged_is_compiled_again(
    cache: NetworkCache, tmp_path: Path, damage: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = saved_model(tmp_path / "a", 3)
    found(glow_nb.compile(path, threads=1))
    (network,) = cache.kept()
    if damage is None:
        (network.path / CONSTANTS).unlink()
    else:
        (network.path / CONSTANTS).write_bytes(damage)
    net = glow_nb.compile(path, threads=1)
    assert not found(net) and close(net, 3)
    assert "is compiled again" in caplog.text
    assert found(glow_nb.compile(path, threads=1))


def test_the_one_used_longest_ago_goes_first(cache: NetworkCache, tmp_path: Path) -> None:
    paths = [saved_model(tmp_path / f"m{seed}", seed) for seed in range(3)]
    for number, path in enumerate(paths):
        found(glow_nb.compile(path, threads=1))
        newest = cache.kept()[0]
        os.utime(newest.path / SUMS, (number + 1, number + 1))
    assert found(glow_nb.compile(paths[0], threads=1))  # used now
    cache.trim(2 * max(network.size_bytes for network in cache.kept()))
    hits = [found(glow_nb.compile(path, threads=1)) for path in (paths[0], paths[2], paths[1])]
    assert hits == [True, True, False]


def test_a_folder_that_may_only_be_read_serves_networks(
    cache: NetworkCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved_model(tmp_path / "a", 1)
    found(glow_nb.compile(path, threads=1))

    def refuse(*arguments: object, **more: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for function in ("utime", "replace", "unlink", "mkdir"):
        monkeypatch.setattr(f"os.{function}", refuse)
    net = glow_nb.compile(path, threads=1)
    assert found(net) and close(net, 1)


def test_a_clock_that_was_set_back_does_no_harm(cache: NetworkCache, tmp_path: Path) -> None:
    paths = [saved_model(tmp_path / f"m{seed}", seed) for seed in range(2)]
    for path in paths:
        found(glow_nb.compile(path, threads=1))
    for network in cache.kept():
        os.utime(network.path / SUMS, (1 << 33, 1 << 33))  # in two hundred years
    assert found(glow_nb.compile(paths[0], threads=1))
    cache.trim(1)
    assert not cache.kept()


def test_a_network_larger_than_the_cache_is_not_kept(cache: NetworkCache, tmp_path: Path) -> None:
    cache.limit_bytes = 100
    path = saved_model(tmp_path / "a")
    assert not found(glow_nb.compile(path, threads=1))
    assert not found(glow_nb.compile(path, threads=1))


def test_a_folder_that_takes_nothing_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    cache = NetworkCache(tmp_path / "file" / "cache")
    said: list[str] = []
    monkeypatch.setattr(
        "glow_nb.network.saved.cache.say_that_nothing_is_kept", lambda *args: said.append(str(args))
    )
    monkeypatch.delenv(kept.NETWORKS_VARIABLE)
    monkeypatch.setattr(kept, "NetworkCache", lambda: cache)
    net = glow_nb.compile(saved_model(tmp_path / "a", 1), threads=1)
    assert not found(net) and close(net, 1)
    assert len(said) == 1 and "file" in said[0]


def test_a_full_disk_leaves_nothing_behind(
    cache: NetworkCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(folder: Path) -> None:
        (folder / CONSTANTS).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("glow_nb.system.cache_folder._TIMES_REFUSED", itertools.count())
    with pytest.warns(glow_nb.GlowWarning, match="No space left on device"):
        cache.store("0" * 40, write)
    assert cache.folder is not None and not list(cache.folder.iterdir())


def test_views_of_a_network_that_was_removed_are_made_again(
    cache: NetworkCache, tmp_path: Path
) -> None:
    path = saved_model(tmp_path / "a", 2)
    first = glow_nb.compile(path, threads=1)
    assert not found(first)
    net = glow_nb.compile(path, threads=1)
    assert found(net)
    cache.clear()
    assert close(net, 2)
    assert str(net.program) == str(first.program)
    assert net.kernels == first.kernels
    net.save(tmp_path / "saved")
    assert close(glow_nb.load_compiled(tmp_path / "saved"), 2)


@pytest.mark.parametrize("damage", ["removed", "changed", "bytes", "other"])
def test_views_say_so_where_the_model_is_gone(
    cache: NetworkCache, tmp_path: Path, damage: str
) -> None:
    path = saved_model(tmp_path / "a", 2)
    model = path.read_bytes() if damage == "bytes" else path
    found(glow_nb.compile(path, threads=1))
    net = glow_nb.compile(model, threads=1)
    assert found(net)
    (network,) = cache.kept()
    (network.path / "levels-0.json").write_text("{")
    problem = "was removed or changed since the network was loaded"
    if damage == "removed":
        path.unlink()
        problem = r"model\.onnx: cannot be read any more: No such file"
    elif damage == "changed":
        saved_model(tmp_path / "a", 3)
        problem = r"model\.onnx: was changed since the network was found"
    if damage == "other":
        assert str(net.program)
        return
    with pytest.raises(glow_nb.ModelError, match=problem):
        _ = net.program
    assert close(net, 2)


def test_defaults_may_be_replaced_in_a_network_that_is_found(
    cache: NetworkCache, tmp_path: Path
) -> None:
    model = dense_model(1)
    model.graph.input.append(onnx.helper.make_tensor_value_info("b", 1, [24]))
    path = tmp_path / "model.onnx"
    onnx.save_model(model, path)
    zero = np.zeros(24, np.float32)
    first = glow_nb.compile(path, threads=1)
    assert not found(first)
    again = glow_nb.compile(path, threads=1)
    assert found(again) and again.defaults == first.defaults
    feeds = {"x": X, "b": zero}
    np.testing.assert_array_equal(again.run(feeds)["y"], first.run(feeds)["y"])
    assert close(again, 1)


def test_a_process_that_finds_a_network_imports_no_compiler(
    cache: NetworkCache, tmp_path: Path
) -> None:
    paths = [str(saved_model(tmp_path / name, 5, rows=n)) for name, n in (("a", 2), ("b", "n"))]
    compiled = [glow_nb.compile(path, threads=2) for path in paths]
    compiled.append(glow_nb.compile(paths[1], threads=2, sizes={"n": (1, 64)}))
    ys = [y_of(net).tobytes().hex() for net in compiled]
    wait_for_writers()
    assert len(cache.kept()) == 3
    script = f"""
import sys, numpy as np, glow_nb
x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
nets = [glow_nb.compile(path, threads=2) for path in {paths!r}]
nets.append(glow_nb.compile({paths[1]!r}, threads=2, sizes={{"n": (1, 64)}}))
print([net.run({{"x": x}})["y"].tobytes().hex() for net in nets])
heavy = {{"numba", "llvmlite", "onnx", "typing_extensions", "glow_nb.hlir", "glow_nb.llir"}}
print(sorted(heavy & set(sys.modules)))
"""
    assert in_a_new_process(script, tmp_path / "cache").splitlines() == [str(ys), "[]"]


def test_wrong_arguments_are_refused_where_the_network_is_kept(
    cache: NetworkCache, tmp_path: Path
) -> None:
    path = saved_model(tmp_path / "a")
    found(glow_nb.compile(path, threads=1))
    wrong = {"max_variants": 0, "state": 3, "winogard": "off", "threads": 0, "cache": 2}
    for name, value in wrong.items():
        arguments: dict[str, object] = {"threads": 1, name: value}
        with pytest.raises(glow_nb.OptionError, match=name):
            glow_nb.compile(path, **arguments)  # type: ignore[arg-type]


def test_a_network_that_cannot_be_linked_is_not_kept(
    cache: NetworkCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(objects: object) -> bytes:
        raise glow_nb.CompileError("an object has a relocation of type 9")

    monkeypatch.setattr("glow_nb.network.saved.writing.link_shared_object", refuse)
    path = saved_model(tmp_path / "a", 1)
    for _ in range(2):
        net = glow_nb.compile(path, threads=1)
        assert not found(net) and close(net, 1)
    assert not cache.kept()


def test_a_network_that_was_found_is_saved(cache: NetworkCache, tmp_path: Path) -> None:
    path = saved_model(tmp_path / "a", 4)
    found(glow_nb.compile(path, threads=1))
    net = glow_nb.compile(path, threads=1)
    assert found(net)
    net.save(tmp_path / "saved")
    assert close(glow_nb.load_compiled(tmp_path / "saved"), 4)


def test_memory_that_the_process_may_not_have_is_no_damage(
    cache: NetworkCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved_model(tmp_path / "a", 4)
    found(glow_nb.compile(path, threads=1))

    def refuse(*arguments: object, **more: object) -> object:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr("glow_nb.network.saved.files.mmap.mmap", refuse)
        with pytest.raises(glow_nb.MemoryLimitError):
            glow_nb.compile(path, threads=1)
    assert found(glow_nb.compile(path, threads=1))


@pytest.mark.parametrize("function", ["open_regular", "mmap.mmap"])
def test_what_the_process_may_not_open_is_no_damage(
    cache: NetworkCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    path = saved_model(tmp_path / "a", 4)
    found(glow_nb.compile(path, threads=1))

    def refuse(*arguments: object, **more: object) -> object:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(f"glow_nb.network.saved.files.{function}", refuse)
        net = glow_nb.compile(path, threads=1)
        assert not found(net) and close(net, 4)
    assert found(glow_nb.compile(path, threads=1))


def test_text_and_what_is_no_file_are_left_to_the_importer(cache: NetworkCache) -> None:
    text = "func @main(%x : float32<2>) -> (%y : float32<2>) {\n  %y_save = save(%x, %y)\n}\n"
    assert glow_nb.compile(text + "// " + "long " * 1000, threads=1).inputs
    with pytest.raises(glow_nb.ModelError, match=r"absent\.onnx"):
        glow_nb.compile("absent.onnx", threads=1)
    with pytest.raises(glow_nb.OptionError, match="is no path"):
        glow_nb.compile("model\0.onnx", threads=1)
    wait_for_writers()
    assert len(cache.kept()) == 1


def test_notes_do_not_grow_without_end(cache: NetworkCache, tmp_path: Path) -> None:
    assert cache.digests.folder is not None and cache.folder is not None
    for folder, suffix in ((cache.digests.folder, ".digests"), (cache.folder, ".note")):
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(MOST_NOTES + 5):
            (folder / f"{number}{suffix}").touch()
    cache.trim()
    assert len(list(cache.digests.folder.iterdir())) == MOST_NOTES
    assert len(list(cache.folder.iterdir())) == MOST_NOTES
