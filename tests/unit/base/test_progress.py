"""Long work shows how far it is: a bar on a terminal, elsewhere lines."""

from __future__ import annotations

import _thread
import io
import logging
import re
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import glow_nb
from glow_nb.base import progress
from glow_nb.base.progress import report, shown
from glow_nb.hlir.ops import Mul, Relu
from glow_nb.train import SGD, MeanSquaredError, Trainer

LONGEST_SECONDS = 20


class Watched(io.StringIO):
    """Standard error, which tells when something was written."""

    def __init__(self, is_terminal: bool = False) -> None:
        super().__init__()
        self.is_terminal, self.is_written = is_terminal, threading.Event()

    @override
    def isatty(self) -> bool:
        return self.is_terminal

    @override
    def write(self, text: str) -> int:
        written = super().write(text)
        if text.strip():
            self.is_written.set()
        return written

    def wait_for(self, text: str) -> None:
        while text not in self.getvalue():
            self.is_written.clear()
            if text not in self.getvalue():
                assert self.is_written.wait(LONGEST_SECONDS), self.getvalue()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Standard error of a program that has not set up logging."""
    stream = Watched()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    monkeypatch.setattr(progress, "LINE_SECONDS", 1e-3)
    monkeypatch.setattr(progress, "LOGGER", logging.Logger("of the test"))
    return stream


def test_work_that_takes_long_writes_lines_with_its_stage(watched: Watched) -> None:
    with shown("compiling a"):
        report("kernels", 3, 80)
        watched.wait_for("kernels")
        report("loading")
        watched.wait_for("loading")
    lines = watched.getvalue().splitlines()
    assert any(re.fullmatch(r"compiling a: kernels 3 of 80, \d+ s", line) for line in lines)
    assert any(re.fullmatch(r"compiling a: loading, \d+ s", line) for line in lines)


def test_work_that_ends_soon_writes_nothing(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", LONGEST_SECONDS)
    with shown("compiling a"):
        report("kernels", 3, 80)
    assert watched.getvalue() == ""


def test_work_within_work_is_a_stage_of_it(watched: Watched) -> None:
    with shown("training"):
        with shown("compiling a"):
            report("kernels", 3, 80)
        watched.wait_for("kernels")
        report("epoch 2")
        watched.wait_for("epoch 2")
    assert "compiling a" not in watched.getvalue()


def test_log_gets_the_lines_if_there_is_one(watched: Watched) -> None:
    log = Watched()
    handler = logging.StreamHandler(log)
    progress.LOGGER.addHandler(handler)
    with shown("compiling a"):
        report("kernels", 3, 80)
        log.wait_for("compiling a: kernels 3 of 80")
    assert watched.getvalue() == ""
    with shown("training", wanted=True):
        watched.wait_for("training")


def test_log_that_takes_warnings_alone_gets_no_lines(watched: Watched) -> None:
    progress.LOGGER.addHandler(logging.NullHandler())
    progress.LOGGER.setLevel("WARNING")
    before = threading.active_count()
    with shown("compiling a"):
        assert threading.active_count() == before


def test_nothing_is_shown_where_nobody_wants_it(watched: Watched) -> None:
    before = threading.active_count()
    with shown("training", wanted=False), shown("compiling a"):
        report("kernels", 3, 80)
        assert threading.active_count() == before


def test_terminal_has_one_bar_which_vanishes(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "BAR_SECONDS", 1e-3)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stderr", watched)
    watched.is_terminal = True
    with shown("compiling [b]a[/b]"):
        report("kernels", 3, 80)
        watched.wait_for("compiling [b]a[/b]: kernels 3 of 80")
        report("loading")
        watched.wait_for("loading")
        assert progress._Bar.is_free.locked()
    assert not progress._Bar.is_free.locked()
    assert watched.getvalue().endswith("\x1b[2K")  # the line of the bar is erased


def test_interrupt_ends_what_is_shown(watched: Watched) -> None:
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt), shown("compiling a"):
        raise KeyboardInterrupt
    assert threading.active_count() == before
    with shown("compiling b"):
        watched.wait_for("compiling b")


def test_line_is_dropped_if_standard_error_is_closed(watched: Watched) -> None:
    with shown("compiling a"):
        watched.wait_for("compiling a")
        watched.close()
        report("loading")


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that is reported in the course of a test."""
    told: list[str] = []

    class Told(progress._Work):
        @override
        def __setattr__(self, name: str, value: Any) -> None:
            if name == "stage":
                told.append(f"{self.name}: {value}")
            super().__setattr__(name, value)

    monkeypatch.setattr(progress, "_Work", Told)
    return told


def network() -> glow_nb.Function:
    builder = glow_nb.Builder("layer")
    builder.save(builder.emit(Relu(builder.input("x", "float32<7>"))), "y")
    return builder.function()


@pytest.mark.jit
def test_compile_tells_of_passes_weights_and_kernels(
    stages: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOW_NB_CACHE_DIR", str(tmp_path))
    glow_nb.compile(network(), threads=1)
    text = "\n".join(stages)
    assert set(re.findall(r"^[^:]*", text, re.M)) == {"compiling layer"}
    for stage in ("pass fold_constants", "step lower", "writing the kernels", "kernels 1 of 1"):
        assert f"compiling layer: {stage}\n" in text


def test_fit_tells_of_epochs_and_batches(stages: list[str]) -> None:
    builder = glow_nb.Builder("layer")
    weight = builder.constant("w", np.ones(2, np.float32))
    product = builder.emit(Mul(builder.input("x", "float32<2>"), weight))
    builder.save(product, "y")
    trainer = Trainer(
        builder.function(), loss=MeanSquaredError(), optimizer=SGD(), backend="interpreter"
    )
    ones = np.ones(2, np.float32)
    trainer.fit([(ones, ones)], 2)
    assert stages[-1] == "training: epoch 2 of 2, loss 0, batch 1 of 1"


def test_nobody_waits_for_a_thread_that_ended_before_it_began(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is where memory is short."""
    begun: list[object] = []

    def start(*job: object) -> int:
        begun.append(job)
        return 1

    monkeypatch.setattr(_thread, "start_new_thread", start)
    with shown("work"):
        assert begun
    assert not watched.getvalue()
