"""What can be seen of a network with open sizes: its programs, and the one that was used last."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from glow_nb.base.errors import GlowError
from glow_nb.base.override import override
from glow_nb.base.types import SymbolicType
from glow_nb.network.general import GeneralPrograms
from glow_nb.network.network import CompiledNetwork, Network
from glow_nb.network.sized_model import SizedModel
from glow_nb.network.variants import VariantCache
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.base.kernel_report import KernelList
    from glow_nb.base.precision import PrecisionReport
    from glow_nb.base.specialized import Specialized
    from glow_nb.compiler.pipelines import Pipeline
    from glow_nb.hlir.graph import Function
    from glow_nb.llir.program import Program
    from glow_nb.network.memory_report import MemoryReport

InputShapes = tuple[tuple[str, tuple[int, ...]], ...]
SizesKey = tuple[InputShapes, tuple[tuple[str, bytes], ...]]
"""Shapes of inputs, and the bytes of those that are constants. Programs for all have numbers."""


class DynamicViews(Network):
    """A network with open sizes as far as one looks at it; ``DynamicNetwork`` is what one runs."""

    _model: SizedModel
    _state: StateStore
    _threads: int
    _pipeline: Callable[[], Pipeline]
    _variants: VariantCache[SizesKey | int, CompiledNetwork]
    general: GeneralPrograms | None

    @property
    @override
    def state(self) -> StateStore:
        """What all sizes share; only graphs have some, no model of ONNX has."""
        return self._state

    @property
    @override
    def functions(self) -> dict[str, Network]:
        """The one function, under the name of the sizes that were used last."""
        return {self._last("functions").name: self}

    @property
    @override
    def inputs(self) -> dict[str, SymbolicType]:
        return dict(self._model.inputs)

    @property
    @override
    def defaults(self) -> dict[str, SymbolicType]:
        return dict(self._model.defaults)

    @property
    @override
    def outputs(self) -> dict[str, SymbolicType]:
        return dict(self._model.outputs)

    @property
    def specialized(self) -> tuple[Specialized, ...]:
        """The sizes of the model that the program for all sizes has as numbers, and why."""
        return self.general.specialized if self.general else ()

    @property
    def variants(self) -> tuple[CompiledNetwork, ...]:
        """The networks that are compiled: those for all sizes, then others, last used last."""
        general = self.general.networks if self.general else ()
        return (*general, *self._variants.ready().values())

    def _last(self, what: str) -> CompiledNetwork:
        """Return the network that was used last, to say *what* it has."""
        ready = self._variants.ready()
        if self.general is not None and self.general.first is not None and not ready:
            return self.general.first
        if not ready:
            raise self._not_compiled(what)
        return list(ready.values())[-1]

    def _not_compiled(self, what: str) -> GlowError:
        return GlowError(
            f"the network's {what}: it is not compiled for any sizes yet ({self._open_sizes()}); "
            "run it once, call prepare, or give compile the sizes by shapes="
        )

    def _open_sizes(self) -> str:
        return ", ".join(
            f"input {name!r} is {type}"
            for name, type in self._model.inputs.items()
            if type.shape is None or any(isinstance(size, str) for size in type.shape)
        )

    @property
    @override
    def value_names(self) -> list[str]:
        return self._model.value_names()

    @property
    @override
    def threads(self) -> int:
        return self._threads

    @property
    @override
    def program(self) -> Program:
        return self._last("program").program

    @property
    @override
    def function(self) -> Function | None:
        return self._last("graph").function

    @property
    @override
    def memory(self) -> MemoryReport:
        return self._last("memory").memory

    @property
    @override
    def pipeline(self) -> Pipeline:
        return self._pipeline()

    @property
    @override
    def precision(self) -> PrecisionReport:
        return self._last("precision").precision

    @property
    @override
    def kernels(self) -> KernelList:
        return self._last("kernels").kernels

    @property
    @override
    def source(self) -> str:
        return self._last("source").source

    def _readiness(self) -> str:
        ready = [network.sizes for network in self.variants]
        return f"compiled for {'; '.join(ready)}" if ready else "not compiled for any sizes yet"

    @override
    def _title(self) -> str:
        return f"DynamicNetwork: {self._readiness()}"

    @override
    def __repr__(self) -> str:
        return f"<DynamicNetwork {self._show_types()}, {self._readiness()}>"
