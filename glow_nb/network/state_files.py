"""State in files: safetensors, which other programs read, too.

A file is replaced as a whole: a process that is killed leaves the old one or the new one.
"""

from __future__ import annotations

from pathlib import Path

from glow_nb.base.errors import StateError
from glow_nb.base.types import TensorType
from glow_nb.network.tensor_files import read_tensors, tensor_bytes
from glow_nb.system.replaced_files import replace_file
from glow_nb.system.state_store import StateStore


def save_state(state: StateStore, path: Path) -> None:
    """Write all of *state* to *path*; the file is complete on the disk before it takes its place.

    Raises:
        StateError: A run is in progress.
        GlowError: *path* is no regular file, or cannot be written.
    """
    with state.for_reading() as arrays:
        content = tensor_bytes(arrays, {})
    replace_file(path, lambda place: place.write_bytes(content))


def load_state(state: StateStore, path: Path) -> None:
    """Read all of *state* from *path*; it stays as it was if the file does not fit.

    Raises:
        StateError: The file cannot be read or is damaged, its names, kinds or shapes are others
            than those of *state*, or a run is in progress.
    """
    arrays, _ = read_tensors(path, StateError, "a file of state")
    known, found = state.types, {name: TensorType.of(array) for name, array in arrays.items()}
    missing = [f"{name!r} : {type}" for name, type in known.items() if name not in found]
    unknown = [f"{name!r} : {type}" for name, type in found.items() if name not in known]
    others = [
        f"{name!r} is {found[name]}, the network has {type}"
        for name, type in known.items()
        if name in found and found[name] != type
    ]
    problems = [
        f"it lacks {', '.join(missing)}" * bool(missing),
        f"it has {', '.join(unknown)}, which the network does not have" * bool(unknown),
        "; ".join(others),
    ]
    if any(problems):
        listed = "; ".join(filter(None, problems))
        raise StateError(f"{path}: not the state of this network: {listed}; give its own file")
    state.update_all(arrays)
