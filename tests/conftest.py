"""What every test shares: hypothesis profiles and a cache folder that is not the user's."""

import dataclasses
import gc
import os
import pickle
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import onnx
import pytest
from hypothesis import HealthCheck, settings

from glow_nb.codegen import sharing
from glow_nb.codegen.pool import WORKERS_VARIABLE
from glow_nb.codegen.sharing import Sharing
from glow_nb.kernels.machine.machine import Machine
from glow_nb.kernels.machine.rows import ROWS
from glow_nb.kernels.target import CACHES_VARIABLE
from glow_nb.system.replaced_files import replace_file

# The default run repeats the same examples, so that a failure is the fault of the change at hand;
# the slow profile looks for new ones. Compiling takes longer than hypothesis's deadline allows.
_SUPPRESSED = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile(
    "default",
    max_examples=12,
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=_SUPPRESSED,
)
settings.register_profile(
    "slow", max_examples=200, deadline=None, print_blob=True, suppress_health_check=_SUPPRESSED
)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the tests be run with the caches of several processors."""
    text = "the processor whose caches the tests see instead of this one's"
    parser.addoption("--core", choices=list(ROWS), default="zen3", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled kernels beside pytest's own cache: reruns are fast, the user's stays clean.

    The caches that kernels are written for are those of one processor on every machine, also in
    the processes that tests start. Nothing chooses processes that compile; what asks for a number
    of them gets them. To start one takes longer than most kernels of tests, and other tests use the
    other cores.

    A script that runs the tests in the background makes them, and every program they start, deaf to
    SIGINT; some tests send it.
    """
    os.environ[CACHES_VARIABLE] = config.getoption("--core")  # before tests ask for the target
    os.environ[WORKERS_VARIABLE] = "0"
    gc.set_threshold(50_000, 20, 20)  # collecting the tests makes 300,000 objects that stay
    sys.dont_write_bytecode = False  # else each process that tests start compiles all modules
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cache: pytest.Cache | None = getattr(config, "cache", None)  # absent with -p no:cacheprovider
    if cache is not None:
        os.environ.setdefault("GLOW_NB_CACHE_DIR", str(cache.mkdir("glow_nb_kernels")))
    os.environ["GLOW_NB_CACHE_NETWORKS"] = "0"  # what a test compiles, it compiles each time
    os.fsync = _leave_to_the_system
    if config.getoption("--hypothesis-profile", default=None) != "slow":
        _draw_nothing_of_the_sources()


def _draw_nothing_of_the_sources() -> None:
    """Have hypothesis draw no numbers and words that stand in the project's modules.

    Each worker would read all of these before its first test, for four seconds, and the examples of
    the default run would be others after a change of any module. The slow run has these numbers.
    Releases of hypothesis that draw nothing of the sources, or in another way, stay as they are.
    """
    providers = vars(sys.modules.get("hypothesis.internal.conjecture.providers", sys))
    if {"_get_local_constants", "_local_constants"} <= providers.keys():
        nothing = providers["_local_constants"]
        providers["_get_local_constants"] = lambda: nothing


def _leave_to_the_system(fd: object) -> None:
    """Stand in for fsync, which waits tens of milliseconds for the disk.

    It matters to a machine that loses its power; a process that is killed leaves what it has
    written. ``tests/unit/system/test_replaced_files.py`` looks at what is sent to the disk, when.
    """


def pytest_collection_finish() -> None:
    """Have the garbage collector look only at what tests make, not at the tests themselves."""
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def objects_of_earlier_modules_stay() -> None:
    """Have the garbage collector look at no objects that tests of other modules have left.

    Tests that ask it what is alive would otherwise wait for half a second each time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def node_cases(request: pytest.FixtureRequest) -> list[Any]:
    """Return ONNX's own node tests; they take seconds to make, and are kept for all workers."""
    from tests.quick_pools import QUICK_POOLS, quick_node_tests

    cache: pytest.Cache | None = getattr(request.config, "cache", None)
    if cache is None:
        return quick_node_tests()
    path = cache.mkdir("onnx_node_tests") / f"{onnx.__version__}-{QUICK_POOLS}.pickle"
    if not path.exists():
        payload = pickle.dumps(quick_node_tests())
        replace_file(path, lambda place: place.write_bytes(payload))
    found: list[Any] = pickle.loads(path.read_bytes())
    return found


@pytest.fixture(scope="module")
def sharing_is_free() -> Iterator[None]:
    """Let threads share every kernel that has work: those of small graphs, too."""
    from glow_nb.backends.cpu import planned_calls

    with pytest.MonkeyPatch.context() as patch:

        def plan_sharing(
            work_ns: Sequence[float], waits: Sequence[bool], threads: int, machine: Machine
        ) -> Sharing:
            free = dataclasses.replace(machine, start_ns=0, barrier_ns=0, barrier_thread_ns=0)
            return sharing.plan_sharing(work_ns, waits, threads, free)

        patch.setattr(planned_calls, "plan_sharing", plan_sharing)
        yield
