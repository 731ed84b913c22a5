"""Options that are numbers: each has a range, and NaN is in none."""

from __future__ import annotations

import math

import click
import pytest

from glow_nb.cli import main
from glow_nb.commands.numbers import FiniteRange
from tests.unit.commands.samples import fails

OPTIONS = [
    (name, option)
    for name, command in main.commands.items()
    for option in command.params
    if isinstance(option.type, (click.FloatRange, click.types.FloatParamType))
]


def test_every_float_of_a_command_has_a_finite_range() -> None:
    assert len(OPTIONS) > 10
    for _, option in OPTIONS:
        assert isinstance(option.type, FiniteRange)
        assert math.isfinite(option.type.min) and math.isfinite(option.type.max)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e+300", "x"])
@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_other_numbers_are_refused(command: str, option: click.Parameter, number: str) -> None:
    flag = option.opts[0]
    message = fails(command, flag, number, code=2)
    assert f"Invalid value for '{flag}': " in message
    assert number in message


def test_the_range_is_told_to_who_gives_nan() -> None:
    message = fails("bench", "model.onnx", "--seconds", "nan", code=2)
    assert message.endswith("nan is not a number from 0 to 3600.\n")
