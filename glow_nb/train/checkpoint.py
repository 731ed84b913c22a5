"""Checkpoints: all that a trainer needs to go on, in one file of the safetensors format.

The file is written beside its place, flushed to the disk and moved there, so that a process that is
killed leaves the old file or the new one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from glow_nb.errors import ModelError
from glow_nb.files import replace_file
from glow_nb.regular_files import open_regular
from glow_nb.train.fitting import FitState
from glow_nb.types import Array, TensorType

FORMAT = "glow_nb checkpoint 1"


@dataclass(frozen=True)
class Checkpoint:
    """What a trainer goes on from.

    Attributes:
        values: The value of each state.
        weights: Which of them are weights.
        kept: What the optimizer keeps for a weight.
        steps: Steps made.
        epochs: Epochs of ``fit`` made.
        seed: Of the trainer.
        fit: Where a ``fit`` is that has not ended.
    """

    values: Mapping[str, Array]
    weights: Sequence[str]
    kept: Sequence[str]
    steps: int
    epochs: int
    seed: int
    fit: FitState | None


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write *checkpoint* to *path*; raise GlowError if that cannot be written."""
    from safetensors.numpy import save

    about = {k: v for k, v in vars(checkpoint).items() if k != "values"}
    about["fit"] = asdict(checkpoint.fit) if checkpoint.fit else None
    metadata = {"format": FORMAT, "checkpoint": json.dumps(about)}
    data = save(dict(checkpoint.values), metadata)

    def write(place: Path) -> None:
        with place.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())

    replace_file(path, write)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read what :func:`write_checkpoint` wrote; raise ModelError if it is no such file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        with open_regular(path) as stream:
            data = stream.read()
        values = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = header.get("__metadata__", {})
    except (OSError, SafetensorError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read as a checkpoint: {error}") from error
    if metadata.get("format") != FORMAT:
        raise ModelError(
            f"{path}: its format is {metadata.get('format')!r}, not {FORMAT!r}; give a file that "
            "Trainer.save has written"
        )
    try:
        about: dict[str, Any] = json.loads(metadata["checkpoint"])
        return _checkpoint(values, **about)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"{path}: a checkpoint that is damaged: {type(error).__name__}: {error}; give another"
        ) from error


def _checkpoint(
    values: Mapping[str, Array], fit: Mapping[str, Any] | None, **about: Any
) -> Checkpoint:
    state = FitState(**fit) if fit is not None else None
    found = Checkpoint(values, **about, fit=state)
    for name in ("steps", "epochs", "seed"):
        if type(getattr(found, name)) is not int:
            raise ValueError(f"{name} is {getattr(found, name)!r:.80}")
    for weight in found.weights:
        wanted = TensorType.of(values[weight])
        for name in (f"{weight}.{added}" for added in found.kept):
            if name in values and name not in found.weights:
                kept = TensorType.of(values[name])
                if kept != wanted:
                    raise ValueError(f"{name!r} is {kept}, its weight is {wanted}")
    return found


def check_weights(path: Path, found: Checkpoint, expected: Mapping[str, TensorType]) -> None:
    """Raise ModelError unless the weights of *found* are *expected*; lists all that differ."""
    types = {name: TensorType.of(found.values[name]) for name in found.weights}
    problems = [
        f"{name!r} is {_shown(types.get(name))} there and {_shown(expected.get(name))} here"
        for name in dict.fromkeys((*types, *expected))
        if types.get(name) != expected.get(name)
    ]
    if problems:
        raise ModelError(
            f"{path}: a checkpoint of another network: {'; '.join(problems)}; load it into a "
            "trainer of its own network, with the same frozen="
        )


def _shown(type: TensorType | None) -> str:
    return "absent" if type is None else str(type)
