"""What one thread makes, the others wait for; what it gives up, one of them makes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from glow_nb.base.errors import CompileError
from glow_nb.codegen import in_progress, pool
from glow_nb.codegen.cache import ObjectCache
from glow_nb.codegen.in_progress import KernelClaims
from glow_nb.codegen.pool import compile_objects
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from tests.unit.codegen.samples import source

HOST = Target.host()
NAME = ("symbol", "key")
FIRST, SECOND, THIRD = (
    source(f"# {number}\ndef kernel(x, scratch, thread, threads): ...") for number in range(3)
)


@pytest.fixture(autouse=True)
def nothing_is_left_in_progress() -> Iterator[None]:
    yield
    assert not in_progress._RESULTS


def test_an_object_belongs_to_who_claims_it_first() -> None:
    with KernelClaims() as mine, KernelClaims() as yours:
        assert mine.claim(NAME) is None
        theirs = yours.claim(NAME)
        assert theirs is not None
        assert not theirs.done()
        assert yours.claim(("another symbol", "key")) is None
        mine.finish(NAME, b"object")
        assert theirs.result() == b"object"
        assert yours.claim(NAME) is None, "whoever comes later looks into the cache"


def test_what_is_given_up_can_be_claimed() -> None:
    with KernelClaims() as yours:
        with pytest.raises(KeyboardInterrupt), KernelClaims() as mine:
            assert mine.claim(NAME) is None
            theirs = yours.claim(NAME)
            raise KeyboardInterrupt
        assert theirs is not None
        assert theirs.result() is None
        assert yours.claim(NAME) is None


class Compiler:
    """Stands in for the compilation: each kernel waits until the test lets it be done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: dict[str, list[Future[bytes]]] = {}
        self._changed = threading.Condition()
        monkeypatch.setattr(pool, "_compile_all", self._compile)

    def _compile(
        self, sources: list[KernelSource], *_: object
    ) -> Iterator[tuple[KernelSource, bytes]]:
        for each in sources:
            result: Future[bytes] = Future()
            with self._changed:
                self.begun.setdefault(each.symbol, []).append(result)
                self._changed.notify_all()
            yield each, result.result()

    def next(self, kernel: KernelSource, times: int = 1) -> Future[bytes]:
        """Wait until *kernel* is compiled for the time *times*; return what decides the result."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.begun.get(kernel.symbol, ())) == times)
            return self.begun[kernel.symbol][-1]


@contextmanager
def compiling(threads: int = 2) -> Iterator[Callable[..., Future[dict[str, bytes]]]]:
    """Give a function that compiles kernels in a thread."""
    with ThreadPoolExecutor(threads) as executor:
        yield lambda *kernels: executor.submit(
            compile_objects, kernels, HOST, cache=ObjectCache(None)
        )


def test_threads_compile_a_kernel_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(monkeypatch)
    with compiling() as submit:
        mine = submit(FIRST)
        first = compiler.next(FIRST)
        yours = submit(FIRST, SECOND)
        second = compiler.next(SECOND)  # what it must compile itself comes before what it waits for
        second.set_result(b"second")
        first.set_result(b"first")
        assert mine.result() == {FIRST.symbol: b"first"}
        assert yours.result() == {FIRST.symbol: b"first", SECOND.symbol: b"second"}
    assert all(len(times) == 1 for times in compiler.begun.values())


def test_a_kernel_that_another_thread_gave_up_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(monkeypatch)
    with compiling() as submit:
        mine = submit(FIRST, SECOND)
        broken = compiler.next(FIRST)
        yours = submit(SECOND, THIRD)
        compiler.next(THIRD).set_result(b"third")
        broken.set_exception(CompileError("does not compile"))
        compiler.next(SECOND).set_result(b"second")
        assert yours.result() == {SECOND.symbol: b"second", THIRD.symbol: b"third"}
        assert isinstance(mine.exception(), CompileError)


def test_an_entry_is_made_once() -> None:
    cache, made, begun, may_end = ObjectCache(None), [], threading.Event(), threading.Event()

    def make() -> bytes:
        made.append(1)
        begun.set()
        may_end.wait()
        return b"entry"

    with ThreadPoolExecutor(2) as executor:
        mine = executor.submit(cache.load_or_make, *NAME, make)
        begun.wait()
        yours = executor.submit(cache.load_or_make, *NAME, make)
        may_end.set()
        assert mine.result() == yours.result() == b"entry"
    assert made == [1]
