"""Who takes part in a duel: engines, each with what it is asked to compute in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glow_nb.base.errors import OptionError
from glow_nb.base.precision import FULL
from glow_nb.base.schema import closest, listed
from glow_nb.tools.duel.engines import BFLOAT16, OUT_OF_THE_BOX, PRECISIONS

ALWAYS_FULL = frozenset({("glow_nb", OUT_OF_THE_BOX)}) | {
    ("onnxruntime", precision) for precision in (BFLOAT16, OUT_OF_THE_BOX)
}
"""Engines, with what they are asked for, that compute in float32 then: glow_nb if it is asked for
nothing, ONNX Runtime whatever it is asked for."""


@dataclass(frozen=True)
class Entrant:
    """An engine, and what it is asked to compute in.

    Attributes:
        engine: The name of its package.
        precision: One of PRECISIONS, which the engine can tell from the others.
    """

    engine: str
    precision: str = FULL

    @property
    def name(self) -> str:
        """The name of its results: ``openvino``, or ``openvino bfloat16`` if not in float32."""
        return self.engine if self.precision == FULL else f"{self.engine} {self.precision}"


def entrant_of(engine: str, precision: str) -> Entrant:
    """Return *engine* as it is asked for *precision*.

    Two precisions in which an engine does the same make one entrant, that in float32.
    """
    return Entrant(engine, FULL if (engine, precision) in ALWAYS_FULL else precision)


def entrants_of(engines: Sequence[str], precisions: Sequence[str]) -> dict[str, Entrant]:
    """Return *engines* in all *precisions* by the names of the entrants, each once.

    Raises:
        OptionError: There is no such precision, or none is given.
    """
    for precision in precisions:
        if precision not in PRECISIONS:
            raise OptionError(
                f"precision {precision!r}: no engine has it; use one of {listed(PRECISIONS)}"
                f"{closest(precision, PRECISIONS)}"
            )
    if not precisions:
        raise OptionError(f"no precision: give one or more of {listed(PRECISIONS)}")
    found = (entrant_of(engine, precision) for precision in precisions for engine in engines)
    return {entrant.name: entrant for entrant in found}
