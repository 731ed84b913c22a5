"""``net.save``: a compiled network in a folder of the user."""

from __future__ import annotations

import ctypes
import os
import shutil
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from glow_nb.base.arguments import as_path
from glow_nb.base.errors import GlowError, OptionError, UnsupportedError
from glow_nb.codegen.linked_code import IS_SUPPORTED
from glow_nb.network.saved.files import SUMS
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.network.saved.writing import SavableNetwork

_EXCHANGE, _WORKING_FOLDER = 2, -100
"""What Linux calls the exchange of two names, and the folder that relative paths begin at."""


def save_networks(
    folder: str | os.PathLike[str], networks: Iterable[SavableNetwork], state: StateStore
) -> None:
    """Write *networks* and the values of their *state* to *folder*, whole or not at all.

    A saved network that is there is replaced; if the process is killed meanwhile, it stays.

    Raises:
        OptionError: The folder holds something else.
        UnsupportedError: The networks are not machine code, or the system maps no such code.
        GlowError: A file cannot be written.
        StateError: A run is in progress.
    """
    from glow_nb.network.saved.key import versions
    from glow_nb.network.saved.writing import write_network

    place = Path(os.path.realpath(as_path(folder)))
    require_support()
    _require_free(place)
    networks = list(networks)
    new = place.with_name(f".{place.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        new.mkdir()
        try:
            with state.for_reading() as values:
                origin = {"functions": ", ".join(network.name for network in networks)}
                write_network(new, networks, values, made_from=origin, versions=versions())
            _sync(new)
            _move(new, place)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise GlowError(f"{place}: cannot be written: {error.strerror}") from error


def require_support() -> None:
    """Raise UnsupportedError where the system does not map such code."""
    if not IS_SUPPORTED:
        raise UnsupportedError(
            "compiled networks are saved and loaded on Linux for x86-64 alone; save the program as "
            "text: glow_nb.save_text(net.program, 'net.glow')"
        )


def _require_free(place: Path) -> None:
    """Raise OptionError if *place* holds something other than a saved network."""
    if not place.exists():
        return
    if not place.is_dir() or (not (place / SUMS).is_file() and any(place.iterdir())):
        raise OptionError(
            f"{place}: is no folder with a saved network, which would be replaced; give the path "
            "of a new folder"
        )


def _sync(folder: Path) -> None:
    """Let all files of *folder* reach the disk."""
    for path in folder.iterdir():
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _move(new: Path, place: Path) -> None:
    """Give the folder *new* the name of *place*; what was there has that of *new* then."""
    if not place.exists():
        new.rename(place)
        return
    names = (os.fsencode(new), os.fsencode(place))
    with suppress(AttributeError):  # a C library without it
        rename = ctypes.CDLL(None, use_errno=True).renameat2
        if rename(_WORKING_FOLDER, names[0], _WORKING_FOLDER, names[1], _EXCHANGE) == 0:
            return
    old = new.with_name(f"{new.name}.old")
    place.rename(old)
    new.rename(place)
    old.rename(new)
