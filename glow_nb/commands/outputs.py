"""Files that a command writes: never one that it reads, nor two of them the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from glow_nb.errors import OptionError
from glow_nb.files import SUFFIX


class OutputPath(click.Path):
    """The path of a file that a command writes; see :func:`refuse_lost_files`."""

    def __init__(self, *, allow_dash: bool = False) -> None:
        """Take a path, or with *allow_dash* a dash for standard output."""
        super().__init__(path_type=Path, allow_dash=allow_dash)


def refuse_lost_files(context: click.Context) -> None:
    """Compare the outputs of the command in *context* with the files that it is given.

    Raises:
        OptionError: An output would replace a file that the command reads, or another output.
    """
    seen: dict[str, str] = {}
    parameters = sorted(context.command.params, key=lambda each: isinstance(each.type, OutputPath))
    for parameter in parameters:
        is_option = isinstance(parameter, click.Option)
        label = parameter.opts[0] if is_option else parameter.human_readable_name
        for path in _paths(parameter, context.params.get(parameter.name or "")):
            for file in _files(path):
                if isinstance(parameter.type, OutputPath) and file in seen:
                    raise OptionError(
                        f"{label} {path}: it would replace {file}, the file of {seen[file]}; "
                        "choose another name"
                    )
                seen[file] = label


def _paths(parameter: click.Parameter, value: object) -> Iterator[Path]:
    """Yield the files that the *value* of *parameter* names, ``NAME=FILE`` among them."""
    is_file = isinstance(parameter.type, click.Path) or "FILE" in (parameter.metavar or "")
    values = value if isinstance(value, (list, tuple)) else (value,)
    for each in values if is_file else ():
        if isinstance(each, Path) and str(each) != "-":
            yield each
        elif isinstance(each, str):
            yield Path(each.partition("=")[2] if "=FILE" in (parameter.metavar or "") else each)


def _files(path: Path) -> Iterator[str]:
    """Yield the place of *path* and, of IR text, that of the archive of its constants."""
    folder = os.path.realpath(path.parent)
    yield os.path.join(folder, path.name)
    if path.suffix == SUFFIX:
        yield os.path.join(folder, path.with_suffix(".npz").name)
