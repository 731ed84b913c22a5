"""Files of Python that a process runs as modules."""

from __future__ import annotations

import os
import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from glow_nb.base.errors import GlowError, OptionError


def import_file(file: Path) -> None:
    """Import *file* as a module called by its stem, once in a process.

    A point in the stem becomes an underscore: the module is in no package. As of a script, what
    stands beside the file can be imported by it.

    Raises:
        OptionError: The file cannot be imported; names the line.
    """
    place, name = os.path.realpath(file), file.stem.replace(".", "_")
    known = getattr(sys.modules.get(name), "__file__", None)
    if known is not None and os.path.realpath(known) == place:
        return
    if not os.path.isfile(place) or file.suffix != ".py":
        raise OptionError(f"{file}: there is no such file of Python; check the path")
    if name in sys.modules:
        raise OptionError(
            f"{file}: a module {name!r} is loaded already; give the file another name"
        )
    spec = spec_from_file_location(name, place)
    assert spec is not None
    assert spec.loader is not None
    folders = list(sys.path)
    sys.path.insert(0, os.path.dirname(place))
    sys.modules[name] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        sys.path[:] = folders
        raise OptionError(f"{file}: {_described(error, place)}") from error


def _described(error: BaseException, place: str) -> str:
    """Return the line of the file at *place* that has raised *error*, and what it says."""
    said = _said_by(error)
    if isinstance(error, SyntaxError) and error.filename == place:
        return f"line {error.lineno}: {type(error).__name__}: {error.msg}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == place:
            return f"line {frame.lineno}: {said} ({frame.line})"
    return said


def _said_by(error: BaseException) -> str:
    """Return the message of an error of ours, and of another one its type as well."""
    if isinstance(error, GlowError):
        return str(error)
    if isinstance(error, SyntaxError):  # in a file that this one imports
        return f"{type(error).__name__}: {error}"
    # not str(error), which may raise in its turn
    return "".join(traceback.format_exception_only(error)).strip()
