"""Kernels that another process compiles are waited for, and made here if that process ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from glow_nb.codegen import kernel_locks
from glow_nb.codegen.cache import ObjectCache
from glow_nb.codegen.kernel_locks import KernelLocks

ONE, TWO = "1" * 64, "2" * 64

OTHER = f"""
import sys
from pathlib import Path
from glow_nb.codegen.kernel_locks import KernelLocks
with KernelLocks(Path(sys.argv[1])) as locks:
    print(locks.take({ONE!r}), flush=True)
    for line in sys.stdin:
        locks.release({ONE!r})
        print("released", flush=True)
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that has locked the first kernel."""
    command = [sys.executable, "-c", OTHER, str(tmp_path)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "True\n"
        yield process
        process.kill()


def test_what_another_process_compiles_is_waited_for(
    other: subprocess.Popen[str], tmp_path: Path
) -> None:
    cache = ObjectCache(tmp_path)
    looks: list[None] = []

    def load() -> bytes | None:
        looks.append(None)
        if len(looks) == 3:
            cache.store("kernel", ONE, b"object")
        return cache.load("kernel", ONE)

    with KernelLocks(tmp_path) as locks:
        assert locks.take(TWO) and locks.has(TWO)
        assert not locks.take(ONE) and not locks.has(ONE)
        assert locks.wait_for(ONE, load) == b"object"
        assert len(looks) == 3 and not locks.has(ONE)


@pytest.mark.parametrize("end", ["kill", "release"])
def test_what_it_does_not_make_is_made_here(
    other: subprocess.Popen[str], tmp_path: Path, end: str
) -> None:
    with KernelLocks(tmp_path) as locks:
        assert not locks.take(ONE)
        if end == "kill":
            other.kill()
            other.wait()
        else:
            assert other.stdin is not None and other.stdout is not None
            other.stdin.write("\n")
            other.stdin.flush()
            assert other.stdout.readline() == "released\n"
        assert locks.wait_for(ONE, lambda: None) is None
        assert locks.has(ONE)


def test_who_is_stopped_is_not_waited_for_for_ever(
    other: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_locks, "PATIENCE_SECONDS", 0)
    with KernelLocks(tmp_path) as locks:
        assert locks.wait_for(ONE, lambda: None) is None
        assert not locks.has(ONE)


def test_without_a_folder_everything_is_made_here(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (None, tmp_path / "file" / "folder"):
        with KernelLocks(folder) as locks:
            assert locks.take(ONE) and locks.has(TWO)
            assert locks.wait_for(TWO, lambda: None) is None
