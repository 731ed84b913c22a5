"""Observers to give to ``glow_nb.compile(..., observer=...)``: what each step of the compiler did.

::

    from glow_nb.observers import Timing, WriteIR, each

    timing = Timing()
    glow_nb.compile("model.onnx", observer=each(WriteIR("steps"), timing))
    print(timing)

An observer is any function of one :class:`~glow_nb.passes.PassRun`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from typing_extensions import override

from glow_nb.difference import CONTEXT, difference, print_ir
from glow_nb.errors import GlowError
from glow_nb.files import SUFFIX, replace_file, save_text
from glow_nb.hlir.graph import Function
from glow_nb.llir.program import Program
from glow_nb.passes import Observer, PassRun, check_observer, tell

_OURS = re.compile(rf"\d\d+-\w+(\{SUFFIX}|\.npz)")
"""The files that :class:`WriteIR` writes."""


def each(*observers: Observer) -> Observer:
    """Return an observer that tells all of *observers*, in order.

    Raises:
        OptionError: One of them cannot be called with a PassRun.
    """
    for observer in observers:
        check_observer(observer)

    def tell_all(run: PassRun, /) -> None:
        for observer in observers:
            tell(observer, run)

    return tell_all


class WriteIR:
    """Writes the IR after each step that changed it, and first of all as it was imported.

    The files are numbered in the order of the steps and named after them: ``00-import.glow``,
    ``01-fold_constants.glow``, ``02-sink_transposes.glow`` ... No name of a model becomes part of a
    path. Files of this kind that an earlier observer left in the folder are removed.

    Attributes:
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
            text = print_ir(ir)
            replace_file(path, lambda place: place.write_text(text, encoding="utf-8"))
        self.written.append(path)


class PrintDiff:
    """Prints what some steps did, as a coloured difference of texts, to standard output."""

    def __init__(self, *steps: str, context: int = CONTEXT) -> None:
        """Show *steps*, all if none is named, with *context* unchanged lines around a change."""
        self._steps, self._context = steps, context
        self._console = Console(markup=False, emoji=False, highlight=False)

    def __call__(self, run: PassRun, /) -> None:
        """Print what *run* changed, if it is wanted, keeps the level and changed anything."""
        is_wanted = not self._steps or run.name in self._steps
        if is_wanted and run.changed and type(run.before) is type(run.after):
            shown = difference(run.before, run.after, context=self._context)
            self._console.print(f"{run.name}: {shown}")
            shown.print(self._console)


@dataclass
class StepTime:
    """How often a step ran, how often it changed something, and how long it took in all."""

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
