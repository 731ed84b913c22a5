"""Errors of ours travel from process to process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

import glow_nb
import glow_nb.formats.onnx.importer.context  # its errors exist now
from glow_nb.base.errors import (
    MOST_LETTERS,
    GlowError,
    GlowWarning,
    ParseError,
    SettingError,
    UnboundDimension,
    UnboundInput,
    VerifyError,
    bounded,
)
from glow_nb.base.finite import BadElement, NonFiniteError
from glow_nb.base.plan import Plan
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.runtime.serve.refusal import Refusal

MADE: tuple[GlowError, ...] = (
    ParseError("net.glow", 2, 3, "%a = b", "no value"),
    UnboundDimension("net.onnx", ["batch"], {"x": ("batch", 3), "y": None}),
    UnboundInput("its shape is computed", ["sizes"]),
    Refusal(404, "no such model"),
    SettingError(Plan.of("direct", block=8), "'tile' must be a list"),
    NonFiniteError("kernel 3: a NaN", BadElement((0, 1), float("inf"), 2), "y", ("log",), 3, "log"),
)


def kinds(kind: type[GlowError] = GlowError) -> Iterator[type[GlowError]]:
    yield kind
    for derived in kind.__subclasses__():
        if derived.__module__.startswith(glow_nb.__name__):
            yield from kinds(derived)


def check(error: GlowError) -> None:
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert found.__dict__ == error.__dict__


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_attributes_come_along(error: GlowError) -> None:
    check(error)


PLAIN = [kind for kind in kinds() if kind.__init__ is GlowError.__init__]
"""Kinds that are made of a message alone."""


@pytest.mark.parametrize("kind", PLAIN)
def test_every_kind_can_be_sent(kind: type[GlowError]) -> None:
    check(kind("x: what is wrong"))


def test_kinds_that_take_more_than_a_message_are_checked() -> None:
    made = {type(error).__init__ for error in MADE} | {VerifyError.__init__}
    assert {kind.__init__ for kind in kinds()} - {GlowError.__init__} == made


def test_the_subject_of_an_error_is_sent_as_text() -> None:
    b = Builder()
    error = VerifyError(b.emit(ops.Relu(b.input("x", "float32<3>"))), "has no reader")
    found = pickle.loads(pickle.dumps(error))
    assert str(found) == str(error)
    assert found.subject == repr(error.subject)


@pytest.mark.parametrize("kind", [*PLAIN, GlowWarning])
def test_no_message_repeats_all_of_a_long_name(kind: type[GlowError]) -> None:
    text = str(kind(f"input {'a' * 100_000!r}: is unknown; the inputs are ['x']"))
    assert len(text) < 400
    assert text.startswith("input 'aaa")
    assert "letters left out" in text
    assert text.endswith("aaa': is unknown; the inputs are ['x']")


def test_a_long_list_and_a_long_message_lose_their_middle() -> None:
    devices = [f"device{number}" for number in range(2000)]
    text = bounded(f"there is no device 'a'; the host has {devices}; give one of them")
    assert len(text) < 400
    assert text.startswith("there is no device 'a'; the host has ['device0', 'device1',")
    assert text.endswith("'device1999']; give one of them")
    assert len(bounded("a b " * 100_000)) < MOST_LETTERS + 100


def test_an_ordinary_message_stays_as_it_is() -> None:
    text = " ".join(f"node{number}: [1, 2, 3]" for number in range(80))
    assert bounded(text) == text


@pytest.mark.parametrize("column", [1, 5, 100, 5_000, 9_999, 10_000])
def test_a_long_line_is_shown_around_the_place(column: int) -> None:
    line = f"{'.' * (column - 1)}X{'.' * (10_000 - column)}"
    head, shown, caret = str(ParseError("net.glow", 1, column, line, "wrong")).split("\n")
    assert head == f"net.glow:1:{column}: wrong"
    assert len(shown) < 200
    assert shown[caret.index("^")] == "X"
