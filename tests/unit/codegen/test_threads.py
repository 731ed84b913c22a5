"""Teams outlive nothing and nobody: forks, signals, exits and other threads leave them sound."""

from pathlib import Path

import pytest

from tests.in_turn import marked
from tests.unit.codegen.samples import run_python

pytestmark = pytest.mark.jit

START = """
import os, signal, sys, threading, time, warnings
import numpy as np
from glow_nb.codegen import threads
from tests.unit.codegen.samples import Chain, SIZE
threads.available_cores = lambda: 3  # on machines of two cores, too
warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what we test
chain = Chain(20)
program = chain.load(threads=3)
x = np.ones(SIZE, np.float32)
expected = chain.expected(x)

def run():
    y = np.zeros(SIZE, np.float32)
    program.run_into([x], [y])
    assert (y == expected).all()

run()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one folder for all tests here, so that the kernel is compiled once."""
    return tmp_path_factory.mktemp("threads")


def check(script: str, folder: Path) -> None:
    assert run_python(START + script, folder).endswith("done\n")


def test_child_of_a_fork_makes_its_own_team(folder: Path) -> None:
    script = """
for _ in range(3):
    child = os.fork()
    if child == 0:
        for _ in range(3):
            run()
        sys.exit(0)  # with all exit handlers, unlike multiprocessing
    assert os.waitpid(child, 0)[1] == 0
    run()
print("done")
"""
    check(script, folder)


def test_fork_in_the_midst_of_a_run_of_another_thread(folder: Path) -> None:
    script = """
stop = False
def work():
    while not stop:
        run()
thread = threading.Thread(target=work)
thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        run()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop = True
thread.join()
print("done")
"""
    check(script, folder)


def test_signals_never_leave_a_team_half_started(folder: Path) -> None:
    script = """
class Alarm(Exception): pass
def ring(*_):
    raise Alarm
signal.signal(signal.SIGALRM, ring)
rung = 0
for delay in range(400):
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-6 + delay * 1e-6)
        run()
        time.sleep(0.0005)
    except Alarm:
        rung += 1
signal.setitimer(signal.ITIMER_REAL, 0)
assert rung > 300, rung
run()
print("done")
"""
    check(script, folder)


@pytest.mark.parametrize("again", marked(range(3), only=[0]))
def test_interpreter_ends_while_daemon_threads_run(folder: Path, again: int) -> None:
    """The slow run has it three times, as it depends on where the threads are."""
    script = """
def work():
    while True:
        run()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
print("done")
"""
    check(script, folder)


def test_run_from_an_exit_handler(folder: Path) -> None:
    check("import atexit\natexit.register(lambda: (run(), print('done')))\n", folder)


def test_program_collected_while_its_threads_wait(folder: Path) -> None:
    script = """
for _ in range(50):
    program = chain.load(threads=3)
    run()
print("done")
"""
    check(script, folder)


def test_workers_need_no_python_lock(folder: Path) -> None:
    script = """
sys.setswitchinterval(0.2)
stop = False
def spin():
    while not stop:
        pass
hog = threading.Thread(target=spin)
hog.start()
start = time.perf_counter()
run()
# One wait for the lock on the way out of the native call, none per worker and barrier.
assert time.perf_counter() - start < 2
stop = True
hog.join()
print("done")
"""
    check(script, folder)
