"""Tensors in files: every kind comes back, and what cannot be read gets an error of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from glow_nb.base.errors import GlowError, ModelError
from glow_nb.base.types import Array, ElementKind
from glow_nb.network.tensor_files import read_tensors, tensor_bytes

ONES = np.ones(3, np.float32)


def read(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    return read_tensors(path, ModelError, "a file of numbers")


@pytest.mark.parametrize("kind", ElementKind)
def test_every_kind_comes_back(kind: ElementKind, tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    numbers = np.array([[0, 1, 1], [1, 0, 1]]).astype(kind.dtype)
    given = {"matrix": numbers, "number": numbers[0, 1:2].reshape(()), "none": numbers[:, :0]}
    path.write_bytes(tensor_bytes(given, {"title": "some numbers"}))
    found, texts = read(path)
    assert texts == {"title": "some numbers"}
    assert found.keys() == given.keys()
    for name, array in given.items():
        assert (found[name].dtype, found[name].shape) == (kind.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()


def test_a_name_of_the_format_is_refused() -> None:
    with pytest.raises(GlowError, match="tensor '__metadata__': a file cannot hold it"):
        tensor_bytes({"__metadata__": ONES}, {})


@pytest.mark.parametrize(
    "kinds", ["", "[]", "3", '{"a": []}', '{"a": "float32"}', '{"a": "int3"}', "[" * 100_000]
)
def test_texts_that_tell_no_kinds_are_refused(kinds: str, tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(save({"a": np.zeros(4, np.uint8)}, {"glow_nb.kinds": kinds}))
    with pytest.raises(ModelError, match="not a file of numbers: glow_nb.kinds is .*, not k"):
        read(path)


def test_bytes_of_another_size_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(save({"a": ONES}, {"glow_nb.kinds": json.dumps({"a": "int4"})}))
    with pytest.raises(ModelError, match="tensor 'a' is of F32, where bytes of int4 should"):
        read(path)


def test_a_kind_of_other_programs_is_named(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    header: dict[str, Any] = {"a": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(2))
    with pytest.raises(ModelError, match="tensor 'a' is of F8_E4M3, a kind that is not known"):
        read(path)


@pytest.mark.parametrize("content", [b"", b"no tensors at all", b"\xff" * 40])
def test_files_that_hold_something_else_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="numbers: cannot be read, it is not a file of numbers: "):
        read(path)
    with pytest.raises(ModelError, match="nothing: cannot be read: No such file"):
        read(tmp_path / "nothing")
