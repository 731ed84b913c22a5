"""Files of state: every kind comes back, others read them, and damaged ones are refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import GlowError, StateError
from glow_nb.hlir.graph import State
from glow_nb.network.state_files import load_state, save_state
from glow_nb.system.state_store import StateStore
from tests.in_turn import marked
from tests.unit.network.stateful import ONES, counter


def of_all_kinds() -> StateStore:
    rng = np.random.default_rng(0)
    kinds = ("bool", "uint8", "int8", "uint16", "int32", "uint64", "int64", "float16", "float64")
    states = [State.of(f"layer/{k} 1", rng.integers(0, 2, (2, 3)).astype(k)) for k in kinds]
    for kind in (
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
        ml_dtypes.int4,
    ):
        states.append(State.of(np.dtype(kind).name, rng.integers(-4, 4, (4,)).astype(kind)))
    states += [State.of("number", np.array(2.5, np.float32)), State.of("none", ONES[:0])]
    return StateStore(states)


def test_state_of_every_kind_comes_back_from_its_file(tmp_path: Path) -> None:
    state, other = of_all_kinds(), of_all_kinds()
    path = tmp_path / "state.safetensors"
    save_state(state, path)
    for name, array in other.items():
        other[name] = np.zeros_like(array)
    load_state(other, path)
    for name, array in state.items():
        assert other[name].dtype == array.dtype
        np.testing.assert_array_equal(other[name], array)
    assert os.listdir(tmp_path) == ["state.safetensors"]


def test_other_programs_read_the_file(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    net = glow_nb.compile(counter(State.of("total", 2 * ONES)), backend="interpreter")
    net.run(ONES)
    path = tmp_path / "total.safetensors"
    net.save_state(path)
    np.testing.assert_array_equal(load_file(path)["total"], 3 * ONES)
    net.run(ONES)
    net.load_state(path)
    np.testing.assert_array_equal(net.state["total"], 3 * ONES)


def test_a_file_of_another_network_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    save_state(StateStore([State.of("a", ONES), State.of("b", ONES)]), path)
    state = StateStore([State.of("a", ONES[:2]), State.of("c", ONES)])
    with pytest.raises(StateError) as caught:
        load_state(state, path)
    assert str(caught.value) == (
        f"{path}: not the state of this network: it lacks 'c' : float32<3>; it has "
        "'b' : float32<3>, which the network does not have; 'a' is float32<3>, the network has "
        "float32<2>; give its own file"
    )
    np.testing.assert_array_equal(state["c"], ONES)


def test_files_that_are_no_state_are_refused(tmp_path: Path) -> None:
    state = StateStore([State.of("a", ONES)])
    path = tmp_path / "state.safetensors"
    with pytest.raises(StateError, match="cannot be read: No such file"):
        load_state(state, path)
    with pytest.raises(StateError, match="cannot be read: Is a directory"):
        load_state(state, tmp_path)
    save_state(state, path)
    content = path.read_bytes()
    for damaged in (b"", content[:7], content[:-1], b"\xff" * 40, content[:20] + b"\0" * 40):
        path.write_bytes(damaged)
        with pytest.raises(StateError, match="not a file of state"):
            load_state(state, path)
    with pytest.raises(GlowError, match="not a regular file"):
        save_state(state, tmp_path)
    with pytest.raises(GlowError, match="cannot be written"):
        save_state(state, tmp_path / "absent" / "state.safetensors")


SAVING = """
import itertools, sys
import numpy as np
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from glow_nb.hlir.graph import State
from glow_nb.network.state_files import save_state
from glow_nb.system.state_store import StateStore

store = StateStore([State.of("a", np.zeros(1 << 20, np.float32))])
for number in itertools.count():
    store["a"] = np.full(1 << 20, number, np.float32)
    save_state(store, Path(sys.argv[1]))
    print(number, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("wait_ms", marked((0, 3, 7, 12, 20), slow=(0, 3, 12, 20)))
def test_a_killed_process_leaves_a_whole_file(tmp_path: Path, wait_ms: int) -> None:
    path = tmp_path / "state.safetensors"
    state = StateStore([State.of("a", np.zeros(1 << 20, np.float32))])
    command = [sys.executable, "-c", SAVING, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        time.sleep(wait_ms / 1000)
        process.send_signal(signal.SIGKILL)
        said += process.stdout.read()
    load_state(state, path)
    (number,) = set(state["a"].tolist())
    last = int(said.split()[-1])
    assert number in (last, last + 1)  # one more may be in place that was not told of
