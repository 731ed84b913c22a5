"""Files of Python that define operators, passes and kernels before a command reads its model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from glow_nb.base.errors import OptionError
from glow_nb.system.python_files import import_file

import_option: Callable[[Any], Any] = click.option(
    "--import",
    "imported",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE.py",
    help="Run FILE.py first: operators, import rules, kernels and passes that it registers are "
    "known to the command. Repeat it for each.",
)


def import_files(files: Iterable[Path]) -> None:
    """Import each of *files*, as :func:`~glow_nb.system.python_files.import_file` does.

    Raises:
        OptionError: A file cannot be imported; names the line.
    """
    for file in files:
        try:
            import_file(file)
        except OptionError as error:
            raise OptionError(f"--import {error}") from error.__cause__
