"""A compiled network: run it, and look at what was made of it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Never, NoReturn, cast

from typing_extensions import override

from glow_nb.base.arguments import Shapes, as_path, as_shapes
from glow_nb.base.counted import cut, visible_types
from glow_nb.base.errors import GlowError, OptionError, UnsupportedError
from glow_nb.base.feeds import FeedCheck, Feeds, gathered
from glow_nb.base.foreign import foreign
from glow_nb.base.memory_limit import out_of_memory
from glow_nb.base.outputs import Outputs
from glow_nb.base.types import Array, SymbolicType, TensorType
from glow_nb.network.defaults import Defaults
from glow_nb.network.levels import Border, Levels, MakeLevels
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from concurrent.futures import Future

    from glow_nb.backends.backend import DirectExecutable, Executable, StatefulExecutable
    from glow_nb.base.kernel_report import KernelList
    from glow_nb.codegen.loaded_program import DirectRun
    from glow_nb.compiler.pipelines import Pipeline
    from glow_nb.hlir.graph import Function
    from glow_nb.llir.program import Program
    from glow_nb.network.memory_report import MemoryReport
    from glow_nb.network.profile import Profile


class Network(ABC):
    """What :func:`glow_nb.compile` returns: a network of fixed sizes, or one that leaves some open.

    ``run`` may be called from many threads at once, unless the network has state.
    """

    @property
    @abstractmethod
    def state(self) -> StateStore:
        """The states by name; what is read is a copy, what is assigned is checked and copied."""

    @property
    @abstractmethod
    def functions(self) -> Mapping[str, Network]:
        """The functions by name."""

    def __getitem__(self, name: str) -> Network:
        """Return the function called *name*; raise OptionError if there is none."""
        functions = self.functions
        if name not in functions:
            from glow_nb.base.schema import closest, listed  # for what is wrong alone

            raise OptionError(
                f"the network has no function {name!r}{closest(str(name), functions)}; it has "
                f"{listed(functions)}"
            )
        return functions[name]

    def __iter__(self) -> Iterator[str]:
        """Return the names of the functions."""
        return iter(self.functions)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the network as machine code with its constants and states to *folder*.

        ``glow_nb.load_compiled(folder)`` runs it in another process, on such a processor. A saved
        network that is there is replaced as a whole.

        Raises:
            OptionError: The folder holds something else.
            UnsupportedError: The network leaves sizes open, or is not machine code.
            GlowError: A file cannot be written.
            StateError: A run is in progress.
        """
        from glow_nb.network.saved.saving import save_networks

        compiled = [f for f in self.functions.values() if isinstance(f, CompiledNetwork)]
        save_networks(folder, compiled, self.state)

    def save_state(self, path: str | os.PathLike[str]) -> None:
        """Write the state to the safetensors file *path*, whole or not at all.

        Raises:
            StateError: A run is in progress.
            GlowError: The file cannot be written.
        """
        from glow_nb.network.state_files import save_state

        save_state(self.state, as_path(path))

    def load_state(self, path: str | os.PathLike[str]) -> None:
        """Read the state from the safetensors file *path*, all of it or nothing.

        Raises:
            StateError: The file has other names, kinds or shapes (all of them are listed), is
                damaged or cannot be read, or a run is in progress.
        """
        from glow_nb.network.state_files import load_state

        load_state(self.state, as_path(path))

    @property
    @abstractmethod
    def inputs(self) -> Mapping[str, TensorType | SymbolicType]:
        """Name and type of each input, in order; sizes that are open show as their names."""

    @property
    def defaults(self) -> Mapping[str, SymbolicType]:
        """Name and type of each further input, which need not be fed: the model has its numbers.

        These are the initializers that an ONNX model lists as inputs, too. For feeds that replace
        some, the network is compiled once more, with them as inputs.
        """
        return {}

    @property
    @abstractmethod
    def outputs(self) -> Mapping[str, TensorType | SymbolicType]:
        """Name and type of each output, in order; sizes that are open show as their names."""

    @abstractmethod
    def run(self, inputs: Feeds | None = None, *more: Never, **by_name: Array) -> dict[str, Array]:
        """Run the network on one array for each input; return new arrays by output name.

        ``run({"x": images})``, ``run(x=images)`` and, if there is one input, ``run(images)`` are
        the same.
        """

    @abstractmethod
    def profile(self, inputs: Feeds, *, runs: int = 20, limits: bool = True) -> Profile:
        """Run the network some times and return the time of each kernel."""

    @abstractmethod
    def prepare(self, shapes: Shapes) -> Future[CompiledNetwork]:
        """Return the network of one set of sizes, made in the background if it is not there."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """Cores that share the work of one run."""

    @property
    @abstractmethod
    def program(self) -> Program:
        """The instructions, allocated."""

    @property
    @abstractmethod
    def function(self) -> Function | None:
        """The graph after lowering and optimization; None if a program was given."""

    @property
    @abstractmethod
    def memory(self) -> MemoryReport:
        """What the network needs in memory."""

    @property
    @abstractmethod
    def pipeline(self) -> Pipeline:
        """Each step and pass that the network was compiled by, in order, those of the backend, too.

        Printed as a table of their names and of what they do.
        """

    @property
    @abstractmethod
    def kernels(self) -> KernelList:
        """What was generated for each instruction, and of which nodes, in execution order."""

    @property
    @abstractmethod
    def source(self) -> str:
        """The generated source: the entry and every kernel once."""

    def __call__(
        self, inputs: Feeds | None = None, *more: Never, **by_name: Array
    ) -> dict[str, Array]:
        """Do what :meth:`run` does."""
        return self.run(inputs, *more, **by_name)

    @override
    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be copied or pickled: machine code and threads belong to this process."""
        raise UnsupportedError(
            "a compiled network cannot be copied or pickled, it is machine code in this process; "
            "share it (run may be called from many threads), save it (net.save(folder), then "
            "glow_nb.load_compiled(folder) on such a processor), or keep its program as text: "
            "glow_nb.save_text(net.program, 'net.glow'), then glow_nb.compile('net.glow')"
        )

    def _repr_html_(self) -> str:
        """Return for a notebook what the network is, with its inputs and outputs."""
        from glow_nb.base.table import Table, html_text
        from glow_nb.base.text import format_name

        values = [("input", n, t) for n, t in self.inputs.items()]
        values += [("output", n, t) for n, t in self.outputs.items()]
        rows = tuple((what, format_name(name), str(type)) for what, name, type in values)
        return html_text(self._title()) + Table(("", "name", "type"), rows)._repr_html_()

    @abstractmethod
    def _title(self) -> str:
        """Return what the network is in a line, without its inputs and outputs."""

    def _show_types(self) -> str:
        inputs = ", ".join(f"{name}: {type}" for name, type in self.inputs.items())
        outputs = ", ".join(f"{name}: {type}" for name, type in self.outputs.items())
        return f"({inputs}) -> ({outputs})"


class CompiledNetwork(Network):
    """A network of fixed sizes that is ready to run.

    Example::

        net = glow_nb.compile("resnet50.onnx", threads=2)
        outputs = net.run({"data": images})     # arrays by output name, in the model's order

    ``run`` may be called from many threads at once, unless the network has state.
    """

    def __init__(
        self,
        border: Border,
        executable: Executable,
        levels: MakeLevels,
        threads: int,
        *,
        state: StateStore,
        sizes: str = "",
        defaults: Defaults[Network] | None = None,
    ) -> None:
        """Wrap what the compiler made; users call :func:`glow_nb.compile` instead.

        Of a network that leaves sizes open, *sizes* says which it was compiled for. Its runs are on
        *state*. *defaults* takes feeds in place of constants. *levels* is called when somebody asks
        what it was made of.
        """
        self._defaults = Defaults({}, lambda: self) if defaults is None else defaults
        self._state, self._threads, self.sizes = state, threads, sizes
        self._border, self._make_levels = border, levels
        self.executable = executable
        self._run = self._run_of(executable)
        self._feeds = FeedCheck(border.inputs.items())
        subject = f"network {border.name!r}: {type(executable).__name__}.run"
        self._guard = foreign(GlowError, subject)  # to the backend, which may be a user's
        self._output_names = tuple(border.outputs)
        self._direct_run = self._direct_run_of(executable)

    def _direct_run_of(self, executable: Executable) -> DirectRun | None:
        """Return the fast path of a run, if *executable* has one and results need no cut."""
        if self._border.counted or not hasattr(executable, "direct_run"):
            return None
        direct: DirectExecutable = cast(Any, executable)
        with self._guard:
            return direct.direct_run(tuple(self._feeds.types), self._output_names)

    def _run_of(self, executable: Executable) -> Callable[[Sequence[Array]], list[Array]]:
        """Return what runs *executable*, on the state if the program has any."""
        if not self._border.has_state:
            return executable.run
        if hasattr(executable, "run_on"):
            stateful: StatefulExecutable = cast(Any, executable)
            return partial(stateful.run_on, self.state)
        raise UnsupportedError(
            f"network {self._border.name!r}: it has the state {list(self.state)!s:.80}, and "
            f"{type(executable).__name__} runs no program with state; write its method run_on"
        )

    @cached_property
    def _levels(self) -> Levels:
        return self._make_levels()

    @property
    def name(self) -> str:
        """The name of the program."""
        return self._border.name

    @property
    @override
    def state(self) -> StateStore:
        return self._state

    @property
    @override
    def functions(self) -> dict[str, Network]:
        """The one function."""
        return {self.name: self}

    @property
    @override
    def program(self) -> Program:
        return self._levels.program

    @property
    @override
    def function(self) -> Function | None:
        return self._levels.function

    @property
    @override
    def threads(self) -> int:
        return self._threads

    @property
    @override
    def inputs(self) -> dict[str, TensorType]:
        """Name and type of each input, in order."""
        return dict(self._feeds.types)

    @property
    @override
    def defaults(self) -> dict[str, SymbolicType]:
        return dict(self._defaults.types)

    @property
    @override
    def outputs(self) -> dict[str, TensorType]:
        """Name and type of each output, in order; ``int64<<=12 x 3>`` has at most 12 rows."""
        return visible_types(self._border.outputs, self._border.counted)

    @property
    @override
    def memory(self) -> MemoryReport:
        """What the network needs in memory."""
        from glow_nb.network.memory_report import report_memory

        return report_memory(self.program, self.executable, self.sizes)

    @property
    @override
    def pipeline(self) -> Pipeline:
        return self._levels.pipeline

    @property
    @override
    def kernels(self) -> KernelList:
        """What was generated for each instruction, and of which nodes, in execution order."""
        from glow_nb.base.kernel_report import KernelList

        return KernelList(self.executable.kernels, self.sizes)

    @property
    @override
    def source(self) -> str:
        """The generated source: the entry and every kernel once."""
        speaks_of = f"# for {self.sizes}\n" if self.sizes else ""
        return speaks_of + self.executable.source

    @override
    def run(self, inputs: Feeds | None = None, *more: Never, **by_name: Array) -> dict[str, Array]:
        """Run the network.

        Args:
            inputs: One array for each input by name, or a bare array if there is one input. Shape
                and dtype must be those of :attr:`inputs`. Contiguous arrays are not copied. Arrays
                for some of :attr:`defaults` may be among them.
            more: Nothing; all outputs are returned, so that none need be chosen.
            by_name: Arrays by keyword in place of a dict, ``run(x=images)``.

        Returns:
            New arrays by output name, in the model's order. Arrays of 32 MiB or more do not
            own their memory (``resize`` refuses them): it serves later runs when the arrays and
            all views of them are gone.

        Raises:
            FeedError: An input is missing, unknown, or of another shape or dtype.
            StateError: The state is in use by another run.
            MemoryLimitError: The system gives no memory for the run.
        """
        if inputs is None or more or by_name:
            inputs = gathered(self._feeds.types, inputs, more, by_name)
        if self._direct_run is not None:
            found = self._direct_run(inputs)
            if found is not None:
                return found
        if self._defaults.are_in(inputs):
            return self._defaults.network().run(inputs)
        arrays = self._feeds.arrays(inputs)
        with self._guard:
            try:
                results = self._run(arrays)
            except MemoryError as error:
                raise out_of_memory(f"network {self.name!r}", error) from error
        outputs = Outputs(zip(self._output_names, results, strict=True))
        return cut(outputs, self._border.counted) if self._border.counted else outputs

    @override
    def prepare(self, shapes: Shapes) -> Future[CompiledNetwork]:
        """Return this network at once: its sizes are fixed.

        Raises:
            OptionError: *shapes* gives others, or other names than those of inputs.
        """
        given = as_shapes(shapes) or {}
        if self._defaults.are_in(given):
            return self._defaults.network().prepare(given)
        own = {name: type.shape for name, type in self.inputs.items()}
        for name, shape in given.items():
            if own.get(name) != shape:
                raise OptionError(
                    f"shapes={{{name!r}: {shape}}}: the sizes of this network are fixed, its "
                    f"inputs are {own}; compile the model without shapes= to leave sizes open"
                )
        from concurrent.futures import Future

        future: Future[CompiledNetwork] = Future()
        future.set_result(self)
        return future

    @override
    def profile(self, inputs: Feeds, *, runs: int = 20, limits: bool = True) -> Profile:
        """Run the network some times and return the time of each kernel.

        The runs use an entry of their own that takes the time before and after each kernel on each
        thread; ``run`` is as fast afterwards as before. They begin with the state as it was before
        the first run, and leave the network's as it is.

        Args:
            inputs: As :meth:`run` takes them.
            runs: How often to run, after one run that is not counted.
            limits: Compare with what the machine can do at best, if the backend knows it; measured
                in under a second the first time, and kept in the cache folder.

        Raises:
            FeedError: As :meth:`run`.
            OptionError: *runs* is not a positive whole number, or *limits* no bool.
            UnsupportedError: The backend does not take the time of its kernels.
            MemoryLimitError: The system gives no memory for the runs.
        """
        from glow_nb.network.profiling import profile_network

        if self._defaults.are_in(inputs):
            return self._defaults.network().profile(inputs, runs=runs, limits=limits)
        arrays = self._feeds.arrays(inputs)
        return profile_network(self.name, self.executable, arrays, runs=runs, limits=limits)

    @override
    def _title(self) -> str:
        from glow_nb.base.text import format_name

        return f"CompiledNetwork {format_name(self.name)}: {self.memory}"

    @override
    def __repr__(self) -> str:
        from glow_nb.base.text import format_name

        name = format_name(self.name)
        return f"<CompiledNetwork {name} {self._show_types()}, {self.memory}>"
