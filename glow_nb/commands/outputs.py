"""Files that a command writes: never one that it reads, nor two of them the same."""

from __future__ import annotations

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
    """Compare the outputs of the command in *context* with the paths of its other parameters.

    Raises:
        OptionError: An output would replace a file that the command reads, or another output.
    """
    seen: dict[Path, str] = {}
    parameters = sorted(context.command.params, key=lambda each: isinstance(each.type, OutputPath))
    for parameter in parameters:
        is_option = isinstance(parameter, click.Option)
        label = parameter.opts[0] if is_option else parameter.human_readable_name
        for path in _paths(context.params.get(parameter.name or "")):
            for file in _files(path):
                if isinstance(parameter.type, OutputPath) and file in seen:
                    raise OptionError(
                        f"{label} {path}: it would replace {file}, which is that of {seen[file]}; "
                        "choose another name"
                    )
                seen[file] = label


def _paths(value: object) -> Iterator[Path]:
    """Yield the paths that the *value* of a parameter may be."""
    values = value if isinstance(value, (list, tuple)) else (value,)
    for each in values:
        if isinstance(each, (str, Path)) and str(each) != "-":
            yield Path(each)


def _files(path: Path) -> Iterator[Path]:
    """Yield *path* and, of IR text, the archive of its constants."""
    yield path.absolute()
    if path.suffix == SUFFIX:
        yield path.with_suffix(".npz").absolute()
