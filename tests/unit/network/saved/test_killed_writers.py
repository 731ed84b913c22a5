"""Processes that are killed while they write a network, a bundle, or an entry of the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.network.saved.models import needs_loader

pytestmark = [needs_loader, pytest.mark.jit]

SCRIPT = '''
import os, sys, itertools
from pathlib import Path
import numpy as np
import glow_nb
from glow_nb.network.saved import cache, files
from glow_nb.hlir.ops import MatMul

OPERATIONS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.utime", "ctypes.dlsym"}
kind, root, step = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
X = np.ones((2, 4), np.float32)


def text(factor):
    b = glow_nb.Builder("net")
    w = b.constant("w", np.full((4, 3), factor, np.float32))
    b.save(b.emit(MatMul(b.input("x", "float32<2 x 4>"), w)), "y")
    return str(b.function())


def kill_at(number):
    count = itertools.count()

    def hook(event, arguments):
        if event not in OPERATIONS or (event == "open" and not is_written(arguments)):
            return
        if next(count) == number:
            os._exit(9)

    sys.addaudithook(hook)


def is_written(arguments):
    return isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)


def child(work, number=None):
    """Do *work* in a child that is killed at an operation; return how it ended."""
    process = os.fork()
    if not process:
        try:
            if number is not None:
                kill_at(number)
            work()
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def compiled(factor):
    return glow_nb.compile(text(factor), threads=1, cache=False)


def result(net):
    return float(net.run(X)["y"][0, 0])


place = root / "place"
old, new = compiled(1.0), compiled(2.0)


def write(net):
    if kind == "save":
        net.save(place)
    else:
        net.build(place, name="net")


def check():
    if kind == "save":
        assert result(glow_nb.load_compiled(place)) in (4.0, 8.0)
    else:
        import json
        manifest = json.loads((place / "manifest.json").read_text())
        assert sorted(path.name for path in place.iterdir()) == sorted(manifest["files"])
        constants = (place / "net.constants").read_bytes()
        values = [np.float32(v).tobytes() for v in (1, 2)]
        assert len(constants) == manifest["constants_bytes"]
        assert sum(value in constants for value in values) == 1


if kind == "cache":
    source = text(1.0)

    def use():
        from threading import enumerate as threads, main_thread
        net = glow_nb.compile(source, threads=1)
        assert result(net) == 4.0
        for thread in threads():
            if thread is not main_thread():
                thread.join()

    def used():
        code = child(use)
        assert code == 0, code

    kept = cache.NetworkCache()
    cache.SECONDS_OF_A_WRITER = 0
    for number in range(0, 1000, step):
        kept.clear()
        code = child(use, number)
        assert code in (0, 9), code
        used()
        used()
        assert len(kept.kept()) == 1, number
        if code == 0:
            break
    kept.trim()
    names = [path.name for path in kept.folder.iterdir()]
    assert not [name for name in names if name.startswith(".")], names
else:
    write(old)
    for number in range(0, 1000, step):
        code = child(lambda: write(new if number % 2 else old), number)
        assert code in (0, 9), code
        check()
        if code == 0:
            break
    write(new)
    check()
    assert os.listdir(root) == ["place"], os.listdir(root)
print(number)
'''


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        ("save", 5),
        pytest.param("save", 1, marks=pytest.mark.slow),
        pytest.param("build", 1, marks=pytest.mark.slow),
        pytest.param("cache", 1, marks=pytest.mark.slow),
    ],
)
def test_a_kill_leaves_right_numbers_and_nothing_else(kind: str, step: int, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    environment = {**os.environ, "GLOW_NB_CACHE_DIR": str(tmp_path / "cache")}
    del environment["GLOW_NB_CACHE_NETWORKS"]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind, str(root), str(step)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 10  # operations, each of which a process was killed at
