"""``glow_nb.types``: names for annotations, which cost no import of the compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest

from glow_nb import types

SCRIPT = """
import sys
from glow_nb.types import Array, ElementKind, TensorType
assert "glow_nb.backends" not in sys.modules
"""


def test_annotations_import_no_compiler() -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT], check=True)


def test_each_name_is_there() -> None:
    assert "Profile" in dir(types)
    assert all(getattr(types, name).__name__ for name in dir(types) if name != "Array")
    with pytest.raises(AttributeError, match="'glow_nb.types' has no attribute 'Profil'"):
        types.Profil  # noqa: B018
