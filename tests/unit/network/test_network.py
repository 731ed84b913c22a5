"""Running networks: feeds of every wrong kind, threads, files, shapes bound at the first run."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node

import glow_nb
from glow_nb.base.errors import (
    FeedError,
    GlowError,
    ModelError,
    OptionError,
    ParseError,
    UnsupportedError,
)
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from glow_nb.llir.program import Program
from glow_nb.network.dynamic import DynamicNetwork
from glow_nb.network.files import load_constants
from glow_nb.network.loading import load_ir
from glow_nb.network.network import CompiledNetwork, Network
from tests.unit.commands.samples import write_dense
from tests.unit.formats.onnx.importer.models import model, value


def two_inputs() -> Function:
    b = glow_nb.Builder("main")
    x, y = b.input("x", "float32<2 x 3>"), b.input("y", "float32<2 x 3>")
    b.save(b.emit(ops.Add(x, y), "sum"), "total")
    b.save(b.emit(ops.Mul(x, y), "product"), "product_out")
    return b.function()


def one_input() -> Function:
    b = glow_nb.Builder("main")
    x = b.input("x", "float32<2 x 3>")
    w = b.constant('w/../"weights"\n', np.arange(30, dtype=np.float32).reshape(3, 10))
    b.save(b.emit(ops.MatMul(x, w)), "y")
    return b.function()


@pytest.fixture(scope="module")
def net() -> Network:
    return glow_nb.compile(two_inputs(), backend="interpreter")


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_outputs_come_by_name_in_order(net: Network) -> None:
    outputs = net.run({"y": X, "x": X})
    assert list(outputs) == ["total", "product_out"]
    np.testing.assert_array_equal(outputs["total"], X + X)
    np.testing.assert_array_equal(outputs["product_out"], X * X)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"x": X}, r"input\(s\) \['y'\] are not fed"),
        ({"x": X, "y": X, "z": X}, "unknown input 'z'"),
        ({"x": X, "y": X.T}, r"'y': shape is \[3, 2\], the network takes \[2, 3\]"),
        ({"x": X, "y": X.astype(np.float64)}, r"'y': dtype is float64.*\.astype\('float32'\)"),
        ({"x": X, "y": None}, "'y': None is no array of numbers; give a NumPy array"),
        ({"x": X, "y": [X, None]}, "'y': a list .*no array"),
        ({"x": X, "y": {1: 2}}, "'y': a dict of Python objects is no array of numbers"),
        (None, "nothing is fed: run"),
        ({"x": X, "y": [["a"]]}, "'y': it is text, and no array"),
        (X, "the network has 2 inputs; feed them by their names"),
    ],
)
def test_wrong_feeds_get_one_clear_error(
    net: Network, feeds: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(FeedError, match=message):
        net.run(feeds)


class Tensor:
    """An array of another library, on a device that is not there."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise self.cause


@pytest.mark.parametrize(
    "cause", [RuntimeError("device is lost"), KeyError("x"), OSError(5, "gone"), StopIteration()]
)
def test_whatever_a_feed_raises_is_the_cause_of_ours(net: Network, cause: Exception) -> None:
    single = glow_nb.compile(one_input(), backend="interpreter")
    wanted = f"input 'x': a Tensor that is no array: {type(cause).__name__}"
    runs: tuple[Callable[[Any], object], ...] = (
        lambda feed: net.run({"x": feed, "y": X}),
        single.run,
        single,
        lambda feed: single.profile(feed, limits=False),
        lambda feed: glow_nb.evaluate(one_input(), feed),
    )
    for run in runs:
        with pytest.raises(FeedError, match=wanted) as caught:
            run(Tensor(cause))
        assert caught.value.__cause__ is cause


def test_nothing_is_no_input() -> None:
    net = glow_nb.compile(one_input(), backend="interpreter")
    with pytest.raises(FeedError, match=r"nothing is fed: run\(\{'x': array\}\)"):
        net.run(None)
    with pytest.raises(FeedError, match="input 'x': None is no array of numbers"):
        net.run({"x": None})  # type: ignore[dict-item]
    with pytest.raises(FeedError, match="input 'x': None is no array of numbers"):
        glow_nb.evaluate(one_input(), None)  # type: ignore[arg-type]


def test_a_network_is_called_like_a_function(net: Network) -> None:
    np.testing.assert_array_equal(net({"x": X, "y": X})["total"], X + X)


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_network_says_how_to_keep_it(
    net: Network, copying: Callable[[object], object], tmp_path: Path
) -> None:
    open_sizes = glow_nb.compile(write_dense(tmp_path, "batch"), backend="interpreter")
    assert isinstance(open_sizes, DynamicNetwork)
    for kept in (net, [net], open_sizes):
        if copying is copy.copy and isinstance(kept, list):
            continue  # copies the list, not what is in it
        with pytest.raises(UnsupportedError, match=r"cannot be copied or pickled.*save_text"):
            copying(kept)


def test_program_and_memory_are_pickled_whole(net: Network) -> None:
    assert isinstance(net, CompiledNetwork)
    program, memory = pickle.loads(pickle.dumps((net.program, net.memory)))
    assert (str(program), str(memory)) == (str(net.program), str(net.memory))


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_bound_run_is_not_copied(net: Network, copying: Callable[[object], object]) -> None:
    bound = net.bind({"x": X, "y": X})
    with pytest.raises(UnsupportedError, match=r"a bound run cannot be copied.*net\.bind"):
        copying(bound)


def test_a_network_is_kept_as_text(net: Network, tmp_path: Path) -> None:
    glow_nb.save_text(net.program, tmp_path / "net.glow")
    again = glow_nb.compile(tmp_path / "net.glow", backend="interpreter")
    np.testing.assert_array_equal(again({"x": X, "y": X})["total"], X + X)


def test_odd_but_right_feeds_work(net: Network) -> None:
    read_only = X.copy()
    read_only.flags.writeable = False
    strided = np.zeros((4, 6), np.float32)[::2, ::2]
    strided[:] = X
    swapped = X.astype(">f4")
    unaligned = np.frombuffer(b"x" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3)
    for feed in (read_only, strided, np.asfortranarray(X), swapped, unaligned, X.tolist()):
        array = np.asarray(feed, None if isinstance(feed, np.ndarray) else np.float32)
        total = net.run({"x": array, "y": X})["total"]
        np.testing.assert_array_equal(total, X + X)


def test_nan_and_infinity_pass_through(net: Network) -> None:
    odd = np.array([[np.nan, np.inf, -np.inf], [0, 1, 2]], np.float32)
    np.testing.assert_array_equal(net.run({"x": odd, "y": X})["total"], odd + X)


def test_a_bare_array_will_do_for_one_input() -> None:
    net = glow_nb.compile(one_input(), backend="interpreter")
    expected = X @ np.arange(30, dtype=np.float32).reshape(3, 10)
    np.testing.assert_allclose(net.run(X)["y"], expected, rtol=1e-6)


@pytest.mark.jit
@pytest.mark.usefixtures("sharing_is_free")
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_many_callers_at_once_get_their_own_answers(threads: int) -> None:
    net = glow_nb.compile(one_input(), threads=threads)
    weights = np.arange(30, dtype=np.float32).reshape(3, 10)
    failures: list[int] = []

    def call(seed: int) -> None:
        x = np.random.default_rng(seed).normal(size=(2, 3)).astype(np.float32)
        for _ in range(50):
            if not np.allclose(net.run(x)["y"], x @ weights, rtol=1e-5, atol=1e-5):
                failures.append(seed)

    callers = [threading.Thread(target=call, args=(seed,)) for seed in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failures


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_a_senseless_thread_count_is_refused(threads: object) -> None:
    with pytest.raises(OptionError, match="threads="):
        glow_nb.compile(one_input(), threads=threads)  # type: ignore[arg-type]


@pytest.mark.parametrize("graph", [None, 3, ["a"], object()])
def test_what_is_no_graph_is_refused(graph: object) -> None:
    with pytest.raises(OptionError, match="give a path, the bytes of a model"):
        glow_nb.compile(graph)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{"backend": None}, {"backend": 3}, {"shapes": 8}, {"constants": 8}]
)
def test_options_of_the_wrong_kind_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=f"{next(iter(options))}=.*: give"):
        glow_nb.compile(one_input(), **options)  # type: ignore[arg-type]


def test_an_input_that_decides_shapes_can_be_fixed() -> None:
    inputs = [value("x", (2, 3)), value("s", (2,), TensorProto.INT64)]
    proto = model([make_node("Reshape", ["x", "s"], ["y"])], inputs, ["y"])
    net = glow_nb.compile(proto, backend="interpreter", constants={"s": np.array([3, -1])})
    assert list(net.inputs) == ["x"]
    assert net.run(np.zeros((2, 3), np.float32))["y"].shape == (3, 2)
    fed = glow_nb.compile(proto, backend="interpreter")
    feeds = {"x": np.zeros((2, 3), np.float32), "s": np.array([3, -1])}
    assert fed.run(feeds)["y"].shape == (3, 2)


def test_only_inputs_of_onnx_models_can_be_fixed() -> None:
    with pytest.raises(OptionError, match="only inputs of an ONNX model can be fixed"):
        glow_nb.load(one_input(), constants={"x": np.zeros(3)})


def test_an_unknown_backend_or_pass_is_refused() -> None:
    with pytest.raises(OptionError, match="unknown backend 'gpu'; use one of cpu, interpreter"):
        glow_nb.compile(one_input(), backend="gpu")
    with pytest.raises(OptionError, match="unknown graph pass 'sink'"):
        glow_nb.compile(one_input(), backend="interpreter", pipeline=("sink",))


def test_a_function_and_its_program_survive_their_files(tmp_path: Path) -> None:
    net = glow_nb.compile(one_input(), backend="interpreter")
    expected = net.run(X)["y"]
    assert net.function is not None
    for name, ir in (("graph", net.function), ("program", net.program)):
        path = tmp_path / f"{name}.glow"
        glow_nb.save_text(ir, path)
        assert sorted(p.name for p in tmp_path.glob(f"{name}*")) == [f"{name}.glow", f"{name}.npz"]
        loaded = load_ir(path)
        assert isinstance(loaded, Program) == (name == "program")
        again = glow_nb.compile(path, backend="interpreter")
        np.testing.assert_array_equal(again.run(X)["y"], expected)


def test_a_program_and_a_graph_each_have_a_function_that_loads_them(tmp_path: Path) -> None:
    net = glow_nb.compile(one_input(), backend="interpreter")
    path = tmp_path / "program.glow"
    glow_nb.save_text(net.program, path)
    for given in (path, str(net.program), net.program):
        assert str(glow_nb.load_program(given)) == str(net.program)
        with pytest.raises(OptionError, match=r"is a program, .*glow_nb\.load_program\(path\)"):
            glow_nb.load(given)
    model = glow_nb.export_onnx(one_input())
    for other, kind in ((one_input(), "a graph"), (model, "an ONNX model")):
        with pytest.raises(OptionError, match=rf"is {kind}, and load_program.*glow_nb\.load\(\)"):
            glow_nb.load_program(other)


def test_text_without_its_numbers_verifies_but_does_not_compile(tmp_path: Path) -> None:
    path = tmp_path / "net.glow"
    glow_nb.save_text(one_input(), path)
    path.with_suffix(".npz").unlink()
    assert isinstance(glow_nb.load(path), Function)
    with pytest.raises(glow_nb.GlowError, match="external to the IR text and were not supplied"):
        glow_nb.compile(path, backend="interpreter").run(X)


def test_broken_files_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "net.glow"
    with pytest.raises(ModelError, match="cannot be read as IR text"):
        glow_nb.load(path)
    path.write_bytes(b"\xff\xfe\x00func")
    with pytest.raises(ModelError, match="cannot be read as IR text"):
        glow_nb.load(path)
    path.write_text("func @main() -> () { % }")
    with pytest.raises(ParseError, match="net.glow:1:"):
        glow_nb.load(path)
    archive = tmp_path / "net.npz"
    for content in (b"", b"not a zip", b"PK\x03\x04 truncated"):
        archive.write_bytes(content)
        with pytest.raises(ModelError, match="not an archive of constants"):
            load_constants(archive)


def test_a_network_describes_itself(net: Network) -> None:
    assert repr(net).startswith(
        "<CompiledNetwork main (x: float32<2 x 3>, y: float32<2 x 3>) -> "
        "(total: float32<2 x 3>, product_out: float32<2 x 3>), arena"
    )
    assert [kernel.origin for kernel in net.kernels] == ["sum", "product"]


def test_memory_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    b = glow_nb.Builder("main")
    x = b.input("x", "float32<8 x 8>")
    b.save(b.emit(ops.Softmax(b.emit(ops.MatMul(x, x)), axis=1)), "y")
    net = glow_nb.compile(b.function(), backend="interpreter")
    net.memory.plot(tmp_path / "map.png", title="a title")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(GlowError, match="cannot be written"):
        net.memory.plot(str(tmp_path / "missing" / "map.png"))


def test_without_matplotlib_its_packages_are_named(
    net: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in ("memory_map", "style"):
        monkeypatch.delitem(sys.modules, f"glow_nb.network.pictures.{name}", raising=False)
    with pytest.raises(
        OptionError, match="matplotlib is not installed; pip install matplotlib pillow"
    ):
        net.memory.plot(tmp_path / "map.png")
