"""Compiled networks: running and inspecting them."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Never

from glow_nb.base.arguments import Shapes, as_shapes
from glow_nb.base.destinations import as_names, chosen
from glow_nb.base.errors import OptionError
from glow_nb.base.feeds import Feeds, gathered
from glow_nb.base.outputs import Outputs
from glow_nb.base.override import override
from glow_nb.base.types import Array
from glow_nb.base.uncopied import Uncopied
from glow_nb.network.defaults import Defaults
from glow_nb.network.levels import Border, MakeLevels
from glow_nb.network.open_runner import OpenRunner
from glow_nb.network.rebuilding import Rebuilding
from glow_nb.network.runner import BoundRun, Runner, Runs
from glow_nb.network.views import CompiledViews, NetworkViews
from glow_nb.network.written import WrittenNetwork
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from concurrent.futures import Future

    from glow_nb.backends.backend import Executable
    from glow_nb.base.finite import FiniteCheck
    from glow_nb.codegen.loaded_program import DirectRun
    from glow_nb.network.course import Course
    from glow_nb.network.profile import Profile
    from glow_nb.network.saved.signature import Signature
    from glow_nb.system.background import AwaitableFuture


class Network(WrittenNetwork, NetworkViews, Uncopied):
    """The result of :func:`glow_nb.compile`: a network of fixed sizes or of open ones.

    ``run`` may be called from many threads at once, unless the network has state.
    """

    UNCOPIED = (
        "a compiled network cannot be copied or pickled, it is machine code in this process; "
        "share it (run may be called from many threads), save it (net.save(folder), then "
        "glow_nb.load_compiled(folder) on such a processor), or keep its program as text: "
        "glow_nb.save_text(net.program, 'net.glow'), then glow_nb.compile('net.glow')"
    )

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

        ``glow_nb.load_compiled(folder)`` runs it in another process, on a processor of the same
        kind. An earlier saved network is replaced as a whole.

        Raises:
            OptionError: The folder holds something else.
            UnsupportedError: The network is not machine code.
            GlowError: A file cannot be written.
            StateError: A run is in progress.
        """
        from glow_nb.network.saved.saving import save_networks

        save_networks(folder, self.programs()[1], self.state)

    def programs(self) -> tuple[Signature | None, list[CompiledNetwork]]:
        """Return the current programs and, if sizes are open, the signature of the model.

        Raises:
            GlowError: There is none yet.
        """
        return None, [f for f in self.functions.values() if isinstance(f, CompiledNetwork)]

    compile_again: Callable[..., Sequence[Network]] | None = None
    """Compiles the model anew with other arguments, if it is a file."""

    @property
    def of_one_program(self) -> Network:
        """The network from which a bundle is made."""
        return self

    @abstractmethod
    def run(
        self,
        inputs: Feeds | None = None,
        *more: Never,
        outputs: Collection[str] | None = None,
        into: Mapping[str, Array] | None = None,
        watch: Collection[str] | None = None,
        **by_name: Array,
    ) -> dict[str, Array]:
        """Run the network on one array for each input; return arrays by output name.

        ``run({"x": images})``, ``run(x=images)`` and, if there is one input, ``run(images)`` are
        the same. ``outputs=["logits"]`` returns only these, ``into={"logits": array}`` writes to a
        given array, and ``watch=["conv_1"]`` returns values inside of the model as well.
        """

    @abstractmethod
    def bind(self, inputs: Feeds, outputs: Mapping[str, Array] | None = None) -> BoundRun:
        """Return a run on exactly these arrays, which a call repeats without checks."""

    def run_async(
        self, inputs: Feeds | None = None, *more: Never, **options: Any
    ) -> AwaitableFuture[dict[str, Array]]:
        """Run in the background: return the future of what :meth:`run` returns, at once.

        ``await net.run_async(x)`` waits without holding up the event loop. Runs begin in the order
        of the calls. As many runs execute at the same time as there are cores for; runs of networks
        with state execute one after the other, also those of different functions of a module. The
        arrays are read when the run begins: do not change them until it is done. All arguments are
        those of :meth:`run`, whose errors the future raises. A run that has not begun can be
        cancelled; the end of the program does so.

        Raises:
            GlowError: The system gives no thread.
        """
        from glow_nb.network.in_background import submit  # which a network is found without

        return submit(self, partial(self.run, inputs, *more, **options))

    @abstractmethod
    def profile(self, inputs: Feeds, *, runs: int = 20, limits: bool = True) -> Profile:
        """Run the network some times and return the time of each kernel."""

    @abstractmethod
    def prepare(self, shapes: Shapes) -> Future[CompiledNetwork]:
        """Return the network of one set of sizes, made in the background if it is not there."""

    def __call__(
        self, inputs: Feeds | None = None, *more: Never, **options: Any
    ) -> dict[str, Array]:
        """Do what :meth:`run` does."""
        return self.run(inputs, *more, **options)


class CompiledNetwork(CompiledViews, Network):
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
        rebuilding: Rebuilding[CompiledNetwork],
        check: FiniteCheck | None = None,
        sizes: str = "",
        defaults: Defaults[Network] | None = None,
    ) -> None:
        """Wrap what the compiler made; users call :func:`glow_nb.compile` instead.

        If the network has open sizes, *sizes* says for which ones it was compiled. Runs use
        *state*. *defaults* takes feeds instead of constants. *levels* is called when its graph or
        program is first used, and *rebuilding* compiles it again to watch values, as each run does
        if there is a *check*.
        """
        self._defaults = Defaults({}, lambda: self) if defaults is None else defaults
        types = self._defaults.types
        super().__init__(
            border, executable, levels, threads, state=state, sizes=sizes, defaults=types
        )
        self.rebuilding = rebuilding
        runs: Runs = executable
        if check is not None:
            from glow_nb.network.checked_executable import CheckedExecutable

            runs = CheckedExecutable(check, border, lambda: self.program, rebuilding, executable)
        self._runner: Runner | OpenRunner = (
            OpenRunner(border, border.symbols, runs, state)
            if border.symbols
            else Runner(border, runs, state)
        )
        self._direct_run = self._runner.direct

    course: Course | None = None
    """How a run goes through stages, if it has data-dependent sizes."""

    stages: tuple[Network, ...] = ()
    """The networks of these stages."""

    def sizes_of(self, feeds: Feeds) -> dict[str, int]:
        """Return the open sizes of *feeds*, by name; raise FeedError if they do not determine
        them.
        """
        return self._runner.sizes_of(feeds) if isinstance(self._runner, OpenRunner) else {}

    def run_over(self, arrays: dict[str, Array], sizes: Mapping[str, int]) -> dict[str, Array]:
        """Run a program with open *sizes* on *arrays* that fit; those of outputs are
        overwritten.
        """
        assert isinstance(self._runner, OpenRunner)
        return self._runner.run_over(arrays, sizes)

    @property
    def direct_run(self) -> DirectRun | None:
        """The fast path of a run, if there is one."""
        return self._direct_run

    @property
    @override
    def functions(self) -> dict[str, Network]:
        """The one function."""
        return {self.name: self}

    @property
    @override
    def value_names(self) -> list[str]:
        return self.rebuilding.names()

    @override
    def run(
        self,
        inputs: Feeds | None = None,
        *more: Never,
        outputs: Collection[str] | None = None,
        into: Mapping[str, Array] | None = None,
        watch: Collection[str] | None = None,
        **by_name: Array,
    ) -> dict[str, Array]:
        """Run the network.

        Args:
            inputs: One array for each input by name, or a bare array if there is one input. Shape
                and dtype must be those of :attr:`inputs`. Contiguous arrays are not copied, and
                neither are tensors of other libraries that lie in the processor's memory
                (DLPack). Arrays for some of :attr:`defaults` may be among them.
            more: Nothing; all outputs are returned, unless *outputs* chooses some.
            outputs: Names of the outputs to return, in this order. All are computed.
            into: Arrays that outputs are written to, by name: of their kind and shape, contiguous,
                and without overlap with each other and with the inputs. These arrays are returned.
            watch: Names of values of the model, or of nodes with one output, that are returned as
                well, after the outputs. At the first use, another network that has them as outputs
                is compiled; it executes such runs, so other runs are not slower. Its results may be
                rounded differently, since less is fused.
            by_name: Arrays by keyword instead of a dict, ``run(x=images)``.

        Returns:
            Arrays by output name, in the model's order: new ones but for those of *into*. New
            arrays of 32 MiB or more do not own their memory (``resize`` refuses them): later runs
            reuse it when the arrays and all views of them are deleted.

        Raises:
            FeedError: An input is missing, unknown, or of another shape or dtype, or an array of
                *into* cannot be written to.
            OptionError: *outputs* or *into* names an unknown output, or *watch* an unknown or
                ambiguous value.
            StateError: The state is in use by another run.
            MemoryLimitError: The system gives no memory for the run.
        """
        if inputs is None or more or by_name:
            inputs = gathered(self._border.inputs, inputs, more, by_name)
        is_plain = outputs is None and into is None and watch is None
        if is_plain and self._direct_run is not None:
            found = self._direct_run(inputs)
            if found is not None:
                return found
        if self._defaults.are_in(inputs):
            return self._defaults.network().run(inputs, outputs=outputs, into=into, watch=watch)
        return self._runner.run(inputs) if is_plain else self._choose(inputs, outputs, into, watch)

    def _choose(
        self, inputs: Feeds, outputs: object, into: object, watch: object
    ) -> dict[str, Array]:
        """Run on *inputs* with these arguments of :meth:`run`, which are unusual."""
        fed, known = self._border.inputs, self.outputs
        names = list(known) if outputs is None else chosen(outputs, known, fed)
        places = {name: name for name in names}
        if watch is not None:
            watched = self.rebuilding.watching(as_names("watch", watch, fed), self._state)
            places.update(watched.outputs)
            results = watched.network.run_into(inputs, into)
        else:
            results = self.run_into(inputs, into)
        return Outputs((name, results[place]) for name, place in places.items())

    def run_into(self, inputs: Feeds, into: object) -> dict[str, Array]:
        """Run on *inputs*; return all outputs, those of *into* in its arrays."""
        return self._runner.run(inputs) if into is None else self._runner.run_into(inputs, into)

    @override
    def bind(self, inputs: Feeds, outputs: Mapping[str, Array] | None = None) -> BoundRun:
        """Return a run on exactly these arrays, which a call repeats without checks.

        A call reads the inputs as they are then, writes the outputs, and returns the same output
        arrays each time::

            run = net.bind({"data": images}, {"logits": logits})
            images[...] = next_batch
            run()  # logits holds the new results

        It takes some microseconds less than :meth:`run`, which matters for small networks. Calls
        from several threads would write the same outputs: bind once for each thread.

        Args:
            inputs: As :meth:`run` takes them, but contiguous, and no lists: they are read in place.
            outputs: As *into* of :meth:`run`; other outputs get new arrays.

        Raises:
            FeedError, OptionError: As :meth:`run`.
            StateError: Raised by a call while another run uses the state.
        """
        if self._defaults.are_in(inputs):
            return self._defaults.network().bind(inputs, outputs)
        return self._runner.bind(inputs, outputs)

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
            if self._border.symbols:
                raise OptionError(
                    f"shapes={{{name!r}: {shape}}}: this program is one of a network, for "
                    f"{self.sizes}; call prepare of the network"
                )
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

        The runs use a separate entry with a time stamp before and after each kernel on each thread;
        ``run`` is not slower afterwards. They begin with the initial state, and do not change the
        network's state.

        Args:
            inputs: As :meth:`run` takes them.
            runs: The number of runs, after one run that is not counted.
            limits: Compare with the peak rates of the machine, if the backend knows them. The first
                time, they are measured in about a second, and kept in the cache folder.

        Raises:
            FeedError: As :meth:`run`.
            OptionError: *runs* is not a positive whole number, or *limits* no bool.
            UnsupportedError: The backend does not measure the time of its kernels.
            MemoryLimitError: The system gives no memory for the runs.
        """
        from glow_nb.network.profiling import profile_network

        if self._defaults.are_in(inputs):
            return self._defaults.network().profile(inputs, runs=runs, limits=limits)
        arrays = self._runner.arrays(inputs)
        return profile_network(self.name, self.executable, arrays, runs=runs, limits=limits)
