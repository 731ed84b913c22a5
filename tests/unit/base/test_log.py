"""The logger ``glow_nb``: what it says at which level, and that it says nothing by itself."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import glow_nb
from glow_nb.base.log import DEBUG, INFO, WARNING
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from tests.unit.codegen.samples import run_python


def relu() -> Function:
    b = glow_nb.Builder("relu\n")
    b.save(b.emit(ops.Relu(b.input("x", "float32<3>"))), "y")
    return b.function()


def test_levels_are_those_of_logging() -> None:
    assert (DEBUG, INFO, WARNING) == (logging.DEBUG, logging.INFO, logging.WARNING)


def test_compilations_are_told_and_their_steps_to_who_debugs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "glow_nb"):
        glow_nb.compile(relu(), backend="interpreter")
    (record,) = caplog.records
    assert record.name == "glow_nb" and record.levelno == logging.INFO
    assert record.getMessage().startswith("network 'relu\\n': compiled 1 kernels in ")
    with caplog.at_level(logging.DEBUG, "glow_nb"):
        glow_nb.compile(relu(), backend="interpreter")
    assert any(message.startswith("step lower: ") for message in caplog.messages)


SCRIPT = """
import sys
import glow_nb.base.log
assert "logging" not in sys.modules
glow_nb.base.log.log(30, "nobody listens")
assert "logging" not in sys.modules
import logging
glow_nb.base.log.log(30, "nobody listens")
logging.basicConfig(format="%(name)s %(levelname)s %(filename)s: %(message)s", stream=sys.stdout)
glow_nb.base.log.log(20, "not at this level")
glow_nb.base.log.log(30, "heard: %d", 3)
"""


def test_it_is_silent_until_the_program_listens(tmp_path: Path) -> None:
    assert run_python(SCRIPT, tmp_path).strip() == "glow_nb WARNING <string>: heard: 3"
