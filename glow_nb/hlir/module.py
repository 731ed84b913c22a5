"""Several functions together."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from glow_nb.base.errors import GlowError
from glow_nb.base.text import Printable
from glow_nb.hlir.graph import Constant, Function, Placeholder, State


@dataclass(frozen=True, eq=False)
class Module(Printable):
    """Functions that share constants, states and placeholders (paper 3.1).

    Attributes:
        functions: The functions, in order.
    """

    functions: tuple[Function, ...]

    @property
    def constants(self) -> tuple[Constant, ...]:
        """All constants of the functions, each once."""
        return tuple(dict.fromkeys(c for f in self.functions for c in f.constants))

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        """All placeholders of the functions, each once."""
        return tuple(dict.fromkeys(p for f in self.functions for p in f.placeholders))

    @property
    def state(self) -> tuple[State, ...]:
        """All states of the functions, each once."""
        return tuple(dict.fromkeys(s for f in self.functions for s in f.state))

    def __getitem__(self, name: str) -> Function:
        """Return the function called *name*; raise GlowError if there is none."""
        for function in self.functions:
            if function.name == name:
                return function
        raise GlowError(
            f"module has no function {name!r}; it has {[f.name for f in self.functions]}"
        )

    @override
    def __repr__(self) -> str:
        return f"module of {len(self.functions)} functions: {[f.name for f in self.functions]}"
