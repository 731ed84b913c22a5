"""How a command ends if it fails."""

from __future__ import annotations

import errno
import io
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import click
from typing_extensions import override

from glow_nb.base.errors import GlowError, GlowWarning, bounded

INTERRUPTED = 130
"""The exit code of a shell's command that Ctrl-C ended."""

FOUND = 3
"""The exit code of a command that did its work and found what it was asked to look for."""


class CleanCommand(click.Command):
    """A command that fails with one message on standard error and no traceback.

    Exit codes: 0 done, 1 the input or the machine is at fault, 2 the command line is, 3 a search
    found something, 130 Ctrl-C.
    Anything that still shows a traceback is a bug of ours.
    """

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _one_message():  # --help and --version print while arguments are read
            _require_output()
            return super().parse_args(ctx, args)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        _escape_unprintable_characters()
        with _one_message(), _warnings_as_messages():
            return super().invoke(ctx)


class CleanGroup(CleanCommand, click.Group):
    """A group whose subcommands fail like a :class:`CleanCommand`."""


@contextmanager
def _one_message() -> Iterator[None]:
    """Turn what the block raises into one message and an exit code."""
    try:
        yield
    except GlowError as error:
        raise click.ClickException(_printable(str(error))) from error
    except click.ClickException as error:  # it may quote what was given
        vars(error)["message"] = bounded(error.message)  # click declares that it stays as it is
        raise
    except MemoryError as error:
        raise click.ClickException(f"not enough memory: {error}") from error
    except KeyboardInterrupt as error:
        click.echo("Interrupted", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from error
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader went away: click ends quietly
            raise
        subject = error.filename or ("standard output" if _is_output_broken() else "")
        reason = error.strerror or str(error)
        message = f"{subject}: {reason}" if subject else reason
        raise click.ClickException(_printable(bounded(message))) from error


def _require_output() -> None:
    """Raise GlowError if standard output is closed, where there is no stream for it."""
    if sys.stdout is None:
        raise GlowError("standard output: it is closed; send it to /dev/null to see nothing")


def _is_output_broken() -> bool:
    """Return whether standard output does not take what it has; then it is closed."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):  # a stream that is left open is tried again when Python ends
            sys.stdout.close()
        return True
    return False


@contextmanager
def _warnings_as_messages() -> Iterator[None]:
    """Show a GlowWarning as one message, without the place in our code that it comes from."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_ours(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, GlowWarning):
                click.echo(f"Warning: {_printable(str(message))}", err=True)
            else:
                show(message, category, filename, lineno, file, line)

        warnings.showwarning = show_ours
        yield


def _escape_unprintable_characters() -> None:
    """Let output in a narrow encoding escape what it cannot hold instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _printable(text: str) -> str:
    """Return *text* with control characters escaped: names in it may come from anywhere."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
