"""What is left of process devices that have ended: no process, memory or descriptor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from glow_nb.runtime.deployable import Deployable
from tests.unit.runtime.deployables import feed
from tests.unit.runtime.devices.conftest import Open
from tests.unit.runtime.devices.waiting import has_ended, wait_until, worker_of

pytestmark = [
    pytest.mark.jit,
    pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's /proc"),
]
ROOT = Path(__file__).parents[4]


def descriptors() -> list[str]:
    """Return what the open descriptors of this process lead to."""
    folder = Path("/proc/self/fd")
    found = []
    for entry in folder.iterdir():
        try:
            found.append(str(entry.readlink()))
        except OSError:  # that of this very listing
            continue
    return found


def segments() -> set[str]:
    """Return the shared memory that has names; other processes give some for a moment."""
    return set(os.listdir("/dev/shm"))


def test_nothing_stays_behind(opened: Open, native: Deployable) -> None:
    names, before = segments(), descriptors()
    devices = [opened("process", name=name) for name in ("a", "b", "c")]
    workers = [worker_of(device) for device in devices]
    for device in devices:
        device.add("net", native)
        device.run("net", [feed(0)])
    os.kill(workers[0], signal.SIGKILL)
    devices[1].kill("it is not wanted")
    for device in devices:
        device.close()
    wait_until(lambda: all(map(has_ended, workers)))
    wait_until(lambda: segments() <= names)
    del device, devices
    wait_until(lambda: len(descriptors()) <= len(before))


def test_a_network_that_is_evicted_leaves_no_memory(device: Any, native: Deployable) -> None:
    def mapped() -> int:
        return Path(f"/proc/{worker_of(device)}/maps").read_text(encoding="ascii").count("memfd")

    held, before = mapped(), len(descriptors())
    for _ in range(3):
        device.add("more", native)
        device.run("more", [feed(0)])
        assert mapped() > held
        device.evict("more")
        device.run("net", [feed(0)])  # until it has forgotten the other one
    assert mapped() == held
    assert len(descriptors()) <= before


PARENT = """
import sys, time
from pathlib import Path
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.devices.open_device import open_device
from tests.unit.runtime.deployables import feed, square

device = open_device(DeviceDescription("d", kind="process"))
device.add("net", square(Path(sys.argv[1])))
device.run("net", [feed(0)])
print(device._engine._child.process.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("is_stopped", [False, True])
def test_nothing_stays_behind_a_parent_that_is_killed(tmp_path: Path, is_stopped: bool) -> None:
    names = segments()
    assert_ends_with_its_parent(PARENT, tmp_path, is_stopped)
    wait_until(lambda: segments() <= names)


def test_a_system_that_sends_no_signal_at_the_end_of_a_parent(tmp_path: Path) -> None:
    text = "import sys\nsys.platform = 'other'\n"
    text += "from glow_nb.runtime.devices.process_worker import main\nmain()\n"
    (tmp_path / "other_worker.py").write_text(text)
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    script += "from glow_nb.runtime.devices import process\n"
    script += f"process.WORKER_MODULE = 'other_worker'\n{PARENT}"
    assert_ends_with_its_parent(script, tmp_path, is_stopped=False)


def assert_ends_with_its_parent(script: str, folder: Path, is_stopped: bool) -> None:
    """Kill the parent, with a worker that was perhaps stopped, and wait for the worker's end."""
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    if is_stopped:
        os.kill(worker, signal.SIGSTOP)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: has_ended(worker))
