"""The inputs and outputs of a model that leaves sizes open, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from glow_nb.base.errors import GlowError
from glow_nb.base.specialized import Specialized
from glow_nb.base.types import ElementKind, SymbolicType

Types = Mapping[str, SymbolicType]
PlainType = tuple[str, str | None, Sequence[int | str] | None]
"""The name of a tensor, its kind and its shape as far as they are known."""


class Bordered(Protocol):
    """A model with open sizes that knows its inputs and outputs."""

    @property
    def inputs(self) -> Types:
        """Name and type of each input, in order."""

    @property
    def defaults(self) -> Types:
        """The same of each further input, which need not be fed."""

    @property
    def outputs(self) -> Types:
        """The same of each output."""


class Signature(NamedTuple):
    """The border of a model, as far as a network of it must know that to run.

    Attributes:
        inputs: Name and type of each input that must be fed, in order.
        defaults: The same of each input that need not be fed.
        outputs: The same of each output.
        specialized: The open sizes that programs for all sizes have as numbers.
        general: The number of programs for all sizes among those that are written with it; they
            come first, programs for single sizes follow.
        is_asked: Whether all sizes were to be run by programs for all, by those in given ranges.
    """

    inputs: Types
    defaults: Types
    outputs: Types
    specialized: tuple[Specialized, ...] = ()
    general: int = 0
    is_asked: bool = False

    @classmethod
    def of(
        cls,
        model: Bordered,
        specialized: Iterable[Specialized] = (),
        general: int = 0,
        *,
        is_asked: bool = False,
    ) -> Signature:
        """Return that of *model*; of its programs, some *general* ones have *specialized* sizes."""
        borders = model.inputs, model.defaults, model.outputs
        return cls(*borders, tuple(specialized), general, is_asked)

    @property
    def has_open_sizes(self) -> bool:
        """Whether a size of an input that must be fed is open."""
        shapes = [type.shape for type in self.inputs.values()]
        return any(shape is None or not all(isinstance(n, int) for n in shape) for shape in shapes)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "inputs": types_to_plain(self.inputs),
            "defaults": types_to_plain(self.defaults),
            "outputs": types_to_plain(self.outputs),
            "specialized": [[each.name, each.size, each.reason] for each in self.specialized],
            "general": self.general,
            "is_asked": self.is_asked,
        }

    @classmethod
    def from_plain(cls, plain: Any) -> Signature:
        """Return what :meth:`to_plain` returned; raise GlowError if it is something else."""
        try:
            return cls(
                types_from_plain(plain["inputs"]),
                types_from_plain(plain["defaults"]),
                types_from_plain(plain["outputs"]),
                tuple(Specialized(*each) for each in plain["specialized"]),
                int(plain["general"]),
                bool(plain["is_asked"]),
            )
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise GlowError(f"this is no border of a model: {error!s:.80}") from error


def types_to_plain(types: Types) -> list[PlainType]:
    """Return *types* by name as plain data."""
    return [(name, t.kind.value if t.kind else None, t.shape) for name, t in types.items()]


def types_from_plain(plain: Iterable[PlainType]) -> dict[str, SymbolicType]:
    """Return what :func:`types_to_plain` returned; raise ValueError or TypeError if it is not."""
    return {
        str(name): SymbolicType(ElementKind(kind) if kind else None, _shape(shape))
        for name, kind, shape in plain
    }


def _shape(plain: Sequence[int | str] | None) -> tuple[int | str, ...] | None:
    return None if plain is None else tuple(plain)
