"""``bisect``: runs a model after each step of the compiler and names the first that changes it.

Each graph is evaluated with NumPy, each program runs in the interpreter, and finally the backend's
own code runs. All results must agree with that of the imported graph. The states are tried in
order: a wrong state may lie between two correct ones, so a binary search could miss the first one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from typing_extensions import override

from glow_nb.backends import Backend, BackendLike, backend_named, option_names
from glow_nb.backends.backend import StatefulExecutable
from glow_nb.base.arguments import Shapes, finite_number
from glow_nb.base.distance import largest_distance
from glow_nb.base.errors import OptionError, PassError
from glow_nb.base.feeds import FeedCheck
from glow_nb.base.habits import refuse_arguments
from glow_nb.base.passes import PassRun
from glow_nb.base.schema import listed
from glow_nb.base.steps import Entries
from glow_nb.base.text import format_name
from glow_nb.base.types import Array
from glow_nb.base.whole_numbers import symbols_in
from glow_nb.bisection.kernels import first_bad_instruction
from glow_nb.bisection.rounding import Rounding, rounding_of
from glow_nb.bisection.states import (
    Evaluator,
    StateValues,
    culprit_value,
    named_outputs,
    with_own_places,
)
from glow_nb.compiler import pipelines
from glow_nb.compiler.driver import run
from glow_nb.hlir.graph import Function
from glow_nb.hlir.kept_names import require_kept
from glow_nb.hlir.print import format_names
from glow_nb.llir.check_placement import check_placement
from glow_nb.llir.print import print_instruction
from glow_nb.llir.program import Bound, Instruction, Program
from glow_nb.network import compilation as compiler
from glow_nb.network.compiling import as_threads
from glow_nb.network.loading import Graph, load_ir
from glow_nb.system.state_store import StateStore

State = Function | Program
Culprit = tuple[str, tuple[str, ...], str]
"""The name of a value, the imported nodes that it was made from, and the instruction that computes
it, as text."""

NOBODY: Culprit = ("", (), "")

Progress = Callable[[str, int, int], None]
"""Called with what is run next, its number and how many there are."""


@dataclass(frozen=True)
class StepResult:
    """The result after one step.

    Attributes:
        number: Of the step, counting from 0, which is the import; only steps that changed something
            are there.
        step: Its name: a pass, ``lower``, ``schedule``, ``generate``, ``allocate``, or the name of
            the backend that ran.
        level: ``graph``, ``program`` or ``code``.
        distance: The largest difference to the imported graph's outputs, over the largest output.
    """

    number: int
    step: str
    level: str
    distance: float


@dataclass(frozen=True)
class Bisection:
    """The result of :func:`bisect`.

    Attributes:
        steps: Every step that was tried, in order.
        tolerance: The largest distance that counts as rounding.
        first_bad: The first step with a larger one; None if there is none.
        value: The first value that differs from its value before this step: a node, or the node
            that an instruction was made from; empty if it could not be determined.
        nodes: The imported nodes that this value was made from.
        instruction: The instruction whose kernel is wrong, as text, if the code is.
        reason: The numbers that the tolerance is one step of, or how it was measured; empty if it
            is that of float32, or was given.
    """

    steps: tuple[StepResult, ...]
    tolerance: float
    first_bad: StepResult | None = None
    value: str = ""
    nodes: tuple[str, ...] = ()
    instruction: str = ""
    reason: str = ""

    @override
    def __str__(self) -> str:
        bound = f"{self.tolerance:.3g}{f', {self.reason}' if self.reason else ''}"
        if self.first_bad is None:
            return f"all {len(self.steps)} states agree within {bound}"
        where = f", first in %{format_name(self.value)}" if self.value else ""
        if self.nodes not in ((), (self.value,)):
            where += f" of {format_names(self.nodes)}"
        lines = [
            f"step {self.first_bad.number}, {self.first_bad.step}, is the first that differs: "
            f"{self.first_bad.distance:.3g} of the largest output, more than {bound}{where}"
        ]
        return "\n".join([*lines, *([self.instruction] if self.instruction else [])])


def bisect(
    graph: Graph,
    inputs: Mapping[str, Array] | Array,
    *,
    backend: BackendLike = "cpu",
    threads: int | None = None,
    shapes: Shapes | None = None,
    tolerance: float | None = None,
    keep_going: bool = False,
    pipeline: Entries = pipelines.INFERENCE,
    program_pipeline: Entries | None = None,
    without: Collection[str] = (),
    progress: Progress | None = None,
    **options: object,
) -> Bisection:
    """Return the first step of the compiler after which *graph* computes something else.

    Args:
        graph: A model, as for ``glow_nb.compile``; with a program, only its code generation is
            searched.
        inputs: The feeds, as for ``net.run``.
        backend: The backend, as for ``compile``.
        threads: Cores that share the backend's work; all by default.
        shapes: As for ``compile``.
        tolerance: Largest difference over the largest output that counts as rounding; by default
            1e-4, or one step of the numbers if these are coarser: 1/64 for 8 bits, 2^-7 for
            ``precision="bfloat16"``. If steps of integers add up to more, it is measured: twice
            the effect of a change by 2^-20 of all numbers before they are rounded to integers.
        keep_going: Try the steps after the first bad one, too.
        pipeline: Graph passes.
        program_pipeline: Instruction passes; the backend's own by default.
        without: Passes that are left out, as for ``compile``.
        progress: Called with what is tried next.
        options: Options of the backend, as for ``compile``.

    Raises:
        OptionError: An argument has no meaning.
        FeedError: An input is missing, unknown, or of another type.
        PassError: A pass failed, and all states before it are right.
    """
    given = None if tolerance is None else finite_number("tolerance", tolerance, 0.0)
    known = (*list(inspect.signature(bisect).parameters)[:-1], *option_names())
    refuse_arguments("bisect", options.keys() - known, known)
    cores = as_threads(threads)
    chosen = backend_named(backend, threads=cores, options=options)
    loaded = load_ir(graph, shapes=shapes)
    opened = symbols_in(value.type.shape for value in loaded.inputs)
    if opened:
        raise OptionError(
            f"{loaded.name!r}: its sizes {listed(symbol.name for symbol in opened)} are open, and "
            f"the steps of given ones are tried; give them, shapes={{{opened[0].name!r}: 8}}"
        )
    if isinstance(loaded, Function):
        require_kept([loaded], chosen.keep)
    order = compiler.order_for(
        chosen, pipeline=pipeline, program_pipeline=program_pipeline, without=without
    )
    feeds = named_inputs(loaded, inputs)
    states, failure = _states(loaded, order)
    rounding = rounding_of(loaded, chosen.precision) if given is None else Rounding(given)
    search = _Search(states, chosen, cores, rounding, progress)
    found = search.run(feeds, keep_going, run_code=failure is None)
    if failure is not None and found.first_bad is None:
        raise failure
    return found


def _states(ir: State, order: compiler.Order) -> tuple[list[tuple[str, State]], PassError | None]:
    """Return the import and what each step made that changed something, and what went wrong."""
    states: list[tuple[str, State]] = [("import", ir)]

    def note(run: PassRun, /) -> None:
        if run.changed:
            states.append((run.name, run.after))

    steps = order.of(ir) if isinstance(ir, Program) else order
    try:
        run(
            ir, (*steps.graph, *steps.program[:-1]), note
        )  # the placement is checked once its result was looked at
    except PassError as error:
        return states, error
    return states, None


def named_inputs(ir: State, inputs: Mapping[str, Array] | Array) -> dict[str, Array]:
    """Return *inputs* by name; raise FeedError unless they fit."""
    program = ir if isinstance(ir, Program) else _signature(ir)
    arrays = FeedCheck.of(program.inputs).arrays(inputs)
    return {buffer.name: array for buffer, array in zip(program.inputs, arrays, strict=True)}


def _signature(function: Function) -> Program:
    inputs = tuple(Bound(p.name, p.type) for p in function.inputs)
    return Program(function.name, (), inputs, (), ())


class _Search:
    """Runs the states in order."""

    def __init__(
        self,
        states: list[tuple[str, State]],
        backend: Backend,
        threads: int,
        rounding: Rounding,
        progress: Progress | None,
    ) -> None:
        self._states, self._backend, self._threads = states, backend, threads
        self._rounding, self._progress = rounding, progress

    def run(self, feeds: Mapping[str, Array], keep_going: bool, *, run_code: bool) -> Bisection:
        steps: list[StepResult] = []
        first_bad: StepResult | None = None
        culprit = NOBODY
        expected: StateValues | None = None
        before: StateValues | None = None
        for number, (step, level, outcome) in enumerate(self._outcomes(feeds, run_code)):
            expected = expected or outcome
            distance = largest_distance(
                expected.outputs.values(), (outcome.outputs[name] for name in expected.outputs)
            )
            steps.append(StepResult(number, step, level, distance))
            if distance > self._rounding.tolerance and first_bad is None:
                self._rounding = self._measured_rounding(feeds, expected)
            if distance > self._rounding.tolerance and first_bad is None:
                first_bad = steps[-1]
                if level == "code":
                    culprit = self._bad_kernel(feeds)
                elif before is not None:
                    value = culprit_value(before, outcome, self._rounding.tolerance)
                    culprit = (value, outcome.origins.get(value, ()), "")
                if not keep_going:
                    break
            before = outcome
        tolerance, reason = self._rounding.tolerance, self._rounding.reason
        return Bisection(tuple(steps), tolerance, first_bad, *culprit, reason)

    def _measured_rounding(self, feeds: Mapping[str, Array], expected: StateValues) -> Rounding:
        """Return what counts as rounding, measured once if the imported graph rounds to integers.

        It takes as long as the import, so it is done only if a result differs.
        """
        _, imported = self._states[0]
        if isinstance(imported, Program):
            return self._rounding
        self._tell("rounding of the import", 0, len(self._states))
        return self._rounding.measured(imported, feeds, expected)

    def _outcomes(
        self, feeds: Mapping[str, Array], run_code: bool
    ) -> Iterator[tuple[str, str, StateValues]]:
        evaluate = Evaluator(feeds)
        count = len(self._states) + run_code
        for number, (step, state) in enumerate(self._states):
            self._tell(step, number, count)
            yield step, "program" if isinstance(state, Program) else "graph", evaluate(state)
        if run_code:
            self._tell(self._backend.name, count - 1, count)
            yield self._backend.name, "code", self._run_code(feeds)

    def _tell(self, step: str, number: int, count: int) -> None:
        if self._progress:
            self._progress(step, number, count)

    def _final(self) -> Program:
        _, program = self._states[-1]
        assert isinstance(program, Program)
        return program if program.arena else with_own_places(program)

    def _run_code(self, feeds: Mapping[str, Array]) -> StateValues:
        program = self._final()
        check_placement(program)
        executable = compiler.make_executable(program, self._backend, threads=self._threads)
        inputs, state = [feeds[buffer.name] for buffer in program.inputs], StateStore(program.state)
        if program.state and isinstance(executable, StatefulExecutable):
            arrays = executable.run_on(state, inputs)
        else:
            arrays = executable.run(inputs)
        return StateValues(named_outputs(program, arrays, state), {}, {})

    def _bad_kernel(self, feeds: Mapping[str, Array]) -> Culprit:
        """Return the instruction whose kernel is wrong."""
        program = self._final()

        def report(good: int, bad: int) -> None:
            self._tell(f"kernels {good} to {bad}", len(self._states), len(self._states) + 1)

        culprit: Instruction | None = first_bad_instruction(
            program,
            self._backend,
            [feeds[buffer.name] for buffer in program.inputs],
            self._rounding.tolerance,
            threads=self._threads,
            report=report,
        )
        if culprit is None:
            return NOBODY
        return culprit.name, culprit.imported_names, print_instruction(culprit)
