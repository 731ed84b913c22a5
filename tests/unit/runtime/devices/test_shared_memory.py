"""Files without names hold what was written, slots do not overlap, and all of it goes."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from glow_nb.base.alignment import ALIGNMENT
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.runtime.devices.shared_memory import (
    AnonymousFile,
    Slots,
    map_for_reading,
    slots_bytes,
)

INPUTS = (
    TensorType(ElementKind.FLOAT32, (3, 5)),
    TensorType(ElementKind.BFLOAT16, (7,)),
    TensorType(ElementKind.INT64, ()),
    TensorType(ElementKind.FLOAT32, (0, 4)),
)
OUTPUTS = (TensorType(ElementKind.BOOL, (9,)),)


def test_slots_do_not_overlap_and_are_seen_by_all_who_map_them() -> None:
    file = AnonymousFile(slots_bytes(INPUTS, OUTPUTS, 2))
    ours, theirs = (Slots(file.descriptor, INPUTS, OUTPUTS, 2) for _ in range(2))
    arrays = [a for slot in range(2) for a in (*ours.inputs[slot], *ours.outputs[slot])]
    for number, array in enumerate(arrays, 1):
        assert array.ctypes.data % ALIGNMENT == 0
        array[...] = number
    seen = [a for slot in range(2) for a in (*theirs.inputs[slot], *theirs.outputs[slot])]
    for ours_, theirs_ in zip(arrays, seen, strict=True):
        assert ours_.tobytes() == theirs_.tobytes()
        assert (ours_.dtype, ours_.shape) == (theirs_.dtype, theirs_.shape)


def test_a_network_without_tensors_has_slots() -> None:
    file = AnonymousFile(slots_bytes((), (), 2))
    slots = Slots(file.descriptor, (), (), 2)
    assert slots.inputs == slots.outputs == [[], []]


@pytest.mark.parametrize("size", [1, 100_000, 5_000_001])
def test_content_lies_at_the_beginning_of_a_page(size: int) -> None:
    content = np.random.default_rng(0).bytes(size)
    file = AnonymousFile.holding(content)
    view = map_for_reading(file.descriptor)
    del file  # what is mapped stays
    assert view == content
    assert np.asarray(view).ctypes.data % ALIGNMENT == 0
    assert view.readonly


def test_without_files_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    file = AnonymousFile.holding(b"content")
    assert map_for_reading(file.descriptor).tobytes() == b"content"


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc")
def test_a_file_goes_with_its_object() -> None:
    file = AnonymousFile(10)
    place = Path(f"/proc/self/fd/{file.descriptor}")
    assert "glow_nb (deleted)" in str(place.readlink())
    del file
    gc.collect()
    assert not place.is_symlink()
