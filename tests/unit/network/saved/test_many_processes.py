"""Many processes that start at once on an empty cache."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from glow_nb.network.saved.cache import NetworkCache
from tests.unit.network.saved.models import needs_loader, saved_model

pytestmark = [needs_loader, pytest.mark.slow]

PROCESSES = 20

SCRIPT = """
import sys, numpy as np, glow_nb
from glow_nb.codegen.cache import ObjectCache

store = ObjectCache.store

def counted(self, name, key, payload):
    with open(sys.argv[2], "a") as made:
        made.write(f"{name} {key}\\n")
    store(self, name, key, payload)

ObjectCache.store = counted
net = glow_nb.compile(sys.argv[1], threads=2)
print(net.run({"x": np.ones((2, 4), np.float32)})["y"].tobytes().hex())
"""


def test_all_succeed_and_each_kernel_is_compiled_at_most_twice(tmp_path: Path) -> None:
    environment = {**os.environ, "GLOW_NB_CACHE_DIR": str(tmp_path / "cache")}
    del environment["GLOW_NB_CACHE_NETWORKS"]
    path, made = saved_model(tmp_path / "a"), tmp_path / "made"
    command = [sys.executable, "-W", "error", "-c", SCRIPT, str(path), str(made)]
    started = [
        subprocess.Popen(command, env=environment, stdout=-1, stderr=-1, text=True)
        for _ in range(PROCESSES)
    ]
    done = [(*process.communicate(timeout=600), process.returncode) for process in started]
    assert {code for *_, code in done} == {0}, done
    assert len({output for output, *_ in done}) == 1
    counts = Counter(made.read_text().splitlines())
    assert counts and max(counts.values()) <= 2
    assert len(NetworkCache(tmp_path / "cache").kept()) == 1
