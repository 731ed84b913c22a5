"""Arguments that several subcommands take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields
from functools import wraps
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import click
from typing_extensions import override

from glow_nb.backends import BACKENDS, BackendOptions, backend_named, require_options
from glow_nb.base.arguments import MOST_THREADS
from glow_nb.commands.arrays import METAVARS
from glow_nb.commands.numbers import FiniteRange
from glow_nb.commands.outputs import check_outputs


class ExampleCommand(click.Command):
    """A command whose epilog is a list of examples, shown line by line as it is written.

    It begins only if its outputs can be written, and replace no file that it reads.
    """

    @override
    def invoke(self, ctx: click.Context) -> Any:
        check_outputs(ctx)
        return super().invoke(ctx)

    @override
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line}".rstrip() + "\n")


model_argument = click.argument("model", type=click.Path(path_type=Path))

inputs_option = click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar=METAVARS["--input"],
    help="Array for one input, instead of random numbers. Repeat it for each.",
)
"""Inputs of a command that makes up those that are not given."""


def seed_option_for(purpose: str) -> Callable[[Any], Any]:
    """Return the option ``--seed``, whose help says its *purpose*."""
    return click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        metavar="N",
        show_default=True,
        help=f"Seed of {purpose}.",
    )


seed_option = seed_option_for("the random inputs")

threads_option = click.option(
    "--threads",
    type=click.IntRange(min=1, max=MOST_THREADS),
    metavar="N",
    help="Cores that share the work.  [default: all that are available]",
)


def _names(context: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text else ()


without_option = click.option(
    "--without",
    default="",
    callback=_names,
    metavar="PASS,PASS,...",
    help="Passes to leave out, to see their effect. The error about an unknown name lists all "
    "passes that would run.",
)

_backend_option = click.option(
    "--backend",
    type=click.Choice(sorted(BACKENDS)),
    default="cpu",
    show_default=True,
    help="What to compile for: machine code for this processor, or NumPy one instruction at a "
    "time, which is slow and simple.",
)


def _is_options(backend: object) -> TypeGuard[type[BackendOptions]]:
    return isinstance(backend, type) and issubclass(backend, BackendOptions)


_FIELDS = {
    f.name: f
    for kind in BACKENDS.values()
    if _is_options(kind)
    for f in fields(kind)
    if "help" in f.metadata
}
"""The options of all backends by name that are words or switches; each becomes a flag."""

LARGEST_OPTION = 1e6
"""The largest number that an option of a backend may be on the command line."""

COMPILE_PARAMETERS = ("backend", "threads", "without", *_FIELDS)
"""The parameters of a command that say how to compile."""

Command = TypeVar("Command", bound=Callable[..., object])


def backend_options(command: Command) -> Command:
    """Add ``--backend``, ``--threads`` and a flag for each option of a backend.

    *command* gets ``backend``, the options of the chosen one or a backend that has none, and
    ``threads``. A flag that the chosen backend does not have is an error.
    """

    @wraps(command)
    def with_backend(*arguments: Any, backend: str, **given: Any) -> object:
        values = {name: given.pop(name) for name in _FIELDS}
        chosen: Any = BACKENDS[backend]
        if _is_options(chosen):
            own = {f.name for f in fields(chosen)}
            require_options(backend, values, own)
            chosen = chosen(**{name: values[name] for name in values if name in own})
        else:
            chosen = backend_named(backend, options=values)
        return command(*arguments, backend=chosen, **given)

    decorated: Any = with_backend
    for add in (*reversed([_flag(field) for field in _FIELDS.values()]), threads_option):
        decorated = add(decorated)
    made: Command = _backend_option(decorated)
    return made


def precision_options(command: Command) -> Command:
    """Add ``--precision`` and ``--keep`` alone, for what is compiled elsewhere."""
    decorated: Any = command
    for name in ("keep", "precision"):
        decorated = _flag(_FIELDS[name])(decorated)
    made: Command = decorated
    return made


def _flag(field: Field[Any]) -> Callable[[Any], Any]:
    name, choices = f"--{field.name.replace('_', '-')}", field.metadata["choices"]
    least = field.metadata["least"]
    if least is not None:
        return click.option(
            name,
            type=FiniteRange(least, LARGEST_OPTION),
            default=field.default,
            metavar="NUMBER",
            show_default=True,
            help=field.metadata["help"],
        )
    if isinstance(field.default, tuple):
        return click.option(name, multiple=True, metavar="NAME", help=field.metadata["help"])
    if not choices:
        return click.option(name, is_flag=True, help=field.metadata["help"])
    return click.option(
        name,
        type=click.Choice(choices),
        default=field.default,
        show_default=True,
        help=field.metadata["help"],
    )
