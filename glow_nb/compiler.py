"""The whole compiler in one screen: the steps of the paper's section 3.6, in order."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from glow_nb import pipelines
from glow_nb.backends.backend import Backend, CompiledInSteps, Executable
from glow_nb.backends.held_weights import share_weights
from glow_nb.errors import OptionError
from glow_nb.hlir.graph import Function
from glow_nb.hlir.lower import lower
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.hlir.schedule import schedule
from glow_nb.hlir.verify import verify
from glow_nb.llir.allocate import allocate
from glow_nb.llir.check_placement import check_placement
from glow_nb.llir.generate import generate
from glow_nb.llir.program import Buffer, Program
from glow_nb.memory_limit import require_memory
from glow_nb.passes import Observer, PassRun, Pipeline, observed, tell
from glow_nb.program_passes import PROGRAM_PASSES


@dataclass(frozen=True)
class Compilation:
    """What the compiler made of a function, level by level.

    Attributes:
        function: The graph after lowering and optimization; None if a program was given.
        program: The instructions, allocated.
        executable: The program, ready to run.
    """

    function: Function | None
    program: Program
    executable: Executable


def optimize(
    function: Function,
    *,
    pipeline: Pipeline = pipelines.INFERENCE,
    observer: Observer | None = None,
) -> Function:
    """Return *function* after the graph passes of *pipeline*.

    Raises:
        OptionError: *function* is none, or *pipeline* names what is no pass.
        PassError: A pass failed; names it and those before it.
    """
    if not isinstance(function, Function):
        raise OptionError(
            f"{function!r:.80} is a {type(function).__name__}, not a Function; "
            "glow_nb.load(path) makes one of a model"
        )
    return GRAPH_PASSES.run(function, pipeline, observer)


def lower_for(
    function: Function,
    backend: Backend,
    *,
    pipeline: Pipeline = pipelines.INFERENCE,
    observer: Observer | None = None,
) -> Function:
    """Return *function* optimized, lowered for *backend*, and optimized again.

    The backend's own passes run last.
    """
    GRAPH_PASSES.check(pipeline)
    function = observed("verify", _verified, function, observer)
    function = optimize(function, pipeline=pipeline, observer=observer)
    function = observed("lower", lambda f: lower(f, backend.should_lower), function, observer)
    function = optimize(function, pipeline=pipeline, observer=observer)
    return optimize(function, pipeline=backend.graph_pipeline, observer=observer)


def build_program(
    function: Function,
    backend: Backend,
    *,
    pipeline: Pipeline | None = None,
    observer: Observer | None = None,
) -> Program:
    """Return a lowered *function* as an optimized, allocated program.

    The passes are those of *pipeline*, by default the backend's, and know what its kernels can do.
    """
    passes = backend.program_pipeline if pipeline is None else pipeline
    passes = PROGRAM_PASSES.with_options(passes, {"traits": backend.traits})
    function = observed("schedule", schedule, function, observer)
    program = observed("generate", generate, function, observer)
    program = PROGRAM_PASSES.run(program, passes, observer)
    return observed("allocate", allocate, program, observer)


def compile_function(
    function: Function,
    backend: Backend,
    *,
    threads: int,
    pipeline: Pipeline = pipelines.INFERENCE,
    program_pipeline: Pipeline | None = None,
    observer: Observer | None = None,
) -> Compilation:
    """Compile a graph: optimize, lower, schedule, generate, optimize, allocate, make code."""
    lowered = lower_for(function, backend, pipeline=pipeline, observer=observer)
    program = build_program(lowered, backend, pipeline=program_pipeline, observer=observer)
    return make_compilation(lowered, program, backend, threads=threads, observer=observer)


def compile_program(
    program: Program, backend: Backend, *, threads: int, observer: Observer | None = None
) -> Compilation:
    """Compile a program that is given as it is; it is allocated if it was not."""
    if not program.arena:
        program = observed("allocate", allocate, program, observer)
    return make_compilation(None, program, backend, threads=threads, observer=observer)


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
    """Check the placement of *program* and hand it to *backend*.

    The observer is told of each step that the executable names.

    Raises:
        MemoryLimitError: A run needs more memory than the process may have.
    """
    observed("check_placement", _placed, program, observer)
    _check_memory(program)
    began = time.perf_counter()
    executable = backend.compile(program, threads=threads)
    steps: Mapping[str, float] = {"compile": time.perf_counter() - began}
    if isinstance(executable, CompiledInSteps):
        steps = executable.compile_seconds
    for step, seconds in steps.items():
        tell(observer, PassRun(step, program, program, seconds))
    return executable


def _verified(function: Function) -> Function:
    verify(function)
    return function


def _placed(program: Program) -> Program:
    check_placement(program)
    return program


def _check_memory(program: Program) -> None:
    arena = program.arena
    places: list[Buffer] = [] if arena is None else list(arena.offsets)
    bound = (*program.inputs, *program.outputs)
    require_memory(
        f"network {program.name!r}",
        {
            "arena": 0 if arena is None else arena.size_bytes,
            "constants": sum(weight.type.size_bytes for weight in program.weights),
            "inputs and outputs": sum(buffer.type.size_bytes for buffer in bound),
        },
        ((f"{b!r} : {b.type}", b.type.size_bytes) for b in (*places, *program.weights, *bound)),
    )
