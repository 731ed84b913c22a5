"""The compiler's steps by name, and the driver that runs an order of them.

An order is a pipeline that goes through both levels: passes over graphs, passes over instructions,
and the steps of :data:`STEPS` before, between and after them. The whole compiler is one
(:mod:`glow_nb.network.compilation`), a golden case and ``glow-nb opt`` are others::

    program = run(function, ("fold_constants", "lower", "schedule", "generate", "peephole"))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, TypeGuard, TypeVar

from glow_nb.base.errors import OptionError, PassError
from glow_nb.base.foreign import foreign
from glow_nb.base.passes import Observer, PassRegistry, PassRun, check_options, observed
from glow_nb.base.schema import closest, in_groups
from glow_nb.base.steps import (
    DESCRIPTIONS,
    Entries,
    Entry,
    Repeat,
    Step,
    as_step,
    first_line,
    name_of_step,
    step_names,
)
from glow_nb.compiler.program_passes import PROGRAM_PASSES
from glow_nb.hlir.differentiate import differentiate
from glow_nb.hlir.graph import Function
from glow_nb.hlir.lower import lower
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.hlir.schedule import schedule
from glow_nb.hlir.verify import verify as verify_function
from glow_nb.llir.allocate import allocate
from glow_nb.llir.check_placement import check_placement
from glow_nb.llir.generate import generate
from glow_nb.llir.program import Program
from glow_nb.llir.traits import Traits
from glow_nb.llir.verify import verify as verify_program

IR = Function | Program
Level = type[Function] | type[Program]


@dataclass(frozen=True)
class CompilerStep:
    """A step of the compiler that is no pass: it goes to the other level, or only looks at the IR.

    Attributes:
        run: The function; its options are keyword-only.
        takes: The levels of IR that it can be given.
        makes: The level of what it returns; None if that is the one it was given.
    """

    run: Callable[..., Any]
    takes: tuple[Level, ...]
    makes: Level | None = None


def verify(ir: IR) -> IR:
    """Return *ir*; raise GlowError if it breaks a rule of its level."""
    if isinstance(ir, Program):
        verify_program(ir)
    else:
        verify_function(ir)
    return ir


def _check_placement(program: Program) -> Program:
    """Prove that no two activations of a program overlap while both are needed."""
    check_placement(program)
    return program


STEPS: dict[str, CompilerStep] = {
    "verify": CompilerStep(verify, (Function, Program)),
    "differentiate": CompilerStep(differentiate, (Function,)),
    "lower": CompilerStep(lower, (Function,)),
    "schedule": CompilerStep(schedule, (Function,)),
    "generate": CompilerStep(generate, (Function,), Program),
    "allocate": CompilerStep(allocate, (Program,)),
    "check_placement": CompilerStep(_check_placement, (Program,)),
}
"""The steps of the compiler that are no passes, by name, in the order in which they first run.

The compiler itself never differentiates."""

DESCRIPTIONS.update({name: first_line(step.run) for name, step in STEPS.items()})


def run(ir: IR, order: Entries, observer: Observer | None = None) -> IR:
    """Return *ir* after all that *order* names, telling *observer* of each step and pass.

    A program whose memory is placed loses its placement to the first pass that changes it, since
    that may change what is live at one time.

    Raises:
        OptionError: *order* names what is neither a step nor a pass of the level that it meets.
        PassError: A pass failed; names it and those before it.
    """
    check(Program if isinstance(ir, Program) else Function, order)
    for is_step, entries in groupby(order, _is_step):
        if not is_step:
            ir = _run_passes(ir, tuple(entries), observer)
            continue
        for entry in filter(_is_step, entries):
            ir = _run_step(ir, entry, observer)
    return ir


def with_traits(order: Entries, traits: Traits) -> Entries:
    """Return *order* with *traits* given to each instruction pass that stands there by its name.

    Functions, and passes within a Repeat, stay as they are.
    """
    told = {"traits": traits}
    return tuple(
        PROGRAM_PASSES.with_options((entry,), told)[0]
        if _is_name(entry) and name_of_step(entry) in PROGRAM_PASSES.passes
        else entry
        for entry in order
    )


L = TypeVar("L", Function, Program)


def run_to(level: type[L], ir: IR, order: Entries, observer: Observer | None = None) -> L:
    """Do what :func:`run` does with an *order* that is known to end on *level*."""
    made = run(ir, order, observer)
    assert isinstance(made, level), f"{order} makes no {level.__name__}"
    return made


def runs_of(step: str, ir: IR, order: Entries) -> list[PassRun]:
    """Return every run of *step* when *order* runs on *ir*; what comes after the last is left out.

    Raises:
        OptionError: *order* does not name *step*, or as :func:`run`.
    """
    places = [n for n, entry in enumerate(order) if step in step_names((entry,))]
    if not places:
        known = tuple(dict.fromkeys(step_names(order)))
        hint = closest(step, known) or in_groups({"steps": known})
        raise OptionError(f"unknown step {step!r}{hint}")
    runs: list[PassRun] = []

    def observe(run: PassRun, /) -> None:
        if run.name == step:
            runs.append(run)

    run(ir, order[: places[-1] + 1], observe)
    return runs


def check(level: Level, order: Entries) -> None:
    """Raise OptionError unless *order* can run on IR of *level*; nothing runs."""
    for entry in order:
        name = name_of_step(entry)
        if not _is_step(entry):
            _check_pass(level, entry, name)
            continue
        step = STEPS[name]
        if level not in step.takes:
            raise _misplaced(f"step {name!r}", step.takes[0])
        check_options(f"step {name!r}", step.run, as_step(entry).options)
        level = step.makes or level


def steps_by_kind() -> dict[str, tuple[str, ...]]:
    """Return the names of all that :func:`run` can do: steps, graph passes, instruction passes."""
    registries = (GRAPH_PASSES, PROGRAM_PASSES)
    return {"steps": tuple(STEPS), **{f"{r.passes.kind}es": tuple(r.passes) for r in registries}}


def _check_pass(level: Level, entry: Entry, name: str) -> None:
    passes: PassRegistry[Any] = PROGRAM_PASSES if level is Program else GRAPH_PASSES
    if _is_name(entry) and name not in passes.passes:
        for other, other_level in ((GRAPH_PASSES, Function), (PROGRAM_PASSES, Program)):
            if name in other.passes:
                raise _misplaced(f"{other.passes.kind} {name!r}", other_level)
        groups = steps_by_kind()
        hint = closest(name, [each for names in groups.values() for each in names])
        raise OptionError(f"unknown {passes.passes.kind} {name!r}{hint or in_groups(groups)}")
    passes.check((entry,))


def _misplaced(subject: str, wanted: Level) -> OptionError:
    if wanted is Program:
        return OptionError(f"{subject}: it takes a program, but would get a graph; generate first")
    return OptionError(f"{subject}: it takes a graph, but would get a program")


def _is_name(entry: Entry) -> TypeGuard[Step | str]:
    return not isinstance(entry, Repeat) and isinstance(as_step(entry).name, str)


def _is_step(entry: Entry) -> TypeGuard[Step | str]:
    return _is_name(entry) and name_of_step(entry) in STEPS


def _run_step(ir: IR, entry: Step | str, observer: Observer | None) -> IR:
    name = name_of_step(entry)
    step: Callable[[IR], IR] = partial(STEPS[name].run, **as_step(entry).options)
    with foreign(PassError, f"step {name!r}"):  # its options may come from anywhere
        return observed(name, step, ir, observer)


def _run_passes(ir: IR, pipeline: Entries, observer: Observer | None) -> IR:
    if isinstance(ir, Function):
        return GRAPH_PASSES.run(ir, pipeline, observer)
    unplaced = dataclasses.replace(ir, arena=None) if ir.arena else ir
    optimized = PROGRAM_PASSES.run(unplaced, pipeline, observer)
    return ir if optimized is unplaced else optimized
