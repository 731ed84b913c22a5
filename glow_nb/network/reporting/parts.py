"""One program of a network as a part of its report."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from glow_nb.backends.backend import CompiledInSteps
from glow_nb.base.errors import GlowError
from glow_nb.base.model_node import ModelNode
from glow_nb.base.steps import Entries, Step, name_of_step, steps_in, what_it_does
from glow_nb.compiler.driver import run
from glow_nb.hlir.graph import Function
from glow_nb.llir.print import print_instruction
from glow_nb.llir.program import Program
from glow_nb.network.reporting.measuring import Measured
from glow_nb.network.reporting.programs import ShownProgram
from glow_nb.network.views import CompiledViews
from glow_nb.report.calls import call_rows, kernel_sources, reports_in_order
from glow_nb.report.data import Memory, Part, Stage, Table
from glow_nb.report.memory import life_rows
from glow_nb.report.passes import PassRecorder
from glow_nb.report.plans import PLANNER, Alternatives, alternatives_of
from glow_nb.report.room import Room
from glow_nb.report.stages import (
    Numbering,
    graph_stage,
    kernel_stage,
    missing,
    model_of_function,
    model_of_nodes,
    program_stage,
)
from glow_nb.report.weights import weight_rows

T = TypeVar("T")

GONE = (
    "The model is not available: the network was loaded from a folder, or its graph was deleted. "
    "Compile the model again to see it."
)
DIFFERS = (
    "The passes were run once more, and did not end with the program that runs. They are not shown."
)
IS_PROGRAM = "A program was given, without the graph that it was made from."


def part_of(
    shown: ShownProgram, measured: Measured, room: Room, tables: Iterable[Table] = ()
) -> Part:
    """Return all data of one program for which there is *room*.

    *tables* are shown beside those of its sizes.
    """
    network = shown.network
    program, reports = network.program, network.kernels
    passes = _Passes(shown, room)
    stages, numbers = _graphs(shown, passes)
    instructions = program_stage(program, network.function, numbers)
    numbered = reports_in_order(program, reports)
    kernels, kernel_numbers = kernel_stage(numbered, instructions)
    memory = network.memory
    return Part(
        title=shown.title,
        stages=tuple(room.stage(stage) for stage in (*stages, instructions, kernels)),
        calls=call_rows(program, numbered, kernel_numbers, passes.alternatives, measured.times),
        sources=tuple(map(room.source, kernel_sources(numbered, kernel_numbers))),
        passes=tuple(passes.recorder.rows),
        no_passes=passes.reason,
        memory=_memory(network),
        weights=weight_rows(memory.program),
        tables=(*shown.tables, *_precision(network), *_code(network), *tables),
        measurement=measured.run,
        unmeasured=measured.reason,
    )


def _memory(network: CompiledViews) -> Memory:
    report = network.memory
    lives, left_out = life_rows(report.program)
    return Memory(
        arena=report.arena_bytes,
        lower_bound=report.lower_bound_bytes,
        unshared=report.unshared_bytes,
        constants=report.constant_bytes,
        scratch=report.scratch_bytes,
        state=report.state_bytes,
        lives=lives,
        left_out=left_out,
    )


def _precision(network: CompiledViews) -> tuple[Table, ...]:
    found = network.precision.table
    title = f"Precision: {network.precision.precision} was asked for"
    return (Table(title, found.columns, found.rows),) if found.rows else ()


def _code(network: CompiledViews) -> tuple[Table, ...]:
    """Return how long the backend took to make code of the program, if it was made now."""
    if not isinstance(network.executable, CompiledInSteps):
        return ()
    does = {name_of_step(step): what_it_does(step) for step in steps_in(network.pipeline)}
    rows = tuple(
        (name, f"{1e3 * seconds:.1f}", does.get(name, ""))
        for name, seconds in network.executable.compile_seconds.items()
    )
    columns = ("step", "#milliseconds", "what it does")
    note = "Kernels that the cache has are not compiled again."
    return (Table("From the program to code", columns, rows, note),)


def _graphs(shown: ShownProgram, passes: _Passes) -> tuple[list[Stage], Numbering]:
    """Return the stages before the program, and the numbers of the nodes of the model."""
    lowered = shown.network.function
    nodes = _read(shown.nodes)
    if nodes is not None:
        model = model_of_nodes(nodes)
    elif isinstance(whole := _read(shown.whole), Function):
        model = model_of_function(whole)
    else:
        model = _from_origins(lowered) if lowered is not None else missing("model", IS_PROGRAM)
    numbers = Numbering(item.name for item in model.items)
    if lowered is None:
        return [model, missing("graph", IS_PROGRAM), missing("lowered", IS_PROGRAM)], numbers
    optimized = passes.recorder.optimized
    graph = missing("graph", passes.reason or GONE)
    if optimized is not None:
        graph = graph_stage("graph", optimized, numbers)
    return [model, graph, graph_stage("lowered", lowered, numbers)], numbers


def _read(read: Callable[[], T | None]) -> T | None:
    """Return what is read, None if it cannot be."""
    try:
        return read()
    except GlowError:  # the file was changed or removed meanwhile
        return None


def _from_origins(lowered: Function) -> Stage:
    """Return what remains of a deleted model: the names of the nodes from which others were
    made.
    """
    names = itertools.chain.from_iterable(lowered.origins_of(node) for node in lowered)
    return model_of_nodes([ModelNode(name, "") for name in dict.fromkeys(names)])


class _Passes:
    """The steps of the compiler, run once more on the model to see what each does.

    Attributes:
        model: The model; None if it was deleted.
        recorder: The record of the steps.
        alternatives: The candidates for the products.
        reason: Why nothing is known; empty if they ran.
    """

    def __init__(self, shown: ShownProgram, room: Room) -> None:
        """Run the steps that the network was compiled by."""
        pipeline: Entries = ()
        self.recorder = PassRecorder(room)
        self.model: Function | Program | None = None
        self.alternatives: Alternatives = {}
        self.reason = ""
        try:
            pipeline = shown.pipeline()
            does = {name_of_step(step): what_it_does(step) for step in steps_in(pipeline)}
            self.recorder = PassRecorder(room, does, PLANNER)
            self.model = shown.model()
            if self.model is None:
                self.reason = GONE
                return
            made = run(self.model, before_code(pipeline), self.recorder)
            if not is_same_program(made, shown.network.program):
                self.reason, self.recorder = DIFFERS, PassRecorder(room)
        except GlowError as error:
            self.reason = f"The passes could not be run once more: {error}"
        if self.recorder.before_plans is not None:
            options = _options_of(pipeline, PLANNER)
            self.alternatives = alternatives_of(self.recorder.before_plans, options)


def is_same_program(made: Function | Program, program: Program) -> bool:
    """Return whether *made* has the instructions of *program*, and its activations their places."""
    return isinstance(made, Program) and _lines(made) == _lines(program)


def _lines(program: Program) -> list[str]:
    return [print_instruction(one, program.arena) for one in program.instructions]


def before_code(pipeline: Entries) -> Entries:
    """Return the steps of *pipeline* that change IR: those up to the check of its placement."""
    names = [name_of_step(entry) for entry in pipeline]
    return tuple(pipeline[: names.index("check_placement") + 1])


def _options_of(pipeline: Entries, name: str) -> dict[str, Any]:
    """Return the options of the step called *name*."""
    found = (step for step in steps_in(pipeline) if name_of_step(step) == name)
    return dict(next(found, Step(name)).options)
