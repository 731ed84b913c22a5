"""``lower_for`` takes a backend as ``compile`` does, and refuses what it cannot use."""

from __future__ import annotations

import re
from typing import Any

import pytest

import glow_nb
from glow_nb.base.errors import OptionError
from glow_nb.hlir.ops import Relu


def function() -> glow_nb.Function:
    builder = glow_nb.Builder("main")
    builder.save(builder.emit(Relu(builder.input("x", "float32<2 x 3>"))), "y")
    return builder.function()


def test_a_backend_has_a_name_or_is_an_object() -> None:
    by_name = glow_nb.lower_for(function(), "interpreter")
    assert str(by_name) == str(glow_nb.lower_for(function(), glow_nb.Interpreter()))


@pytest.mark.parametrize(
    ("given", "backend", "without", "message"),
    [
        (3, "interpreter", (), "3 is no Function"),
        (function(), None, (), "backend=None: give the name of one"),
        (function(), "interpreter", ("nope",), "without: no pass 'nope' would run"),
        (function(), "interpreter", "fold_constants", "give a tuple of names"),
    ],
    ids=["function", "backend", "pass", "text"],
)
def test_what_is_refused(given: Any, backend: Any, without: Any, message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        glow_nb.lower_for(given, backend, without=without)
