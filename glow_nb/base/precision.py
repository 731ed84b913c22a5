"""In which kind of floats the layers of a network compute, and why: data, printed as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from glow_nb.base.override import override
from glow_nb.base.quantities import count_of
from glow_nb.base.table import Table

Precision = Literal["float32", "bfloat16"]
"""What operands of products of float32 are rounded to."""

FULL: Precision = "float32"
"""The precision that changes nothing."""


@dataclass(frozen=True)
class LayerPrecision:
    """In which kind one layer computes.

    Attributes:
        name: The layer's name in the model.
        operator: Its operator.
        kind: The kind of what it multiplies or adds up.
        reason: Why it does not compute in the kind that was asked for; empty if it does.
    """

    name: str
    operator: str
    kind: str
    reason: str = ""


@dataclass(frozen=True, repr=False)
class PrecisionReport:
    """In which kind of floats a network computes; printed as a table.

    Attributes:
        precision: The precision that the user asked for.
        layers: The products, and what adds up or normalizes, in the order of the graph; none if
            nothing was asked for.
        integer_instructions: The number of instructions with integer weights, which a quantized
            model has.
    """

    precision: Precision = FULL
    layers: tuple[LayerPrecision, ...] = ()
    integer_instructions: int = 0

    def to_plain(self) -> list[Any]:
        """Return it as plain data, without what the program says."""
        rows = [[each.name, each.operator, each.kind, each.reason] for each in self.layers]
        return [self.precision, rows]

    @classmethod
    def from_plain(cls, plain: Sequence[Any]) -> PrecisionReport:
        """Return what :meth:`to_plain` returned."""
        precision, rows = plain
        return cls(precision, tuple(LayerPrecision(*row) for row in rows))

    def __iter__(self) -> Iterator[LayerPrecision]:
        """Return the layers in order."""
        return iter(self.layers)

    def __len__(self) -> int:
        """Return the number of layers."""
        return len(self.layers)

    @property
    def lowered(self) -> tuple[LayerPrecision, ...]:
        """The layers that compute in the requested kind."""
        return tuple(layer for layer in self.layers if not layer.reason)

    @property
    def kept(self) -> tuple[LayerPrecision, ...]:
        """The layers that do not, each with its reason."""
        return tuple(layer for layer in self.layers if layer.reason)

    @property
    def title(self) -> str:
        """The precision that was asked for, and the number of instructions with integer weights."""
        if not self.integer_instructions:
            return self.precision
        instructions = count_of(self.integer_instructions, "instruction")
        return f"{self.precision}; {instructions} with integer weights"

    @property
    def table(self) -> Table:
        """The layers in order."""
        rows = ((each.name, each.operator, each.kind, each.reason) for each in self.layers)
        return Table(("layer", "operator", "kind", "reason"), tuple(rows))

    @override
    def __str__(self) -> str:
        if not self.layers:
            return repr(self)
        return f"{self.table}\n{self._counted()}"

    def _counted(self) -> str:
        kinds = Counter(layer.kind for layer in self.layers)
        return ", ".join(f"{count_of(count, 'layer')} in {kind}" for kind, count in kinds.items())

    @override
    def __repr__(self) -> str:
        inside = f": {self._counted()}" if self.layers else ""
        return f"<precision {self.title}{inside}>"

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        return self.table._repr_html_()
