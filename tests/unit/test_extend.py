"""What users import to extend the compiler: everything is listed, and says what it is."""

from __future__ import annotations

import re

import pytest

from glow_nb import extend

NAMES = dir(extend)


def test_the_documentation_lists_every_name() -> None:
    assert extend.__doc__ is not None
    listed = set(re.findall(r"``(\w+)``", extend.__doc__)) - {"glow_nb"}
    assert listed == {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_offered_has_a_documentation(name: str) -> None:
    assert getattr(extend, name).__doc__
