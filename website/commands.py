"""The reference of the command ``glow-nb``: the help of each command as a page has it."""

from __future__ import annotations

import inspect

import click

from glow_nb.cli import COMMANDS, main
from website.markdown import code, table


def reference() -> str:
    """Return usage, arguments, options and examples of all commands."""
    rows = [
        (f"[`{name}`](#{name})", main.commands[name].get_short_help_str(200)) for name in COMMANDS
    ]
    return "\n".join([table(("command", "does"), rows), *map(_entry, COMMANDS)])


def _entry(name: str) -> str:
    command = main.commands[name]
    context = click.Context(command, info_name=f"glow-nb {name}")
    usage = command.get_usage(context).removeprefix("Usage: ")
    parts = [
        f"## `glow-nb {name}` {{ #{name} }}\n",
        f"```text\n{' '.join(usage.split())}\n```\n",
        inspect.cleandoc(command.help or "").replace("\b\n", "") + "\n",
        table(("option", "meaning"), _options(command, context)),
    ]
    if command.epilog:
        parts.append(f"Examples:\n\n```text\n{command.epilog}\n```\n")
    return "\n".join(parts)


def _options(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    """Return the options and their help, as ``--help`` tells them."""
    records = (p.get_help_record(context) for p in command.get_params(context))
    return [(code(r[0]), _escaped(r[1])) for r in records if r]


def _escaped(text: str) -> str:
    """Return a help text, whose brackets and stars mean themselves."""
    return text.replace("[", "\\[").replace("*", "\\*").replace("<", "&lt;")
