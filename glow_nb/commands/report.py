"""``glow-nb report``: everything about a compiled network on one page, alone or beside another
one.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from typing_extensions import override

from glow_nb.backends import Backend, BackendOptions
from glow_nb.base.errors import OptionError
from glow_nb.base.text import format_name
from glow_nb.base.types import Array
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.fed_networks import compile_with_inputs
from glow_nb.commands.models import bindings_of_pair
from glow_nb.commands.options import (
    ExampleCommand,
    backend_options,
    inputs_option,
    model_argument,
    without_option,
)
from glow_nb.commands.outputs import OutputPath
from glow_nb.commands.size_ranges import are_given, size_options
from glow_nb.network.network import Network
from glow_nb.network.reporting.writing import write_report

PAGES = (".html", ".htm")
"""How the names of pages end; other files are models."""

EXAMPLES = """\
glow-nb report model.onnx --output report.html
glow-nb report quantized.onnx --against float.onnx --threads 1 --output both.html
glow-nb report m.onnx --precision bfloat16 --against-options "--precision float32" --output b.html
glow-nb report model.onnx --against before.html --output changes.html"""

OWN_OPTIONS = (
    *("--output", "--against", "--against-options", "--title", "--input", "--runs", "--import"),
)
"""Options that a page does not say; each is followed by a value."""

ARGUMENTS = "glow_nb.report.arguments"
"""Where a context keeps the arguments of the command."""

Command = TypeVar("Command", bound=Callable[..., object])


class ReportCommand(ExampleCommand):
    """A command that remembers its arguments, to compile another network by most of them."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)


@backend_options
@without_option
@binding_options
@size_options
def compiled(
    model: Path,
    beside: Path | None,
    inputs: tuple[str, ...],
    backend: Backend | BackendOptions,
    threads: int | None,
    without: tuple[str, ...],
    bindings: Bindings,
    sizes: dict[str, Any],
) -> tuple[Network, dict[str, Array]]:
    """Return the network of *model* and the arrays of its *inputs*, of which it may get none.

    The other options are those of the command. Sizes may be those of the model *beside* it.
    """
    if beside is not None and not are_given(sizes):
        bindings, _ = bindings_of_pair(model, beside, bindings)
    return compile_with_inputs(model, inputs, bindings, backend, threads, without, sizes)


def compile_options(command: Command) -> Command:
    """Add the options of :func:`compiled`, which *command* gets by their names on the line."""
    own: list[click.Parameter] = compiled.__dict__["__click_params__"]
    command.__dict__.setdefault("__click_params__", []).extend(own)
    return command


@click.command(cls=ReportCommand, epilog=EXAMPLES)
@model_argument
@click.option(
    "--output",
    type=OutputPath(),
    required=True,
    metavar="FILE.html",
    help="The page to write; it needs no other file, and no network.",
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What MODEL is compared with: another model, compiled with the same options, or a page "
    "that this command wrote, for example with another version of glow_nb.",
)
@click.option(
    "--against-options",
    "other_options",
    default="",
    metavar="OPTIONS",
    help="Options only for the compilation that MODEL is compared with, in quotes. Without "
    "--against, it is a second compilation of MODEL.",
)
@click.option("--title", default="", metavar="TEXT", help="Title of the page.  [default: MODEL]")
@inputs_option
@click.option(
    "--runs",
    type=click.IntRange(min=0, max=100_000),
    default=20,
    metavar="N",
    show_default=True,
    help="Runs in which the kernels are timed; 0 measures no times.",
)
@compile_options
@click.pass_context
def report(
    context: click.Context,
    /,
    model: Path,
    output: Path,
    against: Path | None,
    other_options: str,
    title: str,
    inputs: tuple[str, ...],
    runs: int,
    **options: Any,
) -> None:
    """Write everything about the compilation of MODEL to one HTML file.

    MODEL is an ONNX file or IR text. The page has its nodes, graph, lowered graph, program and
    kernels side by side: a click leads from a node of the model to the source of its kernel. It
    also has the changes of each pass, the plans and their alternatives, times below the limits of
    the machine, memory and weights.

    With --against or --against-options it compares two compilations: B is MODEL, and A is the one
    that MODEL is compared with.
    """
    arguments: tuple[str, ...] = context.meta[ARGUMENTS]  # which another context shares
    beside = None if _is_page(against) else against
    network, feeds = compiled(model=model, beside=beside, inputs=inputs, **options)
    other = _other(context, model, against, other_options, inputs)
    names = _titles(title, model, against, _said(arguments, model), other_options)
    write_report(
        network,
        output,
        inputs=feeds or None,
        runs=runs,
        against=other,
        drift=None,
        titles=names,
        facts=_facts(arguments, model, against or model, other_options),
    )
    click.echo(f"wrote {output}", err=True)


def _other(
    context: click.Context,
    model: Path,
    against: Path | None,
    options: str,
    inputs: tuple[str, ...],
) -> Network | Path | None:
    """Return what is compared with, if there is anything."""
    if _is_page(against) and options:
        raise OptionError(
            f"--against-options {options!r}: {against} is a page, which is compiled already; leave "
            "one of them out"
        )
    if _is_page(against) or (against is None and not options):
        return against
    with _named(options):
        given = _with_options(context, options)
        beside = None if against is None else model
        return compiled(model=against or model, beside=beside, inputs=inputs, **given)[0]


def _is_page(against: Path | None) -> bool:
    return against is not None and against.suffix.lower() in PAGES


@contextmanager
def _named(options: str) -> Iterator[None]:
    """Say of what is wrong that it is so for the *options* of ``--against-options``."""
    try:
        yield
    except click.UsageError as error:
        if not options:
            raise
        where = f"--against-options {options!r}: {error.format_message()}"
        raise click.UsageError(where, error.ctx) from error
    except OptionError as error:
        if not options:
            raise
        raise OptionError(f"--against-options {options!r}: {error}") from error


def _with_options(context: click.Context, options: str) -> dict[str, Any]:
    """Return the values of the options of :func:`compiled`, the given *options* behind all."""
    try:
        more = shlex.split(options)
    except ValueError as error:
        raise OptionError(str(error)) from error
    names = [parameter.name for parameter in compiled.__dict__["__click_params__"]]
    arguments = [*context.meta[ARGUMENTS], *more]
    with context.command.make_context(
        context.info_name, arguments, parent=context.parent, help_option_names=[]
    ) as made:
        for name in made.params.keys() - set(names):
            if made.params[name] != context.params[name]:
                raise OptionError(
                    "give options that say how a network is compiled; options of the page belong "
                    "outside of the quotes"
                )
        return {name: made.params[name] for name in names if name is not None}


def _titles(
    title: str, model: Path, against: Path | None, said: Sequence[str], options: str
) -> tuple[str, str]:
    """Return how the page calls both compilations: each with its values of the other *options*."""
    differing = shlex.join(_values_of(said, shlex.split(options)))
    own = format_name(model.stem)
    other = format_name((against or model).stem)
    return (
        title or (f"{own} with {differing}" if differing else own),
        f"{other} with {options}" if options else other,
    )


def _values_of(said: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """Yield the words of *said* that give values to any of *options*."""
    names = {word.partition("=")[0] for word in options if word.startswith("-")}
    is_wanted = False
    for word in said:
        if word.startswith("--"):
            is_wanted = word.partition("=")[0] in names
        if is_wanted:
            yield word


def _facts(
    arguments: Sequence[str], model: Path, other: Path, other_options: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return what the page says of both compilations, without the paths of other files."""
    options = shlex.join(_said(arguments, model))
    changed = f"those of B, but {other_options}" if other_options else options
    return {"file": model.name, "options": options}, {"file": other.name, "options": changed}


def _said(arguments: Sequence[str], model: Path) -> list[str]:
    """Return those of *arguments* that say how *model* is compiled."""
    left, said = list(arguments), list[str]()
    while left:
        one = left.pop(0)
        if one.partition("=")[0] in OWN_OPTIONS:
            del left[: "=" not in one]
        elif Path(one) != model:
            said.append(one)
    return said
