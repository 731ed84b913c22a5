"""``net.save``: a compiled network in a folder of the user."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from glow_nb.base.arguments import as_path
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.log import INFO, log
from glow_nb.codegen.linked_code import IS_SUPPORTED
from glow_nb.network.saved.files import SUMS
from glow_nb.system.regular_files import read_text
from glow_nb.system.replaced_folders import new_folder, require_only
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.network.saved.courses import SavableNetwork
    from glow_nb.network.saved.manifest import Plain
    from glow_nb.network.saved.signature import Signature


def save_networks(
    folder: str | os.PathLike[str],
    networks: Iterable[SavableNetwork],
    state: StateStore,
    opened: Signature | None = None,
    grown: Plain | None = None,
) -> None:
    """Write *networks* and the values of their *state* to *folder*, whole or not at all.

    They are functions of one network, or programs of one that leaves sizes open: *opened* then, or
    the one of a network whose caches have *grown*.

    A saved network that is there is replaced; if the process is killed meanwhile, it stays.

    Raises:
        OptionError: The folder holds something else.
        UnsupportedError: The networks are not machine code, or the system maps no such code.
        GlowError: A file cannot be written.
        StateError: A run is in progress.
    """
    from glow_nb.network.saved.key import versions
    from glow_nb.network.saved.writing import write_network

    require_support()
    networks = list(networks)
    with (
        new_folder(as_path(folder), _is_saved_network, "a saved network") as new,
        state.for_reading() as values,
    ):
        origin = {"functions": ", ".join(dict.fromkeys(network.name for network in networks))}
        write_network(
            new,
            networks,
            values,
            made_from=origin,
            versions=versions(),
            opened=opened,
            grown=grown,
        )
    log(INFO, "network of %s: saved", os.fspath(folder))


def _is_saved_network(folder: Path) -> bool:
    """Return whether *folder* holds a saved network; raise OptionError if it has other files."""
    try:
        lines = read_text(folder / SUMS).splitlines()
    except (OSError, ValueError):
        return False
    require_only(folder, {SUMS, *(line.partition("  ")[2] for line in lines)}, "the saved network")
    return True


def require_support() -> None:
    """Raise UnsupportedError where the system does not map such code."""
    if not IS_SUPPORTED:
        raise UnsupportedError(
            "compiled networks are saved and loaded on Linux for x86-64 alone; save the program as "
            "text: glow_nb.save_text(net.program, 'net.glow')"
        )
