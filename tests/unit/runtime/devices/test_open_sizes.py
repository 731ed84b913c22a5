"""Networks with open sizes on devices of all kinds: each run says its sizes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from glow_nb.base.errors import FeedError, GlowError, MemoryLimitError
from glow_nb.base.memory_limit import MemoryLimit
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function
from glow_nb.hlir.parse import parse_module
from glow_nb.runtime import DeviceDescription
from glow_nb.runtime.deploy import compile_part
from glow_nb.runtime.devices.open_device import open_device

TEXT = """\
func @sums<batch in 1..64 like 4, length like 8 where length <= 5000>\
(%x : float32<batch x length>, %more : float32<length + 1>)\
 -> (%y : float32<batch x length>, %z : float32<length + 1>) {
  %twice = add(%x, %x) : float32<batch x length>
  %square = mul(%more, %more) : float32<length + 1>
  %y_save = save(%twice, %y)
  %z_save = save(%square, %z)
}
"""


def network() -> Function:
    return parse_module(TEXT).functions[0]


@pytest.mark.parametrize("kind", ["local", "process", "interpreter", "simulated"])
def test_runs_of_many_sizes_at_a_time(kind: str) -> None:
    backend = "interpreter" if kind == "interpreter" else "cpu"
    description = DeviceDescription("d", kind, backend)
    device = open_device(description)
    rng = np.random.default_rng(0)
    try:
        deployable = compile_part(network(), description)
        device.add("net", deployable)

        def check(seed: int) -> None:
            batch, length = ((1, 1), (3, 5), (64, 3000), (2, 17))[seed % 4]
            x = rng.normal(size=(batch, length)).astype(np.float32)
            more = np.full(length + 1, seed, np.float32)
            y, z = device.run("net", [x, more])
            np.testing.assert_array_equal(y, 2 * x)
            np.testing.assert_array_equal(z, more * more)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(check, range(24)))
        wrongs = [
            ((3, 5), (5,), "size 'length': axis 1 of input 'x' says 5, .* says 4"),
            ((65, 5), (6,), r"'batch'.*65.*outside its range 1\.\.64"),
            ((1, 5001), (5002,), "length = 5001: the graph holds only where length <= 5000"),
            ((5,), (6,), "'x'"),
        ]
        for x_shape, more_shape, message in wrongs:
            arrays = [np.zeros(x_shape, np.float32), np.zeros(more_shape, np.float32)]
            with pytest.raises(FeedError, match=message):
                device.run("net", arrays)
        assert device.health().alive
        device.evict("net")
    finally:
        device.close()


def test_zeros_of_a_simulated_device_have_the_sizes_of_the_run() -> None:
    description = DeviceDescription("d", "simulated", "interpreter", options={"computes": False})
    device = open_device(description)
    try:
        device.add("net", compile_part(network(), description))
        y, z = device.run("net", [np.ones((2, 3), np.float32), np.ones(4, np.float32)])
        assert (y.shape, z.shape) == ((2, 3), (4,))
    finally:
        device.close()


def test_a_process_outlives_sizes_that_need_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """\
func @outer<n like 8>(%x : float32<n x 1>, %z : float32<1 x n>) -> (%y : float32<n x n>) {
  %product = mat_mul(%x, %z) : float32<n x n>
  %y_save = save(%product, %y)
}
"""
    description = DeviceDescription("d", "process")
    device = open_device(description)

    def run(n: int) -> Array:
        return device.run("net", [np.ones((n, 1), np.float32), np.ones((1, n), np.float32)])[0]

    try:
        device.add("net", compile_part(parse_module(text).functions[0], description))
        with pytest.raises(GlowError, match="4000000000000 bytes are more than"):
            run(1_000_000)
        limit = MemoryLimit(1 << 20, "a test")
        with monkeypatch.context() as patch:
            patch.setattr("glow_nb.base.memory_limit.memory_limit", lambda: limit)
            with pytest.raises(MemoryLimitError, match="inputs and outputs.*a test"):
                run(1000)
        np.testing.assert_array_equal(run(3), np.ones((3, 3), np.float32))
        assert device.health().alive
    finally:
        device.close()
