"""Files that a command writes: where it can, and never one that it reads or writes already."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from glow_nb.base.errors import OptionError
from glow_nb.network.text_files import SUFFIX
from glow_nb.system.replaced_files import check_writable


class OutputPath(click.Path):
    """The path of a file that a command writes; see :func:`check_outputs`."""

    def __init__(self, *, allow_dash: bool = False, in_place: bool = False) -> None:
        """Take a path, or with *allow_dash* a dash for standard output.

        With *in_place*, it may be that of a file that the command reads whole before it writes.
        """
        super().__init__(path_type=Path, allow_dash=allow_dash)
        self.in_place = in_place


def check_outputs(context: click.Context) -> None:
    """Check the outputs of the command in *context* before it does anything.

    Raises:
        GlowError: One cannot be written, or would replace a file that the command reads, or another
            output.
    """
    seen: dict[str, str] = {}
    parameters = sorted(context.command.params, key=lambda each: isinstance(each.type, OutputPath))
    for parameter in parameters:
        is_option = isinstance(parameter, click.Option)
        label = parameter.opts[0] if is_option else parameter.human_readable_name
        for path in _paths(parameter, context.params.get(parameter.name or "")):
            if isinstance(parameter.type, OutputPath):
                _refuse_lost(label, path, {} if parameter.type.in_place else seen)
                _refuse_unwritable(label, path)
            seen.update(dict.fromkeys(_files(path), label))


def _refuse_lost(label: str, path: Path, seen: Mapping[str, str]) -> None:
    """Raise OptionError if the output *path* would replace one of the files *seen*."""
    for file in _files(path):
        if file in seen:
            raise OptionError(
                f"{label} {path}: it would replace {file}, the file of {seen[file]}; choose "
                "another name"
            )


def _refuse_unwritable(label: str, path: Path) -> None:
    """Raise GlowError if the output *path* cannot be written."""
    if os.path.realpath(path.parent) == "/dev":  # /dev/stdout may lead to a file
        raise OptionError(f"{label} {path}: it is a device or a stream; give the path of a file")
    if not os.path.isdir(path.parent):
        raise OptionError(
            f"{label} {path}: there is no folder {path.parent}; make it, or choose another one"
        )
    check_writable(path)


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
    """Yield where *path* leads to and, of IR text, the archive of its constants."""
    place = Path(os.path.realpath(path))
    yield str(place)
    if SUFFIX in (path.suffix, place.suffix):
        yield os.path.realpath(place.with_suffix(".npz"))
