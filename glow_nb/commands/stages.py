"""Every state of a model on its way through the compiler, by the name of the step that made it.

Steps are the passes of the pipelines and the fixed steps between them: ``import``, ``lower`` and
``schedule`` of the graph, ``generate`` and ``allocate`` of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from glow_nb import pipelines
from glow_nb.backends import Backend
from glow_nb.compiler import build_program, lower_for, optimize
from glow_nb.errors import OptionError
from glow_nb.hlir.graph import Function
from glow_nb.hlir.lower import lower
from glow_nb.hlir.schedule import schedule
from glow_nb.llir.generate import generate
from glow_nb.llir.program import Program
from glow_nb.passes import PassRun, Pipeline, Repeat, name_of_step
from glow_nb.schema import closest


class Stages:
    """The states of one function under the default pipelines and a backend's own."""

    def __init__(self, function: Function, backend: Backend) -> None:
        """Take the *function* as imported."""
        self.function, self.backend = function, backend

    @property
    def graph_steps(self) -> dict[str, Callable[[], Function]]:
        """What makes a graph, by name, in the order of the first run."""
        steps: dict[str, Callable[[], Function]] = {"import": lambda: self.function}
        for name in _names(pipelines.INFERENCE):
            steps[name] = partial(self._graph_after, name)
        steps["lower"] = lambda: lower(optimize(self.function), self.backend.should_lower)
        for name in _names(self.backend.graph_pipeline):
            steps[name] = partial(self._graph_after, name)
        steps["schedule"] = lambda: schedule(self.graph())
        return steps

    @property
    def program_steps(self) -> dict[str, Callable[[], Program]]:
        """What makes a program, by name, in the order of the first run."""
        steps: dict[str, Callable[[], Program]] = {}
        steps["generate"] = lambda: generate(schedule(self.graph()))
        for name in _names(self.backend.program_pipeline):
            steps[name] = partial(self._program_after, name)
        steps["allocate"] = self.program
        return steps

    def graph(self) -> Function:
        """Return the graph that instructions are generated from."""
        return lower_for(self.function, self.backend)

    def program(self) -> Program:
        """Return the program that the backend compiles."""
        return build_program(self.graph(), self.backend)

    def after(self, step: str) -> Function | Program:
        """Return the state after the last run of *step*; raise OptionError if there is none."""
        steps: dict[str, Callable[[], Function | Program]] = {}
        steps.update(self.graph_steps)
        steps.update(self.program_steps)
        self.check("--after", step)
        return steps[step]()

    def check(self, option: str, step: str) -> None:
        """Raise OptionError, in the words of the command's *option*, if there is no such *step*."""
        if step not in (*self.graph_steps, *self.program_steps):
            hint = closest(step, (*self.graph_steps, *self.program_steps))
            raise OptionError(
                f"{option} {step}: there is no such step{hint}\n"
                f"  hlir: {', '.join(self.graph_steps)}\n"
                f"  llir: {', '.join(self.program_steps)}"
            )

    def runs_of(self, step: str) -> list[PassRun]:
        """Return every run of *step*, in order."""
        runs: list[PassRun] = []
        graph = lower_for(self.function, self.backend, observer=runs.append)
        if step in self.program_steps or step == "schedule":
            build_program(graph, self.backend, observer=runs.append)
        return [run for run in runs if run.name == step]

    def _graph_after(self, name: str) -> Function:
        last = _LastRun(name)
        lower_for(self.function, self.backend, observer=last)
        state: Function = last.state
        return state

    def _program_after(self, name: str) -> Program:
        last = _LastRun(name)
        build_program(self.graph(), self.backend, observer=last)
        state: Program = last.state
        return state


class _LastRun:
    """An observer that keeps what the pass called *name* made when it last ran."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state: Any = None

    def __call__(self, run: PassRun, /) -> None:
        if run.name == self.name:
            self.state = run.after


def _names(pipeline: Pipeline) -> list[str]:
    """Return the names of the passes of *pipeline*, in order."""
    names: list[str] = []
    for entry in pipeline:
        if isinstance(entry, Repeat):
            names += _names(entry.steps)
        else:
            names.append(name_of_step(entry))
    return names
