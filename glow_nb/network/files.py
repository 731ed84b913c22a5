"""IR text on disk: ``net.glow``, with the numbers of its large constants beside it in ``net.npz``.

The archive holds one array for each constant under a name of ours (``c0``, ``c1`` ...) and the list
of the real names, which come from models and must not become member names. The first line of the
text says which archive it was written with::

    // constants 5f0c9a61e7d24b83, beside this file
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from glow_nb.backends import register_operators
from glow_nb.base.arguments import as_path
from glow_nb.base.errors import GlowError, ModelError, OptionError, reason_of
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.hlir.parse import parse_function, parse_module
from glow_nb.hlir.print import external_constants
from glow_nb.hlir.verify import verify_module
from glow_nb.llir.parse import parse_program
from glow_nb.llir.print import external_weights
from glow_nb.llir.program import Program
from glow_nb.network.ir_text import ir_text
from glow_nb.network.text_files import archive_of
from glow_nb.system.regular_files import open_regular, read_text
from glow_nb.system.replaced_files import new_file

T = TypeVar("T")

_PAIR = re.compile(r"// constants ([0-9a-f]{16}),")


def load_text(path: str | os.PathLike[str]) -> Function | Program:
    """Read a function or a program from IR text, with its constants if their file is there.

    Raises:
        ModelError: A file cannot be read, or the archive of constants is broken.
        ParseError: The text is not valid IR.
        GlowError: It has several functions.
    """
    return parse_text(*_read(Path(path)))


def load_all_text(path: str | os.PathLike[str]) -> Module | Program:
    """Do what :func:`load_text` does, for text of any number of functions."""
    return parse_all_text(*_read(Path(path)))


def _read(path: Path) -> tuple[str, str, dict[str, Array]]:
    """Return the IR text at *path*, the path as errors show it, and the constants beside it."""
    try:
        text = read_text(path)
    except OSError as error:
        raise ModelError(
            f"{path}: cannot be read as IR text: {error.strerror}; check the path"
        ) from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: cannot be read as IR text: {error}") from error
    archive = archive_of(path)
    written_with = _PAIR.match(text)
    # a file beside a text without such constants does not belong to it
    is_needed = "external" in text and archive.exists()
    if not is_needed:
        return text, str(path), {}
    constants = load_constants(archive)
    if written_with and written_with[1] != (found := _fingerprint(archive)):
        raise ModelError(
            f"{path}: its constants are {written_with[1]}, but {archive.name} has {found}: it "
            "belongs to another text; put the correct archive back, or remove the first line of "
            "the text to use this one"
        )
    return text, str(path), constants


def parse_text(
    text: str, path: str = "<text>", constants: Mapping[str, Array] | None = None
) -> Function | Program:
    """Parse IR text of one function or program; ``declare`` begins the lower level."""
    if _is_program(text):
        return parse_program(text, path, constants)
    return parse_function(text, path, constants)


def parse_all_text(
    text: str, path: str = "<text>", constants: Mapping[str, Array] | None = None
) -> Module | Program:
    """Do what :func:`parse_text` does, for text of any number of functions."""
    if _is_program(text):
        return parse_program(text, path, constants)
    return parse_module(text, path, constants)


def _is_program(text: str) -> bool:
    register_operators()
    first = re.search(r"^\s*(\w+)", re.sub(r"//[^\n]*", "", text))
    return first is not None and first.group(1) == "declare"


def save_text(ir: Function | Module | Program, path: str | os.PathLike[str]) -> None:
    """Write *ir* as text to *path* and its large constants beside it.

    Both files are written completely before the first one gets its name: if the disk is full, the
    old files stay.

    Raises:
        OptionError: *path* is no path, or *ir* is no IR but, for example, a model or a network.
        GlowError: A file cannot be written, or the constants would replace another archive.
    """
    path = as_path(path)
    archive = archive_of(path)
    _require_ir(ir)
    if isinstance(ir, Module):
        verify_module(ir)  # functions that have constants of equal names could not be read back
    text = ir_text(ir)
    constants = external_weights(ir) if isinstance(ir, Program) else external_constants(ir)
    with contextlib.ExitStack() as files:
        if constants:
            _refuse_foreign(archive)
            save = partial(_save_constants, constants=constants)
            fingerprint = files.enter_context(new_file(archive, save))
            text = f"// constants {fingerprint}, beside this file\n{text}"
        files.enter_context(new_file(path, lambda place: place.write_text(text, encoding="utf-8")))


def _require_ir(ir: object) -> None:
    """Raise OptionError unless *ir* is what IR text is of."""
    if isinstance(ir, Function | Module | Program):
        return
    is_network = isinstance(getattr(type(ir), "program", None), property)
    remedy = (
        "give its net.program, or the graph that was compiled"
        if is_network
        else "glow_nb.load(model) makes a Function of an ONNX model"
    )
    raise OptionError(
        f"a {type(ir).__name__} has no IR text, a Function, a Module or a Program has; {remedy}"
    )


def _fingerprint(archive: Path) -> str:
    """Return 16 digits that differ if a constant does, from the checksums in *archive*."""
    with zipfile.ZipFile(archive) as found:
        members = sorted((member.filename, member.CRC) for member in found.infolist())
    return hashlib.sha256(repr(members).encode()).hexdigest()[:16]


def _refuse_foreign(archive: Path) -> None:
    """Raise GlowError if *archive* is there and holds something other than constants."""
    if not archive.is_file():
        return
    try:
        with zipfile.ZipFile(archive) as found:
            is_ours = all(re.fullmatch(r"arr_0\.npy|c\d+\.npy", name) for name in found.namelist())
    except (OSError, zipfile.BadZipFile):
        is_ours = False
    if not is_ours:
        raise GlowError(
            f"{archive}: not an archive of constants, which IR text keeps there; move it away, or "
            "choose another name for the text"
        )


def _save_constants(path: Path, constants: Mapping[str, Array]) -> str:
    """Write *constants* to *path*; return the fingerprint of what was written."""
    names = np.frombuffer(json.dumps(list(constants)).encode(), np.uint8)
    members: dict[str, Any] = {
        f"c{index}": _storable(a) for index, a in enumerate(constants.values())
    }
    with path.open("wb") as stream:
        np.savez(stream, names, **members)
    return _fingerprint(path)


def _storable(array: Array) -> Array:
    """Return *array*; if npz does not know its kind, its bits as a field called like the kind."""
    if array.dtype.isbuiltin == 1:
        return array
    kind = ElementKind.of(array.dtype)
    return array.view(np.dtype([(kind.value, f"u{kind.size_bytes}")]))


def load_constants(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Read the constants that :func:`save_text` wrote."""
    try:
        with open_regular(path) as stream:
            archive = np.load(stream, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ModelError(
                    f"{path}: not an archive of constants: it holds one array; write the text "
                    "again, by glow_nb.save_text, which makes both files"
                )
            names = json.loads(archive["arr_0"].tobytes())
            return {name: _restored(archive[f"c{i}"]) for i, name in enumerate(names)}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError, MemoryError) as error:
        raise ModelError(f"{path}: not an archive of constants: {reason_of(error)}") from error


def _restored(array: Array) -> Array:
    names = array.dtype.names
    return array if names is None else array.view(ElementKind(names[0]).dtype)
