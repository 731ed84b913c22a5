"""The ``glow-nb`` command."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module

try:  # these take part of a second, in which Ctrl-C may come
    import click
    from typing_extensions import override

    from glow_nb.base.version import __version__
    from glow_nb.commands.errors import CleanGroup
except KeyboardInterrupt:
    sys.stderr.write("Interrupted\n")
    sys.exit(130)  # as a command that is interrupted: see glow_nb.commands.errors

COMMANDS = (
    *("bench", "bisect", "build", "cache", "calibrate", "check", "diff"),
    *("dump", "export", "info", "machine", "opt", "partition", "plans"),
    *("profile", "quantize", "report", "run", "serve", "train"),
)
"""The commands, each in a module of its name in ``glow_nb.commands``."""


class Commands(Mapping[str, click.Command]):
    """The commands by name; each is imported only when it is used, since importing all takes
    long.
    """

    @override
    def __getitem__(self, name: str) -> click.Command:
        if name not in COMMANDS:
            raise KeyError(name)
        command: click.Command = getattr(import_module(f"glow_nb.commands.{name}"), name)
        return command

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    @override
    def __len__(self) -> int:
        return len(COMMANDS)


@click.group(
    cls=CleanGroup,
    commands=Commands(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="glow-nb")
def main() -> None:
    """Compile neural networks, run them, and inspect every step of the compilation.

    A MODEL is an ONNX file, or IR text in a .glow file with its constants beside it in .npz.
    Compiled kernels and networks are kept in GLOW_NB_CACHE_DIR, by default in the user's cache
    folder.
    """
