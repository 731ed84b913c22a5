"""``glow_nb.load_compiled``: a network that was saved, ready to run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from glow_nb.base.arguments import as_path
from glow_nb.base.log import INFO, log
from glow_nb.network.saved.reading import Model, as_network, read_network
from glow_nb.network.saved.saving import require_support
from glow_nb.system.cache_folder import notes_folder
from glow_nb.system.file_digests import FileDigests
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.network.network import Network


def load_compiled(folder: str | os.PathLike[str], *, state: StateStore | None = None) -> Network:
    """Return the network that ``net.save(folder)`` wrote, ready to run; nothing is compiled.

    Constants and code are mapped from the files, which must stay as long as the network is used.
    The model itself is not among them: values are watched by the names and in the layouts of
    ``net.function``, the graph after all passes. A network with open sizes runs with the sizes for
    which one of its programs is valid, and one that keeps caches begins with empty caches.

    Args:
        folder: The folder.
        state: The store of the states, such as ``net.state`` of another network; by default a new
            one.

    Raises:
        ModelError: It is no saved network, is damaged, or was made by another version or for
            another processor; the error says what differs.
        StateError: *state* holds one of the name of another type.
        UnsupportedError: This system cannot map such code.
    """
    require_support()
    place = Path(os.path.abspath(as_path(folder)))
    digests = FileDigests(notes_folder())
    found = read_network(place, digests, state=state, model=Model(_refuse_defaults))
    log(INFO, "network of %s: loaded", place)
    if found.signature is None:
        return as_network(found)
    from glow_nb.network.saved.without_model import SavedDynamicNetwork

    return SavedDynamicNetwork(found.signature, found.functions)


def _refuse_defaults() -> NoReturn:
    from glow_nb.network.saved.without_model import refuse_defaults

    refuse_defaults()
