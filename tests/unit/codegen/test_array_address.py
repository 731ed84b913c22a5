"""Addresses of arrays are those that NumPy gives, whichever way they are found."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from glow_nb.base.types import ElementKind
from glow_nb.codegen import array_address
from glow_nb.codegen.array_address import address_of


@pytest.mark.parametrize("kind", list(ElementKind))
@pytest.mark.parametrize("shape", [(), (3, 5), (0, 2)])
def test_addresses_are_those_of_numpy(kind: ElementKind, shape: tuple[int, ...]) -> None:
    array = np.zeros(shape, kind.dtype)
    assert address_of(array) == array.ctypes.data
    array.flags.writeable = False
    assert address_of(array) == array.ctypes.data


def test_views_begin_where_their_first_element_lies() -> None:
    whole = np.zeros((4, 6), np.float32)
    for view in (whole[1:], whole.T, whole[::-1], whole[:, 2:4], whole.view(np.matrix)):
        assert address_of(view) == view.ctypes.data


def test_numpy_is_asked_where_objects_are_laid_out_in_another_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(array_address, "_HEAD_BYTES", array_address._HEAD_BYTES + 8)
    assert array_address._fastest() is array_address._ask
    monkeypatch.undo()
    assert array_address._fastest() is array_address._read
    monkeypatch.setattr(sys, "implementation", SimpleNamespace(name="another"))
    assert array_address._fastest() is array_address._ask
