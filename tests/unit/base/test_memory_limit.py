"""What needs more memory than the process may have ends in one error, when it is compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from typing_extensions import override

import glow_nb
from glow_nb.base import memory_limit as limits
from glow_nb.base.errors import MemoryLimitError
from glow_nb.base.memory_limit import MemoryLimit, memory_limit
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from tests.unit.formats.onnx.importer.models import model, value, weight

HUGE = 1 << 33


@pytest.fixture
def four_gibibytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "memory_limit", lambda: MemoryLimit(4 << 30, "a test"))


def expanded() -> onnx.ModelProto:
    shape = weight("s", np.array([HUGE]))
    nodes = [helper.make_node("Expand", ["x", "s"], ["y"])]
    return model(nodes, [value("x", (1,))], ["y"], [shape])


def doubled(count: int = 34, copies: int = 2) -> onnx.ModelProto:
    """Return the largest of an input that is joined with its *copies*, *count* times."""
    names = ["x", *(f"double{i}" for i in range(count - 1)), "y"]
    nodes = [helper.make_node("Concat", [a] * copies, [b], axis=0) for a, b in pairwise(names)]
    last = helper.make_node("ReduceMax", ["y"], ["z"])
    return model([*nodes, last], [value("x", (1,))], ["z"])


@pytest.mark.usefixtures("four_gibibytes")
class TestCompile:
    @pytest.mark.parametrize("backend", ["cpu", "interpreter"])
    def test_a_large_output_is_refused(self, backend: str) -> None:
        with pytest.raises(MemoryLimitError) as caught:
            glow_nb.compile(expanded(), backend=backend)
        message = str(caught.value)
        assert f"inputs and outputs {4 * HUGE + 4} bytes (32.00 GiB)" in message
        assert "but the process may use 4294967296 bytes (4.00 GiB) (a test)" in message
        assert f"the largest tensors are %y : float32<{HUGE}> 34359738368 bytes" in message

    @pytest.mark.parametrize("backend", ["cpu", "interpreter"])
    def test_a_large_arena_is_refused(self, backend: str) -> None:
        with pytest.raises(MemoryLimitError, match=r"arena [0-9]{11,} bytes") as caught:
            glow_nb.compile(doubled(), backend=backend)
        assert f"float32<{1 << 34}>" in str(caught.value)

    def test_what_fits_is_compiled(self) -> None:
        net = glow_nb.compile(doubled(10), backend="interpreter")
        assert net.run(np.ones(1, np.float32))["z"].tolist() == [1.0]


def test_large_constants_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "memory_limit", lambda: MemoryLimit(1 << 16, "a test"))
    b = Builder()
    w = b.constant("w", np.arange(1 << 16, dtype=np.float32))
    b.save(b.emit(ops.Add(b.input("x", "float32<65536>"), w)), "y")
    expected = "constants 262144 bytes, packing 262144 bytes, inputs and outputs 524288"
    with pytest.raises(MemoryLimitError, match=expected):
        glow_nb.compile(b.function(), backend="interpreter")


def test_open_sizes_are_compiled_where_their_example_has_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The example is a guess, and what is fed may be small."""
    monkeypatch.setattr(limits, "memory_limit", lambda: MemoryLimit(1 << 20, "a test"))
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    opened = model(nodes, [value("x", ("n", "m"))])
    net = glow_nb.compile(opened, sizes={"n": (1, 4096), "m": (1, 4096)}, backend="interpreter")
    assert net.run(np.ones((2, 3), np.float32))["y"].shape == (2, 3)


def test_large_constants_are_refused_with_open_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "memory_limit", lambda: MemoryLimit(1 << 16, "a test"))
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    large = weight("w", np.ones(1 << 16, np.float32))
    opened = model(nodes, [value("x", ("n", 1 << 16))], weights=[large])
    with pytest.raises(MemoryLimitError, match="memory .constants 262144 bytes"):
        glow_nb.compile(opened, sizes={}, backend="interpreter")


def test_constants_made_at_import_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "memory_limit", lambda: MemoryLimit(64 << 20, "a test"))
    shape = weight("s", np.array([32 << 20]))
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["large"]),
        helper.make_node("Add", ["x", "large"], ["y"]),
    ]
    proto = model(nodes, [value("x", (1,))], weights=[shape])
    expected = "node 'large' .*constants made at import 134217728"
    with pytest.raises(MemoryLimitError, match=expected):
        glow_nb.load(proto)


def test_what_the_process_has_already_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = MemoryLimit(1 << 20, "a test", used_bytes=(1 << 20) - 1000)
    monkeypatch.setattr(limits, "memory_limit", lambda: limit)
    limits.require_memory("it", {"arena": 1000})
    expected = r"it: it needs 1001 bytes .* and uses 1047576 bytes of it already; use smaller"
    with pytest.raises(MemoryLimitError, match=expected):
        limits.require_memory("it", {"arena": 1001})


def test_the_limit_that_leaves_least_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pages = tmp_path / "statm"
    pages.write_text("900 10 5 1 0 20 0\n")  # addresses, memory, and what nobody asks for
    page = os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(limits, "PROCESS_PAGES", pages)
    monkeypatch.setattr(
        limits, "_physical_memory", lambda: iter([MemoryLimit(500 * page, "memory")])
    )
    monkeypatch.setattr(
        limits, "_address_space", lambda: iter([MemoryLimit(1000 * page, "addresses")])
    )
    monkeypatch.setattr(limits, "PROCESS_GROUPS", tmp_path / "absent")
    assert memory_limit() == MemoryLimit(1000 * page, "addresses", used_bytes=900 * page)
    pages.unlink()
    assert memory_limit() == MemoryLimit(500 * page, "memory")


@pytest.mark.jit
def test_runs_at_the_same_time_need_an_arena_each(monkeypatch: pytest.MonkeyPatch) -> None:
    net = glow_nb.compile(doubled(7, 8), threads=1)
    assert net.memory.arena_bytes >= limits.CHECKED_BYTES
    monkeypatch.setattr(limits, "memory_limit", lambda: MemoryLimit(1 << 20, "a test"))
    with pytest.raises(MemoryLimitError, match="run: it needs .*arena"):
        net.run(np.ones(1, np.float32))


class Full(ops.Relu):
    """An operator that gets no memory."""

    @override
    def compute(self, x: object) -> object:
        raise MemoryError("Unable to allocate 8.00 GiB")


def test_evaluation_without_memory_names_the_node() -> None:
    b = Builder()
    b.save(b.emit(Full(b.input("x", "float32<3>")), "full"), "y")
    with pytest.raises(MemoryLimitError, match=r"relu %full : float32<3>: .*allocate 8\.00 GiB"):
        evaluate(b.function(), {"x": np.zeros(3, np.float32)})


SCRIPT = """
import resource, sys
from functools import partial
import numpy as np
import glow_nb
from tests.unit.base.test_memory_limit import doubled

net = glow_nb.compile(doubled(9, 8), backend=sys.argv[1], threads=1)
pages = int(open("/proc/self/statm").read().split()[0])
size = pages * resource.getpagesize() + (64 << 20)
resource.setrlimit(resource.RLIMIT_AS, (size, size))
# The machine's limits are measured by compiled code: LLVM is not to be loaded now.
work = net.run if sys.argv[2] == "run" else partial(net.profile, limits=False)
attempts = (
    lambda: work(np.ones(1, np.float32)),
    lambda: glow_nb.compile(doubled(10, 8), backend=sys.argv[1], threads=1),
)
for attempt in attempts:
    try:
        attempt()
    except glow_nb.GlowError as error:
        print(type(error).__name__, error)
"""


@pytest.mark.jit
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits need Linux")
@pytest.mark.parametrize(
    ("backend", "what"),
    [
        ("cpu", "run"),
        pytest.param("interpreter", "run", marks=pytest.mark.slow),
        ("interpreter", "profile"),
    ],
)
def test_memory_that_is_gone_at_run_time_is_one_error(backend: str, what: str) -> None:
    """The slow run also has runs of the interpreter, which a profile does as well."""
    command = [sys.executable, "-c", SCRIPT, backend, what]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    run, compiled = finished.stdout.splitlines()
    if (backend, what) == ("cpu", "run"):
        assert run.startswith("MemoryLimitError run: it needs")
        assert " of it already; use smaller sizes" in run
    else:
        assert run.startswith("MemoryLimitError network 'main'")
        assert "the system gave no more memory" in run
    assert compiled.startswith("MemoryLimitError network 'main': it needs")
    assert "the limit of its address space, ulimit -v" in compiled


class TestControlGroups:
    @pytest.fixture
    def root(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(limits, "GROUP_ROOT", tmp_path / "cgroup")
        monkeypatch.setattr(limits, "PROCESS_GROUPS", tmp_path / "list")
        return tmp_path

    def limit(self, root: Path, lines: str, **files: str) -> int:
        (root / "list").write_text(lines)
        for name, text in files.items():
            path = root / "cgroup" / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        found = memory_limit()
        assert found is not None
        assert found.source == "its control group"
        return found.size_bytes

    def test_version_2(self, root: Path) -> None:
        files = {"a__b__memory_dot_max": "max\n", "a__memory_dot_max": "1000\n"}
        assert self.limit(root, "0::/a/b\n", **files) == 1000

    def test_version_1(self, root: Path) -> None:
        name = "memory__job__memory_dot_limit_in_bytes"
        lines = "5:cpu,cpuacct:/x\n4:memory:/job\n0::/\n"
        assert self.limit(root, lines, **{name: "2000\n"}) == 2000

    def test_path_of_the_host(self, root: Path) -> None:
        assert self.limit(root, "0::/docker/1\n", memory_dot_max="3000\n") == 3000

    def test_path_that_leaves_the_root(self, root: Path) -> None:
        assert self.limit(root, "0::/../other\n", memory_dot_max="4000\n") == 4000

    def test_none(self, root: Path) -> None:
        found = memory_limit()
        assert found is None or found.source != "its control group"
        assert root.exists()
