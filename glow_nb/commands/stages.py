"""Every state of a model in the compiler, by the name of the step that made it."""

from __future__ import annotations

from glow_nb.backends import Backend
from glow_nb.base.passes import PassRun
from glow_nb.base.steps import step_names
from glow_nb.commands.orders import require_step
from glow_nb.compiler.driver import IR, runs_of
from glow_nb.hlir.graph import Function
from glow_nb.network.compilation import order_for


class Stages:
    """The states of one function under the default pipelines and a backend's own.

    Attributes:
        function: The graph as imported.
        graph_steps: The names of the steps that make a graph, in the order of the first run.
        program_steps: The names of those that make a program.
    """

    def __init__(self, function: Function, backend: Backend, without: tuple[str, ...] = ()) -> None:
        """Take the *function* as imported; passes called *without* do not run."""
        self.function = function
        order = order_for(backend, without=without)
        self._order = (*order.graph, *order.program)
        names = step_names(self._order)
        first = names.index("generate")
        self.graph_steps = tuple(dict.fromkeys(("import", *names[:first])))
        self.program_steps = tuple(dict.fromkeys(names[first:]))

    def after(self, step: str) -> IR:
        """Return the state after the last run of *step*; raise OptionError if there is none."""
        self.check("--after", step)
        if step == "import":
            return self.function
        state: IR = self.runs_of(step)[-1].after
        return state

    def check(self, option: str, step: str) -> None:
        """Raise OptionError, in the words of the command's *option*, if there is no such *step*."""
        require_step(option, step, {"hlir": self.graph_steps, "llir": self.program_steps})

    def runs_of(self, step: str) -> list[PassRun]:
        """Return every run of *step*, in order."""
        return runs_of(step, self.function, self._order)
