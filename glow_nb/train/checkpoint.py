"""Checkpoints: all that a trainer needs to go on, in one file of the safetensors format.

A file is replaced as a whole: a process that is killed leaves the old one or the new one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import UnionType
from typing import Any

from glow_nb.base.errors import ModelError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.network.tensor_files import read_tensors, tensor_bytes
from glow_nb.system.replaced_files import replace_file
from glow_nb.train.fitting import FitState
from glow_nb.train.numbers import MOST_INTEGER, computed_kind

FORMAT = "glow_nb checkpoint 1"


@dataclass(frozen=True)
class Checkpoint:
    """The data from which a trainer continues.

    Attributes:
        values: The value of each state.
        weights: Which of them are weights.
        kept: The optimizer's state for a weight.
        steps: Steps made.
        epochs: Epochs of ``fit`` made.
        seed: Seed of the trainer.
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
    about = {k: v for k, v in vars(checkpoint).items() if k != "values"}
    about["fit"] = asdict(checkpoint.fit) if checkpoint.fit else None
    texts = {"format": FORMAT, "checkpoint": json.dumps(about)}
    content = tensor_bytes(checkpoint.values, texts)
    replace_file(path, lambda place: place.write_bytes(content))


def read_checkpoint(path: Path) -> Checkpoint:
    """Read what :func:`write_checkpoint` wrote; raise ModelError if it is no such file."""
    values, texts = read_tensors(path, ModelError, "a checkpoint")
    if texts.get("format") != FORMAT:
        raise ModelError(
            f"{path}: its format is {texts.get('format')!r:.80}, not {FORMAT!r}; give a file that "
            "Trainer.save has written"
        )
    try:
        return _checkpoint(values, texts.get("checkpoint", ""))
    except _Damage as damage:
        raise ModelError(f"{path}: a checkpoint that is damaged: {damage}; give another") from None


class _Damage(Exception):
    """The damage in a file that claims to be a checkpoint."""


Fields = Mapping[str, type | UnionType]
"""The kind of each field of what is kept as JSON."""

_FLOAT = int | float
_CHECKPOINT: Fields = {
    "weights": list,
    "kept": list,
    "steps": int,
    "epochs": int,
    "seed": int,
    "fit": dict | None,
}
_FIT: Fields = {
    "begin": int,
    "batch": int,
    "total": _FLOAT,
    "best": _FLOAT,
    "stale": int,
    "history": list,
}
_EPOCH: Fields = {
    "number": int,
    "steps": int,
    "loss": _FLOAT,
    "validation": dict | None,
    "seconds": _FLOAT,
}


def _checkpoint(values: Mapping[str, Array], text: str) -> Checkpoint:
    """Return the checkpoint with *values* whose other fields *text* holds; raise _Damage."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise _Damage(f"{text!r:.80} is no JSON") from None
    about = _checked("checkpoint", given, _CHECKPOINT)
    fit = about.pop("fit")
    if fit is not None:
        fit = FitState(**_checked("fit", fit, _FIT))
        for epoch in fit.history:
            _checked("epoch", epoch, _EPOCH)
    found = Checkpoint(_widened(values, about), **about, fit=fit)
    for weight in found.weights:
        _check_weight(found, weight)
    return found


def _widened(values: Mapping[str, Array], about: Mapping[str, Any]) -> Mapping[str, Array]:
    """Return *values*; what is kept for 16-bit weights, and was kept so before, has 32."""
    names = {f"{weight}.{added}" for weight in about["weights"] for added in about["kept"]}
    names |= {f"{weight}.gradient" for weight in about["weights"]}
    return {
        name: array.astype(computed_kind(ElementKind.of(array.dtype)).dtype, copy=False)
        if name in names and name not in about["weights"] and array.dtype.kind in "fV"
        else array
        for name, array in values.items()
    }


def _checked(what: str, given: Any, fields: Fields) -> dict[str, Any]:
    """Return *given*, which is called *what*, if it has these *fields*; else raise _Damage."""
    if not isinstance(given, dict) or given.keys() != fields.keys():
        raise _Damage(f"its {what} is {given!r:.80}, and should have the fields {list(fields)}")
    for name, kind in fields.items():
        value = given[name]
        fits = isinstance(value, kind) and not isinstance(value, bool)
        if not fits or (kind is int and not 0 <= value <= MOST_INTEGER):
            raise _Damage(f"{name!r} of its {what} is {value!r:.80}")
    return given


def _check_weight(found: Checkpoint, weight: object) -> None:
    """Raise _Damage unless *weight* has a value, and what is kept for it is of its shape."""
    if not isinstance(weight, str) or weight not in found.values:
        raise _Damage(f"its weight {weight!r:.80} has no value")
    type = TensorType.of(found.values[weight])
    wanted = TensorType(computed_kind(type.kind), type.shape)
    for name in (f"{weight}.{added}" for added in found.kept):
        if name in found.values and name not in found.weights:
            kept = TensorType.of(found.values[name])
            if kept != wanted:
                raise _Damage(f"{name!r} is {kept}, its weight is {type}")


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
