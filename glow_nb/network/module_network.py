"""A network of several functions over one state, such as training and inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Never, NoReturn

from glow_nb.base.arguments import Shapes
from glow_nb.base.errors import OptionError
from glow_nb.base.feeds import Feeds
from glow_nb.base.override import override
from glow_nb.base.types import Array, TensorType
from glow_nb.network.network import CompiledNetwork, Network
from glow_nb.network.runner import BoundRun
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from concurrent.futures import Future

    from glow_nb.base.kernel_report import KernelList
    from glow_nb.base.precision import PrecisionReport
    from glow_nb.compiler.pipelines import Pipeline
    from glow_nb.hlir.graph import Function
    from glow_nb.llir.program import Program
    from glow_nb.network.memory_report import MemoryReport
    from glow_nb.network.profile import Profile
    from glow_nb.system.background import AwaitableFuture


class ModuleNetwork(Network):
    """The functions of a module, compiled for the state that they share.

    Example::

        net = glow_nb.compile(Module((train, infer)))
        net["train"].run({"x": images, "labels": labels})
        scores = net["infer"].run({"x": images})["scores"]
        net.save_state("trained.safetensors")

    Properties of a single function belong to its network: ``net["infer"].memory``. Only one run of
    any function may be in progress on the state at a time.
    """

    def __init__(
        self, networks: Mapping[str, CompiledNetwork], state: StateStore, threads: int
    ) -> None:
        """Hold *networks* by name, which run on *state*; users call :func:`glow_nb.compile`."""
        self._state, self._functions, self._threads = state, dict(networks), threads

    @property
    @override
    def state(self) -> StateStore:
        return self._state

    @property
    @override
    def functions(self) -> dict[str, Network]:
        return dict(self._functions)

    @property
    @override
    def threads(self) -> int:
        return self._threads

    def _choose(self, what: str) -> NoReturn:
        first, *_ = self._functions
        raise OptionError(
            f"the network has the functions {list(self._functions)}; choose one of them: "
            f"net[{first!r}].{what}"
        )

    @property
    @override
    def inputs(self) -> dict[str, TensorType]:
        self._choose("inputs")

    @property
    @override
    def outputs(self) -> dict[str, TensorType]:
        self._choose("outputs")

    @override
    def run(self, inputs: Feeds | None = None, *more: Never, **options: Any) -> dict[str, Array]:
        self._choose("run")

    @override
    def bind(self, inputs: Feeds, outputs: Mapping[str, Array] | None = None) -> BoundRun:
        self._choose("bind")

    @override
    def run_async(
        self, inputs: Feeds | None = None, *more: Never, **options: Any
    ) -> AwaitableFuture[dict[str, Array]]:
        self._choose("run_async")

    @override
    def profile(self, inputs: Feeds, *, runs: int = 20, limits: bool = True) -> Profile:
        self._choose("profile")

    @override
    def prepare(self, shapes: Shapes) -> Future[CompiledNetwork]:
        self._choose("prepare")

    @property
    @override
    def value_names(self) -> list[str]:
        self._choose("value_names")

    @property
    @override
    def program(self) -> Program:
        self._choose("program")

    @property
    @override
    def function(self) -> Function | None:
        self._choose("function")

    @property
    @override
    def memory(self) -> MemoryReport:
        self._choose("memory")

    @property
    @override
    def pipeline(self) -> Pipeline:
        return next(iter(self._functions.values())).pipeline

    @property
    @override
    def precision(self) -> PrecisionReport:
        self._choose("precision")

    @property
    @override
    def kernels(self) -> KernelList:
        self._choose("kernels")

    @property
    @override
    def source(self) -> str:
        self._choose("source")

    @override
    def _title(self) -> str:
        from glow_nb.base.text import format_name

        return f"ModuleNetwork: {', '.join(map(format_name, self._functions))}; {self.state!r}"

    @override
    def _repr_html_(self) -> str:
        from glow_nb.base.table import html_text

        return html_text(self._title())

    @override
    def __repr__(self) -> str:
        return f"<ModuleNetwork {', '.join(self._functions)}; {self.state!r}>"
