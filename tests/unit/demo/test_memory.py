"""The memory of an engine's process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from glow_nb.demo import memory
from glow_nb.demo.handwriting import MODEL
from glow_nb.demo.memory import NOTHING, memory_of_process


def test_a_process_tells_its_memory(tmp_path: Path) -> None:
    if not memory.STATUS.exists():
        pytest.skip(f"this system has no {memory.STATUS}")
    np.save(tmp_path / "images.npy", np.zeros((1, 8, 8, 1), np.float32))
    told = memory_of_process(NOTHING, MODEL, tmp_path / "images.npy", threads=1)
    assert told is not None
    assert 2**23 < told < 2**28


def test_systems_that_tell_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "STATUS", tmp_path / "status")
    assert memory_of_process(NOTHING, MODEL, tmp_path / "images.npy", threads=1) is None
