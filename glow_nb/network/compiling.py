"""The public function that compiles, or finds what was compiled before.

Nothing that is imported here depends on a level of IR, since a cached network needs none.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from glow_nb.base.arguments import (
    MOST_THREADS,
    Constants,
    Shapes,
    as_constants,
    as_shapes,
    described,
    truth,
    whole_number,
)
from glow_nb.base.errors import GlowWarning, OptionError
from glow_nb.network.cache_names import as_caches
from glow_nb.network.request import MAX_VARIANTS, CompileRequest
from glow_nb.network.saved.kept import KeptModel
from glow_nb.system.cores import available_cores
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.backends import BackendLike
    from glow_nb.base.finite import FiniteCheck
    from glow_nb.base.passes import Observer
    from glow_nb.base.size_ranges import SizeRanges, Sizes
    from glow_nb.base.steps import Entries
    from glow_nb.kernels.target import Target
    from glow_nb.llir.allocate import Allocator
    from glow_nb.network.loading import Graph
    from glow_nb.network.network import Network
    from glow_nb.scheduling.ordering import Scheduler


HOT_RUNS = 1000
"""The number of runs with the same sizes after which a program for these sizes is compiled."""


def compile(
    graph: Graph,
    *,
    backend: BackendLike = "cpu",
    threads: int | None = None,
    shapes: Shapes | None = None,
    sizes: Sizes | Literal["each"] | None = None,
    hints: Mapping[str, int] | None = None,
    caches: Mapping[str, str] | None = None,
    specialize_after: int | None = HOT_RUNS,
    constants: Constants | None = None,
    max_variants: int = MAX_VARIANTS,
    pipeline: Entries | None = None,
    program_pipeline: Entries | None = None,
    without: Collection[str] = (),
    scheduler: Scheduler | None = None,
    allocator: Allocator | None = None,
    observer: Observer | None = None,
    state: StateStore | None = None,
    check_finite: bool | FiniteCheck = False,
    cache: bool = True,
    **options: object,
) -> Network:
    """Compile a neural network for this machine.

    Args:
        graph: What :func:`load` takes, or IR text or a Module of several functions: these are
            compiled for one state, and the network has each by its name, ``net["train"]``.
            A program has its instructions and plans already: arguments about passes, order and
            plans are refused.
        backend: ``"cpu"``, ``"interpreter"``, the options of a backend such as
            ``glow_nb.Cpu(winograd="off")``, or a backend of your own.
        threads: Cores that share the work of one run; all that are available by default.
        shapes: Sizes of symbolic dimensions by name, ``{"batch": 8}``, or whole shapes by input
            name. Sizes that are bound nowhere stay open: one program runs for all sizes, see
            :class:`glow_nb.DynamicNetwork`. A pass that needs numbers for sizes is run for each set
            of them.
        sizes: Ranges of open sizes, ``{"batch": (1, 8), "length": (1, 512)}`` by the names of
            dimensions, or ``{"x": (1, 3, None, None)}`` for an input whose dimensions have no
            names. The range of other dimensions is 1 or more, and of all dimensions with
            ``sizes={}``. With *sizes*, the program is compiled at once, and no run compiles
            anything; if that is not possible, an error says why. Without *sizes* and *hints*, the
            first run compiles the program. A network that has no program for all sizes is then
            compiled for each set of sizes. ``sizes="each"`` compiles each set of sizes at its
            first run.
        hints: Typical sizes, ``{"length": 128}``, for which kernels are planned. *hints* alone
            mean ``sizes={}`` as well. A size without one has a hint near the middle of its range,
            at most about 512. Without *sizes* and *hints*, the sizes of the first run are the
            hints.
        caches: Outputs by the inputs that they become in the next run, such as the keys and values
            of a decoder: ``{"past_key_values.*": "present.*"}``; a star matches the same text on
            both sides. They stay in the network, with room for the range of the size that grows,
            and a run writes its new rows there and copies nothing: see
            :class:`glow_nb.GrowingNetwork`.
        specialize_after: Number of runs with the same sizes after which the network is compiled for
            these sizes, in the background; None for never. Such runs are some percent faster. The
            interpreter does not count runs.
        constants: Inputs of an ONNX model that are fixed to these arrays, by name, and are no
            inputs of the network: needed where a shape is computed from their numbers. Initializers
            that the model lists as inputs, too, get these numbers instead of their own; otherwise
            they are constants that feeds may replace, see :attr:`glow_nb.Network.defaults`.
        max_variants: For how many sets of sizes a network with open sizes is kept compiled. The
            least recently used ones are dropped; a run in progress is not affected.
        pipeline: Graph passes, run before and after lowering, by default
            :data:`glow_nb.INFERENCE`. After them the backend runs its own,
            whatever *pipeline* is; :attr:`glow_nb.Network.pipeline` shows all that ran.
        program_pipeline: Instruction passes, run before allocation, by default
            :data:`glow_nb.INSTRUCTIONS`, or those that a backend of your own has instead. After
            them the backend runs its last ones, whatever *program_pipeline* is: the cpu plans its
            kernels.
        without: Names of passes that are left out of all pipelines, to see their effect:
            ``without=("fold_constants",)``. A pass without which the backend cannot run networks is
            refused; the error says why.
        scheduler: Orders nodes, and the instructions made of them, instead of the compiler's own.
            It is given a :class:`glow_nb.scheduling.steps.Steps` (what each step reads and writes,
            and which steps must come before it) and returns the numbers of the steps in their new
            order, which is checked.
        allocator: Places activations in the arena, instead of the compiler's own. It is given a
            sequence of :class:`glow_nb.llir.allocate.LiveRange` and returns an offset in bytes for
            each, a multiple of 64. That no two overlap is checked.
        observer: Called after every step, in order; see :mod:`glow_nb.observers`.
        state: The store of the states: with ``net.state`` of another network, both networks share
            their states. States that it does not hold yet are added. By default it is a new one.
        check_finite: Check each run: inputs, states, and the results of each kernel. A NaN or an
            infinity raises a :class:`glow_nb.NonFiniteError`, which names the first kernel that has
            one, and the nodes of the model. A run takes longer, and needs memory for all results. A
            :class:`glow_nb.FiniteCheck` says what is not checked, such as a mask.
        cache: Keep the network on the disk, and look for it there first: for a model that is a
            path, bytes or IR text; if it leaves sizes open, each of its programs. A cached network
            was compiled from the same content with the same arguments, passes and versions, for
            this processor. ``glow-nb cache`` shows what is kept. With an *observer*, and for graphs
            in memory, the network is compiled each time.
        options: Options of every backend: ``precision="bfloat16"`` rounds the factors of products
            to 16 bits, and ``keep=("*head*",)`` leaves layers as they are (see
            :class:`glow_nb.backends.options.BackendOptions`); ``net.precision`` shows the precision
            of each layer. Options of one backend are a short form of an options object:
            ``tune=True`` for ``backend=glow_nb.Cpu(tune=True)``. An option that the backend does
            not have is an error, unless it has its default or is "off". The error about an argument
            of another runtime names the equivalent here.

    Returns:
        A network, whose ``run`` takes and returns arrays.

    Raises:
        ModelError, UnsupportedError, ParseError: As :func:`load`.
        OptionError: An argument has no meaning.
        PassError: A pass failed; names it and those before it.
        CompileError: No machine code could be made.
        StateError: *state* holds one of the name of another type.
        MemoryLimitError: A run needs more memory than this process may have.
    """
    request = CompileRequest(
        graph=graph,
        backend=backend,
        threads=as_threads(threads),
        shapes=as_shapes(shapes) or {},
        ranges=_as_ranges(sizes, hints, shapes),
        each=_is_each(sizes),
        caches={} if caches is None else as_caches(caches, sizes),
        specialize_after=_as_count(specialize_after),
        constants=as_constants(constants),
        max_variants=max_variants,
        pipeline=pipeline,
        program_pipeline=program_pipeline,
        without=without,
        scheduler=scheduler,
        allocator=allocator,
        observer=observer,
        state=state,
        check_finite=None if check_finite is False else _as_check(check_finite),
        cache=truth("cache", cache),
        options=options,
    )
    network = compile_requested(request)
    if isinstance(graph, str | os.PathLike):  # what is in memory may go when it is compiled
        network.compile_again = partial(_compiled_again, request._replace(state=None))
    return network


def compile_requested(request: CompileRequest) -> Network:
    """Return the network of *request*: from the cache, or compiled and kept there."""
    kept = KeptModel.of(request)
    found = kept.find() if kept else None
    if found is not None:
        return found
    from glow_nb.network.api import compile_request

    network = compile_request(request, kept)
    if kept is not None:
        kept.keep(network)
    return network


def _is_each(sizes: object) -> bool:
    return isinstance(sizes, str) and sizes == "each"


def _as_ranges(
    sizes: Sizes | Literal["each"] | None, hints: Mapping[str, int] | None, shapes: Shapes | None
) -> SizeRanges | None:
    if sizes is None and hints is None:
        return None
    if _is_each(sizes):
        if hints is None:
            return None
        raise OptionError(
            f"sizes='each', hints={described(hints)}: there is no program that is planned for an "
            "example; leave one out"
        )
    from glow_nb.base.size_ranges import SizeRanges  # which most calls do without

    return SizeRanges.of(sizes, hints, fixed=shapes or {})


def _as_count(specialize_after: object) -> int | None:
    return (
        None if specialize_after is None else whole_number("specialize_after", specialize_after, 1)
    )


def _as_check(check_finite: bool | FiniteCheck) -> FiniteCheck | None:
    from glow_nb.base.finite import as_finite_check  # which most calls do without

    return as_finite_check(check_finite)


def _compiled_again(
    request: CompileRequest, *, threads: int, targets: Sequence[Target]
) -> list[Network]:
    """Return the network of *request* for each of *targets*, by default for this processor."""
    from glow_nb.network.building import backends_for

    return [
        compile_requested(request._replace(backend=backend, threads=threads, options=options))
        for backend, options in backends_for(request.backend, threads, request.options, targets)
    ]


def as_threads(threads: int | None) -> int:
    """Return how many cores share the work; raise OptionError if *threads* is no number.

    If they are more than the cores, a :class:`GlowWarning` is emitted.
    """
    available = available_cores()
    if threads is None:
        return available
    cores = whole_number("threads", threads, 1, MOST_THREADS)
    if cores > available:
        warnings.warn(
            f"threads={cores}: this process may use {available} cores, and no more "
            f"threads work at the same time; threads={available} is as fast",
            GlowWarning,
            stacklevel=3,
        )
    return cores
