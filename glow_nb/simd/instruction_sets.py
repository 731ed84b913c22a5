"""The processor's features beside plain vectors, as the modules compiled for it name them.

An intrinsic that has an instruction for its work on some processors asks here; everywhere else it
does without. The names are those of :attr:`glow_nb.kernels.target.Target.instruction_sets`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def mark_instruction_sets(module: Any, names: Iterable[str]) -> None:
    """Say that the processor for which *module* is made has the instruction sets of *names*."""
    for name in names:
        module.add_named_metadata(_key(name))


def has_instruction_set(builder: Any, name: str) -> bool:
    """Return whether the processor has it for which the module of *builder* is made."""
    return _key(name) in builder.module.namedmetadata


def _key(name: str) -> str:
    return f"glow_nb.{name}"
