"""The memory of a process that runs a network: little more than constants and arena, and flat."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx.backend.test
import pytest

import glow_nb

MODELS = Path(onnx.backend.test.__file__).parent / "data" / "light"
STATM = Path("/proc/self/statm")
ALLOWED_BYTES = 200_000_000
"""For the interpreter, NumPy, LLVM and the ONNX parser, beside constants and arena."""
HUGE_PAGE_BYTES = 2 << 20
"""The system may join pages to such meanwhile, which counts what lies between them as resident. One
output kept by each of 2,000 runs would be 8 MB."""
SCRIPT = """
import gc, json, mmap, sys
from pathlib import Path
import numpy as np
import glow_nb
from glow_nb.codegen.cache import ObjectCache

stored, store = [], ObjectCache.store
ObjectCache.store = lambda cache, name, *others: (stored.append(name), store(cache, name, *others))

def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

net = glow_nb.compile(sys.argv[1], threads=2)
(type,) = net.inputs.values()
x = np.ones(type.shape, np.float32)
for _ in range(10):
    net.run(x)
early = resident()
for _ in range(int(sys.argv[2])):
    net.run(x)
needed = net.memory.arena_bytes + net.memory.constant_bytes
print(json.dumps({"early": early, "late": resident(), "needed": needed, "compiled": stored}))
"""

pytestmark = [
    pytest.mark.jit,
    pytest.mark.skipif(not STATM.exists(), reason="the system does not tell resident memory"),
]


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("shufflenet", 20),
        pytest.param("resnet50", 20, marks=pytest.mark.slow),
        pytest.param("resnet50", 2_000, marks=pytest.mark.slow),
    ],
)
def test_resident_memory(name: str, runs: int) -> None:
    model = MODELS / f"light_{name}.onnx"
    glow_nb.compile(model, threads=2)  # the child finds its kernels in the cache
    command = [sys.executable, "-c", SCRIPT, str(model), str(runs)]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(made.stdout)
    assert not found["compiled"], "the child found no such kernel"
    assert found["early"] - found["needed"] < ALLOWED_BYTES
    assert found["late"] - found["early"] < 2 * HUGE_PAGE_BYTES
