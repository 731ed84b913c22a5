"""Workers wait for more kernels while somebody wants that, and are never in the way of the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from glow_nb.base.errors import CompileError
from glow_nb.codegen import pool, workers
from glow_nb.codegen.pool import choose_workers
from glow_nb.codegen.workers import compile_in_workers, idle_workers, keep_workers
from glow_nb.kernels.target import Target
from tests.unit.codegen.samples import Owner, source
from tests.unit.codegen.test_pool import numbered

pytestmark = pytest.mark.jit
HOST = Target.host()


def compiled(*numbers: int, count: int = 1) -> int:
    return len(dict(compile_in_workers([numbered(n) for n in numbers], HOST, count)))


def processes() -> list[int]:
    return [worker._process.pid for worker in workers._IDLE._workers]


def test_without_an_owner_workers_end_with_their_kernels(no_worker_waits: None) -> None:
    assert compiled(1) == 1
    assert idle_workers() == 0


def test_the_same_worker_compiles_the_next_kernels_and_costs_no_start(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compiled(1, 2) == 2
    (first,) = processes()
    assert compiled(3) == 1
    assert processes() == [first]
    monkeypatch.setenv(pool.WORKERS_VARIABLE, "16")
    few = [numbered(n) for n in range(2)]
    assert choose_workers(few) == 1


def test_workers_go_with_their_owner(no_worker_waits: None) -> None:
    owner = Owner()
    keep_workers(owner)
    compiled(1)
    (process,) = processes()
    del owner
    assert idle_workers() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_workers_do_not_wait_for_ever(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "IDLE_SECONDS", 0.05)
    compiled(1)
    deadline = time.monotonic() + 30
    while idle_workers() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert idle_workers() == 0


def test_a_worker_that_was_killed_while_it_waited_is_replaced(owner: Owner) -> None:
    compiled(1)
    (process,) = processes()
    os.kill(process, signal.SIGKILL)
    workers._IDLE._workers[0]._process.wait()
    assert compiled(2) == 1
    assert processes() != [process]


def test_nobody_waits_for_a_worker_that_is_still_starting_when_all_is_compiled(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiled(1)
    first = processes()
    (tmp_path / "never_ready.py").write_text("import sys; sys.stdin.read()")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(workers, "WORKER_MODULE", "never_ready")
    done: list[int] = []
    compiling = threading.Thread(target=lambda: done.append(compiled(2, 3, count=2)), daemon=True)
    compiling.start()
    compiling.join(60)
    assert done == [2] and processes() == first


def test_after_an_error_the_next_kernels_compile(owner: Owner) -> None:
    broken = source("def kernel(dest, scratch, thread, threads):\n    no such thing\n", arguments=1)
    with pytest.raises(CompileError, match="does not compile"):
        dict(compile_in_workers([broken], HOST, 1))
    assert compiled(1) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_leaves_the_workers_to_its_parent(owner: Owner) -> None:
    compiled(1)
    child = os.fork()
    if not child:
        os._exit(0 if idle_workers() == 0 and compiled(2) == 1 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    (process,) = processes()
    assert compiled(3) == 1
    assert processes() == [process]


SCRIPT = """
from tests.unit.codegen.samples import Owner
from tests.unit.codegen.test_workers import compiled, processes
from glow_nb.codegen.workers import keep_workers
owner = Owner()
keep_workers(owner)
compiled(1)
print(*processes())
"""


def test_workers_end_with_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[3],
        check=True,
    )
    assert not done.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_pipes_to_workers_are_no_standard_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon has closed its own; the first files that it opens get their numbers."""
    opened = iter([(0, 1), (2, 3), (5, 6)])
    closed: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "pipe", lambda: next(opened))
        patch.setattr(os, "close", closed.append)
        assert workers._pipe() == (5, 6)
    assert closed == [0, 1, 2, 3]
