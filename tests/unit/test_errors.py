"""Errors of ours travel from process to process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

import glow_nb
import glow_nb.importers.onnx.context  # its errors exist now
from glow_nb.errors import GlowError, ParseError, UnboundDimension, UnboundInput, VerifyError
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.runtime.serve.refusal import Refusal

MADE: tuple[GlowError, ...] = (
    ParseError("net.glow", 2, 3, "%a = b", "no value"),
    UnboundDimension("net.onnx", ["batch"], {"x": ("batch", 3), "y": None}),
    UnboundInput("its shape is computed", ["sizes"]),
    Refusal(404, "no such model"),
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


PLAIN = [kind for kind in kinds() if kind.__init__ is Exception.__init__]
"""Kinds that are made of a message alone."""


@pytest.mark.parametrize("kind", PLAIN)
def test_every_kind_can_be_sent(kind: type[GlowError]) -> None:
    check(kind("x: what is wrong"))


def test_kinds_that_take_more_than_a_message_are_checked() -> None:
    made = {type(error).__init__ for error in MADE} | {VerifyError.__init__}
    assert {kind.__init__ for kind in kinds()} - {Exception.__init__} == made


def test_the_subject_of_an_error_is_sent_as_text() -> None:
    b = Builder()
    error = VerifyError(b.emit(ops.Relu(b.input("x", "float32<3>"))), "has no reader")
    found = pickle.loads(pickle.dumps(error))
    assert str(found) == str(error)
    assert found.subject == repr(error.subject)
