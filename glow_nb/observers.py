"""Observers for ``glow_nb.compile(..., observer=...)``, which see each step of the compiler.

::

    from glow_nb.observers import Timing, WriteIR, each

    timing = Timing()
    glow_nb.compile("model.onnx", observer=each(WriteIR("steps"), timing))
    print(timing)

An observer is any function of one :class:`~glow_nb.base.passes.PassRun`; its method
``finish()``, if it has one, is called when the compilation has ended.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from typing_extensions import override

from glow_nb.backends import BACKENDS, backend_named
from glow_nb.base.arguments import described
from glow_nb.base.errors import GlowError, OptionError
from glow_nb.base.foreign import name_of
from glow_nb.base.passes import STEP_NAMES, Observer, PassRun, check_observer, finish, tell
from glow_nb.base.schema import closest
from glow_nb.base.steps import Pass
from glow_nb.compiler.program_passes import PROGRAM_PASSES
from glow_nb.hlir.graph import Function
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.llir.program import Program
from glow_nb.network.files import save_text
from glow_nb.network.ir_text import ir_text
from glow_nb.network.text_files import SUFFIX
from glow_nb.system.replaced_files import replace_file
from glow_nb.tools.difference import CONTEXT, difference

_OURS = re.compile(rf"\d\d+-\w+(\{SUFFIX}|\.npz)")
"""The files that :class:`WriteIR` writes."""


class each:  # noqa: N801 - reads like a function, observer=each(...)
    """An observer that tells several others, in order."""

    def __init__(self, *observers: Observer) -> None:
        """Tell *observers*; raise OptionError if one cannot be called with a PassRun."""
        for observer in observers:
            check_observer(observer)
        self._observers = observers

    def __call__(self, run: PassRun, /) -> None:
        """Tell all of *run*."""
        for observer in self._observers:
            tell(observer, run)

    def finish(self) -> None:
        """Tell all that the compilation has ended."""
        for observer in self._observers:
            finish(observer)


class WriteIR:
    """Writes the IR after each step that changed it, and first of all as it was imported.

    The files are numbered in the order of the steps and named after them: ``00-import.glow``,
    ``01-fold_constants.glow``, ``02-sink_transposes.glow`` ... No name of a model becomes part of a
    path. Files of this kind that an earlier observer left in the folder are removed.

    Attributes:
        folder: Where the files go.
        written: The files, in order.
    """

    def __init__(self, folder: str | os.PathLike[str], *, constants: bool = False) -> None:
        """Write to *folder*, which is made if need be.

        Args:
            folder: Where the files go.
            constants: Write large constants beside each text (``.npz``), so that every state can be
                run; they take as much space as the model, each time.
        """
        self.folder = Path(folder)
        self.written: list[Path] = []
        self._constants = constants
        self._last: object = None

    def __call__(self, run: PassRun, /) -> None:
        """Write what *run* made; raise GlowError if the folder cannot be written."""
        if not self.written:
            self._clear()
        if run.before is not self._last:  # the first step, or that of another compilation
            self._write("import", run.before)
        if run.changed:
            self._write(run.name, run.after)
        self._last = run.after

    def _clear(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for path in self.folder.iterdir():
                if _OURS.fullmatch(path.name) and path.is_file():
                    path.unlink()
        except OSError as error:
            raise GlowError(f"{self.folder}: cannot be written: {error.strerror}") from error

    def _write(self, step: str, ir: Function | Program) -> None:
        name = re.sub(r"\W", "_", step, flags=re.ASCII)[:80]
        path = self.folder / f"{len(self.written):02d}-{name}{SUFFIX}"
        if self._constants:
            save_text(ir, path)
        else:
            text = ir_text(ir)
            replace_file(path, lambda place: place.write_text(text, encoding="utf-8"))
        self.written.append(path)


class PrintDiff:
    """Prints what some steps did, as a coloured difference of texts, to standard output.

    At the end it says which of the requested steps have shown nothing, and why.
    """

    def __init__(self, *steps: str | Pass[Any], context: int = CONTEXT) -> None:
        """Show *steps*, all if none is given, with *context* unchanged lines around a change.

        Args:
            steps: Names of registered passes or of the compiler's steps, or functions and rules in
                a pipeline.
            context: The number of unchanged lines to show.

        Raises:
            OptionError: A name is that of no step.
        """
        self._steps = tuple(_step_name(step) for step in steps)
        self._context = context
        self._silent = dict.fromkeys(self._steps, NEVER_RAN)
        self._console = Console(markup=False, emoji=False, highlight=False)

    def __call__(self, run: PassRun, /) -> None:
        """Print what *run* changed, if it is one of the steps, stays on its level, and changed
        anything.
        """
        if self._steps and run.name not in self._steps:
            return
        if not run.changed:
            if self._silent.get(run.name) is NEVER_RAN:
                self._silent[run.name] = "it changed nothing"
        elif type(run.before) is not type(run.after):
            self._silent[run.name] = (
                f"it makes a {type(run.after).__name__} of a {type(run.before).__name__}, which "
                "have no lines in common; WriteIR writes both"
            )
        else:
            self._silent.pop(run.name, None)
            shown = difference(run.before, run.after, context=self._context)
            self._console.print(f"{run.name}: {shown}")
            shown.print(self._console)

    def finish(self) -> None:
        """Print why a requested step has shown nothing, and begin again."""
        for step, reason in self._silent.items():
            if step in self._steps:
                self._console.print(f"{step}: nothing to show, {reason}", soft_wrap=True)
        self._silent = dict.fromkeys(self._steps, NEVER_RAN)


NEVER_RAN = "it is no step of this compilation"


def _step_name(step: str | Pass[Any]) -> str:
    """Return the name of a step; raise OptionError if there is none of this name."""
    if not isinstance(step, str):
        if callable(step):
            return name_of(step)
        raise OptionError(f"step {described(step)}: give the name of a pass or step, or a function")
    known = {*STEP_NAMES, *GRAPH_PASSES.passes, *PROGRAM_PASSES.passes}
    if step not in known:
        for backend in BACKENDS:  # whose passes are registered at first use
            known |= backend_named(backend).compile_steps.keys()
        known |= {*GRAPH_PASSES.passes, *PROGRAM_PASSES.passes}
    if step not in known:
        raise OptionError(
            f"step {step!r}: there is no pass or step of this name{closest(step, known)}; "
            "of a pass that is not registered, give the function or the rules themselves"
        )
    return step


@dataclass
class StepTime:
    """The number of times that a step ran and changed something, and its total time.

    Attributes:
        runs: The number of times that it ran.
        changes: The number of times that it changed the IR.
        seconds: The time of all runs.
    """

    runs: int = 0
    changes: int = 0
    seconds: float = 0.0


class Timing:
    """Adds up the time of each step; printed as a table, the slowest first.

    Attributes:
        steps: By name, in the order of the first run.
    """

    def __init__(self) -> None:
        """Begin at zero."""
        self.steps: dict[str, StepTime] = {}

    def __call__(self, run: PassRun, /) -> None:
        """Add *run*."""
        step = self.steps.setdefault(run.name, StepTime())
        step.runs += 1
        step.changes += run.changed
        step.seconds += run.seconds

    @property
    def seconds(self) -> float:
        """The time of all steps."""
        return sum(step.seconds for step in self.steps.values())

    @override
    def __str__(self) -> str:
        width = max(map(len, self.steps), default=4)
        lines = [f"{'step':{width}}  runs  changes  milliseconds"]
        for name, step in sorted(self.steps.items(), key=lambda item: -item[1].seconds):
            took = f"{1e3 * step.seconds:12.2f}"
            lines.append(f"{name:{width}}  {step.runs:4}  {step.changes:7}  {took}")
        return "\n".join(lines)
