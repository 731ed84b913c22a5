"""A network whose caches stay in it: each run writes its new rows after those that are there."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Never, NoReturn

from glow_nb.base.arguments import Shapes, as_array, fits_as_it_is
from glow_nb.base.destinations import as_names, chosen, require_output
from glow_nb.base.errors import FeedError, UnsupportedError
from glow_nb.base.feeds import Feeds, as_fitting, check_open_feeds, gathered, name_feeds
from glow_nb.base.fitting_sizes import nearest_fits
from glow_nb.base.outputs import Outputs
from glow_nb.base.override import override
from glow_nb.base.size import at, symbols_of
from glow_nb.base.sizes_of_shapes import sizes_of_shapes
from glow_nb.base.types import Array, SymbolicType, TensorType, symbolic
from glow_nb.network.cache_memory import CacheMemory
from glow_nb.network.general import broken_guards
from glow_nb.network.network import CompiledNetwork, Network

if TYPE_CHECKING:
    from concurrent.futures import Future

    from glow_nb.base.kernel_report import KernelList
    from glow_nb.base.precision import PrecisionReport
    from glow_nb.base.specialized import Specialized
    from glow_nb.compiler.pipelines import Pipeline
    from glow_nb.hlir.graph import Function
    from glow_nb.llir.program import Program
    from glow_nb.network.memory_report import MemoryReport
    from glow_nb.network.profile import Profile
    from glow_nb.system.state_store import StateStore


class GrowingNetwork(Network):
    """A network with caches, as :func:`glow_nb.compile` returns it for ``caches=``.

    A run takes only the other inputs. It reads the rows of earlier runs from the caches, and writes
    its own rows after them; nothing is copied. One run at a time may be in progress::

        net = glow_nb.compile(
            "decoder.onnx",
            sizes={"batch": (1, 4), "length": (1, 128), "past": (0, 1024)},
            caches={"past_key_values.*": "present.*"},
        )
        logits = net.run(input_ids=prompt)["logits"]      # any number of tokens at once
        logits = net.run(input_ids=next_token)["logits"]  # one more

    Attributes:
        general: The program for all sizes; its inputs are the caches, too.
        specialized: The sizes of the model that are fixed numbers in it, and why.
    """

    takes_turns: ClassVar[bool] = True

    def __init__(
        self, general: CompiledNetwork, specialized: Sequence[Specialized], memory: CacheMemory
    ) -> None:
        """Run *general* on the caches of *memory*; users call :func:`glow_nb.compile`.

        The sizes that are *specialized* are numbers in it.
        """
        self.general, self.specialized, self._memory = general, tuple(specialized), memory
        border = general.border
        hidden = {name for cache in memory.caches for name in (cache.name, cache.teller)}
        self._fed = {name: type for name, type in border.inputs.items() if name not in hidden}
        self._fed_types = {name: symbolic(type) for name, type in self._fed.items()}
        self._given = {name: type for name, type in border.outputs.items() if name not in hidden}
        self._symbols = border.symbols
        tellers = {cache.teller for cache in memory.caches}
        self._telling = {n: t for n, t in border.inputs.items() if n in tellers or n in self._fed}
        self._before: tuple[dict[str, TensorType], dict[str, int]] = {}, {}  # of the last run
        fed_symbols = symbols_of(*(size for type in self._fed.values() for size in type.shape))
        self._feeds_tell_past = any(cache.past in fed_symbols for cache in memory.caches)
        self._inputs = tuple(border.inputs)
        self._rows_of = {n: cache for cache in memory.caches for n in (cache.name, cache.output)}

    @property
    def length(self) -> int:
        """The number of rows in the caches: tokens so far."""
        return self._memory.length

    @property
    def caches(self) -> dict[str, Array]:
        """The rows in the caches by the names of inputs, in place: writing to these arrays changes
        the caches.

        Before the first run it is empty.
        """
        return self._memory.rows

    def reset(self) -> None:
        """Empty the caches."""
        self.truncate(0)

    def truncate(self, length: int) -> None:
        """Keep only the first *length* rows of the caches, as after a rejected speculative token.

        Raises:
            OptionError: There are fewer.
            StateError: A run is in progress.
        """
        self._memory.truncate(length)

    def fill(self, arrays: Mapping[str, Array]) -> None:
        """Let the caches hold copies of *arrays*, one for each, instead of what is there.

        In this way a network continues what another one has begun, or a beam search selects beams:
        ``net.fill({name: rows[[0, 0, 1]] for name, rows in net.caches.items()})``.

        Raises:
            FeedError: An array is missing or unknown, or has another kind or shape.
            StateError: A run is in progress.
        """
        self._memory.fill(arrays)

    def fork(self) -> GrowingNetwork:
        """Return this network with caches of its own, which begin as copies of these.

        The program and its weights are shared, and both may run at the same time.

        Raises:
            StateError: A run is in progress.
        """
        return GrowingNetwork(self.general, self.specialized, self._memory.copy())

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
        """Run the network on the caches, which are longer afterwards.

        A run that fails leaves them as they were. With ``watch=``, an input that is a cache returns
        a copy of the rows that the run found, and the output that becomes it a copy of all rows
        after the run.

        Raises:
            FeedError: As for any run; or the caches have too many rows, or other sizes than the
                feeds. Nothing was written.
            StateError: Another run is in progress.
        """
        if inputs is None or more or by_name:
            inputs = gathered(self._fed, inputs, more, by_name)
        names = list(self._given) if outputs is None else chosen(outputs, self._given, self._fed)
        for name in into if isinstance(into, Mapping) else ():  # the program has the caches as well
            require_output("into", name, self._given)
        watched = [] if watch is None else as_names("watch", watch, self._fed)
        rest = [name for name in watched if name not in self._rows_of]
        with self._memory.in_use():
            feeds, sizes = self._prepared(inputs)
            if into is None and not rest:
                found = self.general.run_over(feeds, sizes)
            else:
                places = {cache.name: feeds[cache.name] for cache in self._memory.caches}
                if into is None or isinstance(into, Mapping):
                    into = {**(into or {}), **places}
                found = self.general.run(feeds, into=into, watch=rest or None)
            found |= self._watched_rows(watched, sizes)
            self._memory.length = at(self._memory.caches[0].total, sizes)
        return Outputs((name, found[name]) for name in dict.fromkeys((*names, *watched)))

    def _watched_rows(self, watched: Sequence[str], sizes: Mapping[str, int]) -> dict[str, Array]:
        """Return copies of the rows that those of *watched* are which are caches, or become them.

        They are those of a run of *sizes*, which has written its rows.
        """
        found: dict[str, Array] = {}
        for name in watched:
            cache = self._rows_of.get(name)
            if cache is not None:
                length = self.length if name == cache.name else at(cache.total, sizes)
                found[name] = self._memory.copy_of(cache, length)
        return found

    def _prepared(self, inputs: Feeds) -> tuple[dict[str, Array], dict[str, int]]:
        """Return all that is fed to the program in order, *inputs* among it, and sizes by name."""
        memory = self._memory
        memory.require_room()
        feeds, sizes = self._as_before(inputs) or self._checked(inputs)
        broken = broken_guards(self.general, sizes)
        if broken:
            known = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            raise FeedError(
                f"sizes {known}: the program is for sizes where {', '.join(map(str, broken))}; "
                f"feed others{nearest_fits(broken, sizes)}, or compile the model with "
                "hints= that are like these"
            )
        feeds |= memory.tellers() | memory.arrays_for(sizes)
        return {name: feeds[name] for name in self._inputs}, sizes

    def _checked(self, inputs: Feeds) -> tuple[dict[str, Array], dict[str, int]]:
        """Return *inputs* as the program takes them, and sizes by name; or raise FeedError."""
        named = name_feeds(self._fed.keys(), inputs)
        feeds = {name: as_array(name, named[name]) for name in self._fed}
        check_open_feeds(self._fed_types, feeds)
        shapes = {n: array.shape for n, array in (feeds | self._memory.tellers()).items()}
        sizes = sizes_of_shapes(self._telling, self._symbols, shapes)
        types = {name: type.at(sizes) for name, type in self._fed.items()}
        for name, type in types.items():
            feeds[name] = as_fitting(f"input {name!r}", feeds[name], type)
        self._before = types, sizes
        return feeds, sizes

    def _as_before(self, inputs: Feeds) -> tuple[dict[str, Array], dict[str, int]] | None:
        """Return what :meth:`_checked` returns if the last run was on arrays of these types.

        None otherwise, and if the feeds tell how long the caches are, which they then must.
        """
        types, sizes = self._before
        if self._feeds_tell_past or type(inputs) is not dict or inputs.keys() != types.keys():
            return None
        if not sizes:
            return None
        for name, wanted in types.items():
            if not fits_as_it_is(inputs[name], wanted.kind.dtype, wanted.shape):
                return None
        return dict(inputs), {**sizes, **self._memory.lengths()}

    @override
    def bind(self, inputs: Feeds, outputs: Mapping[str, Array] | None = None) -> NoReturn:
        """Refuse: the caches of each run are longer than those of the last one."""
        raise UnsupportedError(
            "bind: a bound run has fixed sizes, and each run of this network finds longer caches; "
            "call run, with into= for the outputs"
        )

    @override
    def prepare(self, shapes: Shapes) -> Future[CompiledNetwork]:
        """Refuse: one program does the runs of all sizes."""
        raise UnsupportedError(
            f"prepare({shapes!r:.80}): one program does the runs of all sizes of this network; "
            "compile the model with hints= to plan it for these"
        )

    @override
    def profile(self, inputs: Feeds, *, runs: int = 20, limits: bool = True) -> Profile:
        """Profile a run on the current caches, which are not changed."""
        with self._memory.in_use():
            feeds, _ = self._prepared(inputs)
            return self.general.profile(feeds, runs=runs, limits=limits)

    @override
    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the program to *folder*, and which inputs are caches, but no rows.

        The network that ``glow_nb.load_compiled(folder)`` returns begins with empty caches.

        Raises:
            OptionError: The folder holds something else.
            UnsupportedError: The network is not machine code.
            GlowError: A file cannot be written.
        """
        from glow_nb.network.saved.saving import save_networks

        save_networks(folder, [self.general], self.state, grown=self.to_plain())

    @override
    def programs(self) -> tuple[None, list[CompiledNetwork]]:
        return None, [self.general]

    def to_plain(self) -> Mapping[str, Any]:
        """Return its data besides the program, as plain data."""
        from glow_nb.network.saved.courses import grown_to_plain

        return grown_to_plain(self._memory.caches, self.specialized)

    @property
    @override
    def of_one_program(self) -> NoReturn:
        """Refuse: the function of a bundle has no memory between its calls."""
        raise UnsupportedError(
            "a network with caches is not written to bundles, whose functions keep nothing from "
            "one call to the next; build the model without caches=, and let the caller keep them; "
            "net.save writes the network for Python"
        )

    @property
    @override
    def state(self) -> StateStore:
        return self.general.state

    @property
    @override
    def functions(self) -> dict[str, Network]:
        return {self.general.name: self}

    @property
    @override
    def inputs(self) -> dict[str, SymbolicType]:
        return dict(self._fed_types)

    @property
    @override
    def outputs(self) -> dict[str, SymbolicType]:
        return {name: symbolic(type) for name, type in self._given.items()}

    @property
    def variants(self) -> tuple[CompiledNetwork, ...]:
        """The one program; its inputs are the caches, too."""
        return (self.general,)

    @property
    @override
    def value_names(self) -> list[str]:
        return self.general.value_names

    @property
    @override
    def threads(self) -> int:
        return self.general.threads

    @property
    @override
    def program(self) -> Program:
        return self.general.program

    @property
    @override
    def function(self) -> Function | None:
        return self.general.function

    @property
    @override
    def memory(self) -> MemoryReport:
        return self.general.memory

    @property
    @override
    def pipeline(self) -> Pipeline:
        return self.general.pipeline

    @property
    @override
    def precision(self) -> PrecisionReport:
        return self.general.precision

    @property
    @override
    def kernels(self) -> KernelList:
        return self.general.kernels

    @property
    @override
    def source(self) -> str:
        return self.general.source

    @override
    def _title(self) -> str:
        caches = ", ".join(f"{cache.name}: {cache.type}" for cache in self._memory.caches)
        return f"GrowingNetwork: {self.length} rows in the caches {caches}"

    @override
    def __repr__(self) -> str:
        count = len(self._memory.caches)
        return f"<GrowingNetwork {self._show_types()}, {self.length} rows in {count} caches>"
