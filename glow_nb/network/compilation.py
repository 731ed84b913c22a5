"""The whole compiler in one file: the steps of the paper's section 3.6, in order."""

from __future__ import annotations

import copy
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

from glow_nb.backends import BackendLike, backend_named
from glow_nb.backends.backend import Backend, CompiledInSteps, Executable
from glow_nb.backends.held_weights import share_weights
from glow_nb.base.arguments import described
from glow_nb.base.errors import CompileError, OptionError
from glow_nb.base.foreign import foreign
from glow_nb.base.memory_limit import require_memory, within_memory
from glow_nb.base.passes import Observer, PassRun, tell
from glow_nb.base.precision import FULL
from glow_nb.base.steps import COMPILER, Entries, Repeat, Step, owned
from glow_nb.base.types import ElementKind
from glow_nb.compiler import pipelines
from glow_nb.compiler.driver import run_to
from glow_nb.compiler.pipelines import Pipeline, left_out
from glow_nb.compiler.program_passes import PROGRAM_PASSES
from glow_nb.hlir.given_function import given_function
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.hlir.optimize.hoist_roundings import hoist_roundings
from glow_nb.hlir.optimize.lower_precision import lower_precision
from glow_nb.hlir.optimize.share_roundings import share_roundings
from glow_nb.llir.allocate import Allocator
from glow_nb.llir.program import Buffer, Program
from glow_nb.llir.with_sizes import symbols_of_program
from glow_nb.scheduling.ordering import Scheduler


@dataclass(frozen=True)
class Compilation:
    """The results of compiling a function, level by level.

    Attributes:
        function: The graph after lowering and optimization; None if a program was given.
        program: The instructions, allocated.
        executable: The program, ready to run.
    """

    function: Function | None
    program: Program
    executable: Executable


PLACEMENT: Entries = ("allocate", "check_placement")
"""The steps for a program that is given, instead of a graph."""


@dataclass(frozen=True)
class Order:
    """All steps for a graph, in order.

    Attributes:
        graph: From the imported graph to the graph from which instructions are generated.
        program: From there to a program whose memory is placed; the check of the placement is last.
        backend: The backend's own steps; they change no IR.
    """

    graph: Pipeline
    program: Pipeline
    backend: Pipeline = Pipeline()  # noqa: RUF009 - a tuple

    @property
    def whole(self) -> Pipeline:
        """All of it: what ``net.pipeline`` shows."""
        return Pipeline((*self.graph, *self.program, *self.backend))

    def of(self, program: Program) -> Order:
        """Return the steps for a *program* that is given, instead of a graph."""
        allocation, check = self.program.steps[-2:]
        is_placed = program.arena is not None and not allocation.options
        left = Pipeline((check,) if is_placed else (allocation, check))
        return Order(Pipeline(), left, self.backend)


def order_for(
    backend: Backend,
    *,
    pipeline: Entries = pipelines.INFERENCE,
    program_pipeline: Entries | None = None,
    without: Collection[str] = (),
    scheduler: Scheduler | None = None,
    allocator: Allocator | None = None,
) -> Order:
    """Return all steps of a compilation for *backend*, as :func:`glow_nb.compile` describes it.

    Raises:
        OptionError: A pipeline names something that is no pass, or *without* a pass that would not
            run or cannot be left out; *scheduler* or *allocator* cannot be called.
    """
    _check_function("scheduler", scheduler, "glow_nb.extend.Steps")
    _check_function("allocator", allocator, "a sequence of glow_nb.extend.LiveRange")
    graph = graph_order(backend, pipeline)
    program = program_order(backend, program_pipeline, scheduler=scheduler, allocator=allocator)
    with code_of(backend, "compile_steps"):
        made = backend.compile_steps.items()
        why = "it is a step of the backend and no pass"
        own = [Step(n, owner=backend.name, does=does, needed=why) for n, does in made]
    left = Pipeline((*graph, *program)).checked(without)
    return Order(Pipeline(left_out(graph, left)), Pipeline(left_out(program, left)), Pipeline(own))


def _check_function(argument: str, given: object, of: str) -> None:
    """Raise OptionError unless *given* is a function, or None."""
    if given is not None and not callable(given):
        raise OptionError(f"{argument}={described(given)}: give a function of {of}")


def leaving_out(backend: Backend, names: Collection[str]) -> Backend:
    """Return *backend*, for whose networks the passes called *names* do not run.

    Raises:
        OptionError: No such pass would run, or it cannot be left out.
    """
    order_for(backend, without=names)
    if not names:
        return backend
    changed = copy.copy(backend)  # of its own class
    changed.left_out = frozenset({*backend.left_out, *names})
    return changed


def graph_order(
    backend: Backend,
    pipeline: Entries = pipelines.INFERENCE,
    without: Collection[str] = (),
) -> Pipeline:
    """Return the steps for a graph: *pipeline* before and after lowering, then the backend's
    passes.

    The backend may have passes right before lowering, too, after those that lower the precision if
    it is to compute in less than float32. Entries of *pipeline* that are to be the
    last come after all of these. Passes called *without* are left
    out everywhere.
    """
    GRAPH_PASSES.check(pipeline)
    last = tuple(entry for entry in pipeline if isinstance(entry, Step) and entry.is_last)
    pipeline = tuple(entry for entry in pipeline if entry not in last)
    lowering = Step("lower", {"should_lower": partial(_should_lower, backend)}, owner=COMPILER)
    with code_of(backend, "graph_pipeline"):
        early = owned(backend.early_pipeline, backend.name)
        own = owned(backend.graph_pipeline, backend.name)
    verification = Step("verify", owner=COMPILER)
    early = (*precision_steps(backend), *early)
    whole = (verification, *pipeline, *early, lowering, *pipeline, *own, *last)
    return Pipeline(left_out(whole, {*without, *backend.left_out}))


def precision_steps(backend: Backend) -> Entries:
    """Return the passes that lower the precision of float32 products, if *backend* has a lower
    one.
    """
    if backend.precision == FULL:
        return ()
    options = {
        "kind": ElementKind(backend.precision),
        "keep": tuple(backend.keep),
        "must_fit": False,  # of several functions of a model, one has the layer
    }
    lowering = Step(
        lower_precision.__name__,
        options,
        owner=COMPILER,
        needed=f"precision={backend.precision!r} asks for it",
    )
    moving: Entries = (
        *(share_roundings.__name__, hoist_roundings.__name__),
        *("sink_transposes", "sink_reshapes"),
    )
    cleaning: Entries = ("fold_constants", "eliminate_common_nodes", "eliminate_dead_nodes")
    return (lowering, *owned((*cleaning, Repeat((*moving, *cleaning))), COMPILER))


def _should_lower(backend: Backend, node: Node) -> bool:
    with code_of(backend, f"should_lower of {node!r}"):
        return backend.should_lower(node)


def code_of(backend: Backend, what: str) -> foreign:
    """Return the boundary to a backend, which may be a user's."""
    return foreign(CompileError, f"backend {backend.name!r}: {what}")


def program_order(
    backend: Backend,
    pipeline: Entries | None = None,
    without: Collection[str] = (),
    *,
    scheduler: Scheduler | None = None,
    allocator: Allocator | None = None,
) -> Pipeline:
    """Return the steps from a lowered graph to a program whose memory is placed.

    The passes are those of *pipeline*, by default the backend's, then those that the backend runs
    last. All know what its kernels can do. Those called *without* are left out. *scheduler* orders
    nodes, and instructions in the passes that have an option of this name; *allocator* places
    buffers.
    """
    with code_of(backend, "program_pipeline and traits"):
        passes = backend.program_pipeline if pipeline is None else pipeline
        late, traits = backend.late_pipeline, backend.traits
    scheduling = {} if scheduler is None else {"scheduler": scheduler}
    placing = {} if allocator is None else {"allocator": allocator}
    PROGRAM_PASSES.check(passes)
    passes = passes if pipeline is not None else owned(passes, backend.name)
    passes = (*passes, *owned(late, backend.name))
    passes = PROGRAM_PASSES.with_options(passes, {"traits": traits, **scheduling})
    return Pipeline(
        (
            Step("schedule", scheduling, owner=COMPILER),
            Step("generate", owner=COMPILER),
            *left_out(passes, {*without, *backend.left_out}),
            Step("allocate", placing, owner=COMPILER),
            Step("check_placement", owner=COMPILER),
        )
    )


def optimize(
    function: Function,
    *,
    pipeline: Entries = pipelines.INFERENCE,
    observer: Observer | None = None,
) -> Function:
    """Return *function* after the graph passes of *pipeline*.

    Raises:
        OptionError: *function* is no graph, or *pipeline* names something that is no pass.
        PassError: A pass failed; names it and those before it.
    """
    return GRAPH_PASSES.run(given_function(function), pipeline, observer)


def lower_for(
    function: Function,
    backend: BackendLike,
    *,
    pipeline: Entries = pipelines.INFERENCE,
    without: Collection[str] = (),
    observer: Observer | None = None,
) -> Function:
    """Return *function* optimized, lowered for *backend*, and optimized again.

    The backend is as in :func:`~glow_nb.compile`, ``"cpu"`` or an object. Its own passes run last;
    passes called *without* do not run.

    Raises:
        OptionError: *function* is no graph, *backend* no backend, *pipeline* names something that
            is no pass, or *without* a pass that would not run or cannot be left out.
        PassError: A pass failed; names it and those before it.
    """
    steps = order_for(backend_named(backend), pipeline=pipeline, without=without).graph
    return run_to(Function, given_function(function), steps, observer)


def build_program(
    function: Function,
    backend: Backend,
    *,
    pipeline: Entries | None = None,
    without: Collection[str] = (),
    observer: Observer | None = None,
) -> Program:
    """Return a lowered *function* as an optimized program whose memory is placed and checked.

    Passes called *without* do not run.
    """
    return run_to(Program, function, program_order(backend, pipeline, without), observer)


def compile_function(
    function: Function,
    backend: Backend,
    *,
    threads: int,
    order: Order | None = None,
    observer: Observer | None = None,
) -> Compilation:
    """Compile a graph: all of *order*, by default that of *backend*, then the backend's code."""
    order = order or order_for(backend)
    lowered = run_to(Function, function, order.graph, observer)
    program = run_to(Program, lowered, order.program, observer)
    return make_compilation(lowered, program, backend, threads=threads, observer=observer)


def compile_program(
    program: Program,
    backend: Backend,
    *,
    threads: int,
    order: Order | None = None,
    observer: Observer | None = None,
) -> Compilation:
    """Compile a program that is given as it is; by default, it is allocated if it was not."""
    order = order or order_for(backend).of(program)
    placed = run_to(Program, program, order.program, observer)
    return make_compilation(None, placed, backend, threads=threads, observer=observer)


def make_compilation(
    function: Function | None,
    program: Program,
    backend: Backend,
    *,
    threads: int,
    observer: Observer | None = None,
) -> Compilation:
    """Make *program* run on *backend*; one copy of the weights is left."""
    executable = make_executable(program, backend, threads=threads, observer=observer)
    began = time.perf_counter()
    compilation = Compilation(*share_weights(function, program, executable), executable)
    tell(observer, PassRun("share_weights", program, program, time.perf_counter() - began))
    return compilation


def make_executable(
    program: Program, backend: Backend, *, threads: int, observer: Observer | None = None
) -> Executable:
    """Hand *program*, whose memory is placed, to *backend*.

    The observer is called for each step that the executable names.

    Raises:
        CompileError: The backend raised an error that is not ours.
        MemoryLimitError: A run needs more memory than the process may have.
    """
    _check_memory(program)
    began = time.perf_counter()
    with code_of(backend, "compile"), within_memory("compile"):
        executable = backend.compile(program, threads=threads)
    steps: Mapping[str, float] = {"compile": time.perf_counter() - began}
    if isinstance(executable, CompiledInSteps):
        steps = executable.compile_seconds
    for step, seconds in steps.items():
        tell(observer, PassRun(step, program, program, seconds))
    return executable


def _check_memory(program: Program) -> None:
    """Raise MemoryLimitError if a run takes too much; with open sizes, if nothing can be held.

    What the example takes is no reason to refuse all sizes: it may be a guess. Each run looks.
    """
    parts = {
        "constants": sum(weight.type.size_bytes for weight in program.weights),
        "packing": max((weight.type.size_bytes for weight in program.weights), default=0),
        "state": sum(state.type.size_bytes for state in program.state),
    }
    places: list[Buffer] = list(program.weights)
    if not symbols_of_program(program):
        arena, bound = program.arena, (*program.inputs, *program.outputs)
        parts["arena"] = 0 if arena is None else arena.size_bytes
        parts["inputs and outputs"] = sum(buffer.type.size_bytes for buffer in bound)
        places = [*([] if arena is None else arena.offsets), *program.declared]
    tensors = ((f"{b!r} : {b.type}", b.type.size_bytes) for b in places)
    require_memory(f"network {program.name!r}", parts, tensors)
