"""Tasks in the background, in order, with a future each."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from functools import partial

import pytest

from glow_nb.base.errors import GlowError
from glow_nb.system.background import Background


def test_tasks_run_in_order_on_another_thread() -> None:
    background, seen = Background(), list[int]()
    for future in [background.submit(partial(seen.append, n)) for n in range(5)]:
        future.result(30)
    assert seen == list(range(5))
    assert background.submit(threading.get_ident).result(30) != threading.get_ident()


def test_an_error_is_in_its_future_and_the_next_task_runs() -> None:
    background = Background()
    broken = background.submit(lambda: 1 // 0)
    assert background.submit(lambda: 2).result(30) == 2
    with pytest.raises(ZeroDivisionError):
        broken.result(30)


def test_the_thread_ends_when_nothing_is_left_and_comes_again() -> None:
    background = Background()
    for _ in range(2):
        background.submit(lambda: None).result(30)
        for thread in background.stop():
            thread.join(30)
        assert not background.stop()


def test_several_threads_do_several_tasks_at_the_same_time() -> None:
    background, meeting = Background(threads=2), threading.Barrier(2)
    for future in [background.submit(partial(meeting.wait, 30)) for _ in range(2)]:
        future.result(30)


def test_a_future_is_awaited() -> None:
    background = Background()

    async def results() -> list[int]:
        return await asyncio.gather(*(background.submit(partial(pow, 2, n)) for n in range(3)))

    assert asyncio.run(results()) == [1, 2, 4]


def test_without_a_thread_the_task_is_refused_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    background = Background()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(GlowError, match="the system gives no thread"):
            background.submit(lambda: 1)
    assert background.submit(lambda: 2).result(30) == 2


def test_stopping_cancels_what_waits() -> None:
    background, opened, began = Background(), threading.Event(), threading.Event()

    def task() -> bool:
        began.set()
        return opened.wait(30)

    running, waiting = background.submit(task), background.submit(task)
    assert began.wait(30)
    threads = background.stop()
    assert waiting.cancelled() and len(threads) == 1
    opened.set()
    assert running.result(30)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_a_task_of_its_parent() -> None:
    background, begun, release = Background(), threading.Event(), threading.Event()

    def task() -> bool:
        begun.set()
        return release.wait(30)

    future = background.submit(task)
    assert begun.wait(30)
    child = os.fork()
    if not child:
        signal.alarm(20)  # a child that hangs is ended
        error = future.exception(10)
        is_new_done = background.submit(lambda: 2).result(10) == 2
        os._exit(0 if isinstance(error, GlowError) and is_new_done else 1)
    release.set()
    assert os.waitpid(child, 0)[1] == 0
    assert future.result(30)
