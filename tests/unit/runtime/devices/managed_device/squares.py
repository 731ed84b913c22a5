"""Runs whose results are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.unit.runtime.deployables import feed


def squares(device: Any, count: int, key: str = "net") -> None:
    """Assert that *count* runs that wait for each other are right."""
    futures = [device.submit(key, [feed(seed)]) for seed in range(count)]
    for seed, future in enumerate(futures):
        (result,) = future.result(30)
        np.testing.assert_array_equal(result, feed(seed) ** 2)
