"""The flags that are made of the options of the backends."""

from __future__ import annotations

from dataclasses import fields

import click
import pytest
from click.testing import CliRunner

from glow_nb.backends import Backend, BackendOptions, Cpu
from glow_nb.backends.interpreter import Interpreter
from glow_nb.base.errors import OptionError
from glow_nb.cli import main
from glow_nb.commands.numbers import FiniteRange
from glow_nb.commands.options import backend_options
from tests.unit.commands.samples import fails

COMPILING = ("bisect", "diff", "dump", "info", "opt", "profile", "run")


def chosen(*flags: str) -> Backend | BackendOptions:
    """Return what a command gets for *flags*."""
    got: list[Backend | BackendOptions] = []

    @click.command
    @backend_options
    def command(backend: Backend | BackendOptions, threads: int | None) -> None:
        got.append(backend)

    result = CliRunner().invoke(command, flags)
    if isinstance(result.exception, OptionError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return got[0]


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        ((), Cpu()),
        (("--winograd", "guarded"), Cpu(winograd="guarded")),
        (("--backend", "cpu", "--tune", "--winograd", "off"), Cpu(winograd="off", tune=True)),
    ],
)
def test_a_command_gets_an_options_object(flags: tuple[str, ...], options: Cpu) -> None:
    assert chosen(*flags) == options


def test_a_backend_without_an_option_refuses_its_flag() -> None:
    assert isinstance(chosen("--backend", "interpreter", "--winograd", "auto"), Interpreter)
    with pytest.raises(OptionError, match="tune=True: it is an option of backend 'cpu'"):
        chosen("--backend", "interpreter", "--tune")


@pytest.mark.parametrize("name", COMPILING)
def test_every_command_that_compiles_has_a_flag_for_each_option(name: str) -> None:
    shown = CliRunner().invoke(main, [name, "--help"]).output
    options = [field for field in fields(Cpu) if field.metadata]  # of functions there are no flags
    for flag in (
        "--backend",
        "--threads",
        *(f"--{field.name.replace('_', '-')}" for field in options),
    ):
        assert f"  {flag}" in shown
    joined = " ".join(shown.split())
    for field in options:
        assert " ".join(field.metadata["help"].split()) in joined


@pytest.mark.parametrize("again", ["batch=5", "batch=4x3", "batch=4"])
def test_a_size_is_given_once(again: str) -> None:
    message = fails("run", "model.onnx", "--shape", "batch=4", "--shape", again)
    assert message == f"Error: --shape {again}: batch=4 is given, too; leave one of them out\n"


def test_help_of_all_commands_is_whole() -> None:
    listing = CliRunner().invoke(main, ["--help"], terminal_width=80).stdout
    commands = listing.partition("Commands:")[2]
    assert len(commands.splitlines()) > len(main.commands)
    assert "..." not in commands
    for name, command in main.commands.items():
        context = click.Context(command, info_name=name)
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{name} {parameter.opts}"
                record = parameter.get_help_record(context)
                assert record is not None
                assert "RANGE" not in record[0], f"{name} {parameter.opts}: name the value"
                is_counted = isinstance(parameter.type, click.IntRange | FiniteRange)
                if is_counted and isinstance(parameter.get_default(context), int | float):
                    assert "default" in record[1], f"{name} {parameter.opts}"
