"""The code in the actor of a Ray device; it knows neither numba nor the graph."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from glow_nb.base.errors import GlowError
from glow_nb.base.memory_limit import within_memory
from glow_nb.base.types import Array
from glow_nb.codegen.load_native import load
from glow_nb.codegen.loaded_program import LoadedProgram
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.runtime.devices.channel import text_of
from glow_nb.system.state_store import StateStore


class RayWorker:
    """Loads programs and runs them, one run after another.

    An error is returned as text: an exception that crosses Ray becomes another one.
    """

    def __init__(self) -> None:
        """Have no network."""
        self._networks: dict[int, tuple[str, LoadedProgram, StateStore | None]] = {}

    def load(self, number: int, name: str, content: npt.NDArray[np.uint8]) -> str:
        """Load the program *content*, which all actors of a node share; return "" or an error."""
        try:
            with within_memory("loading"):
                loaded = load(NativeProgram.from_bytes(content.data))
                state = StateStore(loaded.layout.state) if loaded.layout.state else None
        except GlowError as error:
            return text_of(error)
        self._networks[number] = (name, loaded, state)
        return ""

    def unload(self, number: int) -> None:
        """Forget a network."""
        del self._networks[number]

    def run(self, number: int, *inputs: Any) -> list[Array] | str:
        """Return the outputs, or an error."""
        name, loaded, state = self._networks[number]
        try:
            with within_memory(f"network {name!r}"):
                aligned = [np.require(array, requirements=["C", "A"]) for array in inputs]
                return loaded.run(aligned, state)
        except GlowError as error:
            return text_of(error)

    def beat(self, seconds: float) -> None:
        """Return after *seconds* seconds, if the actor is alive then; its end is reported at
        once.
        """
        time.sleep(seconds)
