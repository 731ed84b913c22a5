"""Sizes of a dynamic network that are compiled ahead, in the background."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import wait
from pathlib import Path

import pytest

import glow_nb
from glow_nb.base.errors import ModelError, OptionError
from glow_nb.base.passes import PassRun
from tests.unit.network.test_dynamic import Gate, check, dynamic, model


class TestPrepare:
    def test_sets_of_sizes_are_compiled_in_the_background(self) -> None:
        net = dynamic()
        futures = [net.prepare({"batch": batch, "width": 3}) for batch in (1, 2)]
        assert [future.result(30).sizes for future in futures] == [
            "batch = 1, width = 3",
            "batch = 2, width = 3",
        ]
        runs = len(net.variants)
        check(net, 2, 3)
        assert len(net.variants) == runs == 2

    def test_whole_shapes_will_do(self) -> None:
        net = dynamic()
        prepared = net.prepare({"x": (2, 2, 7), "z": (2, 1)}).result(30)
        assert prepared.sizes == "batch = 2, width = 7"
        check(net, 2, 7)
        assert net.variants == (prepared,)

    def test_what_does_not_fit_is_told_at_once(self) -> None:
        net = dynamic()
        with pytest.raises(ModelError, match=r"dimensions \['width'\] have no size"):
            net.prepare({"batch": 2})
        with pytest.raises(OptionError, match="no symbolic dimension 'bath'"):
            net.prepare({"bath": 2, "width": 3})
        with pytest.raises(OptionError, match="shapes=None"):
            net.prepare(None)  # type: ignore[arg-type]

    def test_an_error_of_the_compiler_is_in_the_future_and_tried_again(self) -> None:
        broken = True

        def observer(run: PassRun) -> None:
            if broken:
                raise glow_nb.GlowError("not now")

        net = dynamic(observer=observer)
        future = net.prepare({"batch": 2, "width": 2})
        assert isinstance(future.exception(30), glow_nb.GlowError)
        broken = False
        check(net, 2, 2)

    def test_what_has_not_begun_can_be_cancelled(self) -> None:
        gate = Gate()
        net = dynamic(observer=gate)
        first, second = (net.prepare({"batch": n, "width": 2}) for n in (1, 2))
        assert gate.reached.wait(30)
        assert second.cancel() and not first.cancel()
        gate.opened.set()
        wait([first, second], 30)
        assert [variant.sizes for variant in net.variants] == ["batch = 1, width = 2"]

    @pytest.mark.parametrize("ahead", [False, True])
    def test_an_observer_may_use_other_sizes_while_it_is_told(self, ahead: bool) -> None:
        asked: list[int] = []

        def observer(run: PassRun) -> None:
            if run.name != "schedule" or asked:
                return
            asked.append(1)
            if ahead:
                assert net.prepare({"batch": 7, "width": 2}).result(30).sizes
            else:
                check(net, 7, 2)

        net = dynamic(observer=observer, sizes="each")
        assert net.prepare({"batch": 2, "width": 2}).result(60)
        assert [variant.sizes for variant in net.variants] == [
            "batch = 7, width = 2",
            "batch = 2, width = 2",
        ]

    def test_an_observer_may_not_use_the_sizes_that_are_compiled(self) -> None:
        def observer(run: PassRun) -> None:
            check(net, 2, 2)

        net = dynamic(observer=observer)
        with pytest.raises(glow_nb.GlowError, match="leave the network alone"):
            check(net, 2, 2)

    def test_a_network_of_fixed_sizes_is_prepared(self) -> None:
        net = glow_nb.compile(model(), backend="interpreter", shapes={"batch": 3, "width": 5})
        assert net.prepare({"x": (3, 2, 5)}).result() is net
        with pytest.raises(OptionError, match="sizes of this network are fixed"):
            net.prepare({"batch": 3})


PREPARES = """
import sys
sys.path.insert(0, {folder!r})
from tests.unit.network.test_dynamic import model
import glow_nb
net = glow_nb.compile(model(), threads=1)
futures = [net.prepare({{"batch": batch, "width": 40}}) for batch in range(1, 9)]
print("prepared")
"""


@pytest.mark.jit
def test_the_end_of_the_program_does_not_wait_for_the_background(tmp_path: Path) -> None:
    folder = str(Path(__file__).parents[3])
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PREPARES.format(folder=folder)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "GLOW_NB_CACHE_DIR": str(tmp_path)},
        check=True,
    )
    assert done.stdout == "prepared\n" and not done.stderr
    assert time.monotonic() - started < 30


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_can_compile_what_its_parent_was_compiling() -> None:
    gate = Gate()
    net = dynamic(observer=gate)
    future = net.prepare({"batch": 2, "width": 2})
    assert gate.reached.wait(30)
    child = os.fork()
    if not child:
        try:
            gate.opened.set()
            threading.Timer(20, os._exit, (2,)).start()
            check(net, 2, 2)
            net.prepare({"batch": 3, "width": 2}).result(20)
        except BaseException:
            os._exit(1)
        os._exit(0)
    gate.opened.set()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert future.result(30)
