"""Passes are plain functions, pipelines are data, one driver runs and checks them.

A pass takes an IR object (a Function, a Program) and returns one; it returns *the same object* when
it changed nothing, which is how ``Repeat`` knows that a fixed point is reached. Its name is the
function's name, its options are keyword-only parameters with defaults::

    @register_pass
    def eliminate_dead_nodes(function: Function) -> Function: ...

    INFERENCE: Pipeline = (
        "fold_constants",
        Repeat(("sink_transposes", "eliminate_dead_nodes"), limit=5),
        Step("fold_batch_normalization", {"keep_shared": True}),
    )

Timing, dumping, counting and bisecting are observers, not flags of the driver.
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from glow_nb.errors import DefinitionError, GlowError, GlowWarning, OptionError, PassError
from glow_nb.schema import Registry, closest

IR = TypeVar("IR")
Pass = Callable[..., IR]

_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Step:
    """One entry of a pipeline: a pass name with its options."""

    name: str
    options: Mapping[str, Any] = field(default_factory=lambda: _NO_OPTIONS)


@dataclass(frozen=True)
class Repeat:
    """Run *steps* until the IR stops changing, at most *limit* times.

    A limit that is hit is reported: to the observer, and as a :class:`GlowWarning`.
    """

    steps: tuple[Step | Repeat | str, ...]
    limit: int = 10


Entry = Step | Repeat | str
Pipeline = tuple[Entry, ...]


@dataclass(frozen=True)
class PassRun:
    """What an observer is told: one step of the compiler that ran.

    It is a pass, or one of the compiler's own steps between the pipelines (``lower``, ``schedule``,
    ``generate``, ``allocate``), or a ``Repeat`` that hit its limit.

    Attributes:
        name: The step; ``repeat`` for a fixed point that was not reached within the limit.
        before: The IR that went in.
        after: The IR that came out; ``after is before`` when the step changed nothing.
        seconds: Wall time of the step and of the verification after it.
    """

    name: str
    before: Any
    after: Any
    seconds: float

    @property
    def changed(self) -> bool:
        """True if the step did something."""
        return self.after is not self.before


class Observer(Protocol):
    """Called after every step, in order; :mod:`glow_nb.observers` has some."""

    def __call__(self, run: PassRun, /) -> None:
        """Take note of *run*."""


Before = TypeVar("Before")
After = TypeVar("After")


def observed(
    name: str, step: Callable[[Before], After], ir: Before, observer: Observer | None
) -> After:
    """Return ``step(ir)`` and tell *observer* of it, as the driver does for a pass."""
    started = time.perf_counter()
    after = step(ir)
    if observer:
        observer(PassRun(name, ir, after, time.perf_counter() - started))
    return after


class PassRegistry(Generic[IR]):
    """The passes of one IR level, and the driver that runs a pipeline of them."""

    def __init__(self, level: str, verify: Callable[[IR], None]) -> None:
        """Name the *level* in errors; *verify* raises a GlowError for IR that breaks a rule."""
        self.passes: Registry[Pass[IR]] = Registry(f"{level} pass")
        self._verify = verify

    def register(self, run: Pass[IR]) -> Pass[IR]:
        """Register *run* under its own name (a decorator)."""
        _, *options = inspect.signature(run).parameters.values()
        for option in options:
            if option.kind is not option.KEYWORD_ONLY or option.default is option.empty:
                raise DefinitionError(
                    f"pass {run.__name__!r}: option {option.name!r} must be keyword-only "
                    "with a default"
                )
        return self.passes.add(run.__name__, run)

    def run(self, ir: IR, pipeline: Pipeline, observer: Observer | None = None) -> IR:
        """Run *pipeline* on *ir*, verifying after each pass that changed it.

        Raises:
            PassError: A pass failed or broke the IR; names it and those before it.
        """
        self.check(pipeline)
        return self._run_entries(ir, pipeline, observer, [])

    def check(self, pipeline: Pipeline) -> None:
        """Raise OptionError for an unknown pass or option, before anything runs."""
        what = f"give a tuple of names of {self.passes.kind}es, Steps and Repeats"
        if not isinstance(pipeline, tuple | list):
            raise OptionError(f"pipeline {pipeline!r:.80}: {what}")
        for entry in pipeline:
            if isinstance(entry, Repeat) and isinstance(entry.limit, int):
                self.check(entry.steps)
                continue
            step = Step(entry) if isinstance(entry, str) else entry
            if not (
                isinstance(step, Step)
                and isinstance(step.name, str)
                and isinstance(step.options, Mapping)
            ):
                raise OptionError(f"pipeline entry {entry!s:.80}: {what}")
            if step.name not in self.passes:
                hint = closest(step.name, self.passes)
                raise OptionError(f"unknown {self.passes.kind} {step.name!r}{hint}")
            known = list(inspect.signature(self.passes[step.name]).parameters)[1:]
            for option in step.options:
                if option not in known:
                    raise OptionError(
                        f"pass {step.name!r} has no option {option!r}{closest(option, known)}"
                    )

    def _run_entries(
        self, ir: IR, entries: Pipeline, observer: Observer | None, done: list[str]
    ) -> IR:
        for entry in entries:
            if isinstance(entry, Repeat):
                ir = self._run_repeat(ir, entry, observer, done)
            else:
                step = Step(entry) if isinstance(entry, str) else entry
                ir = self._run_step(ir, step, observer, done)
        return ir

    def _run_repeat(self, ir: IR, repeat: Repeat, observer: Observer | None, done: list[str]) -> IR:
        unchanged = 0
        changing: list[str] = []
        for _ in range(repeat.limit):
            changing.clear()
            for entry in repeat.steps:
                before = ir
                ir = self._run_entries(ir, (entry,), observer, done)
                unchanged = unchanged + 1 if ir is before else 0
                if ir is not before:
                    changing.append(_name_of(entry))
                if unchanged == len(repeat.steps):
                    return ir  # each step has had this very IR and left it
        if observer:
            observer(PassRun("repeat", ir, ir, 0.0))
        if changing:
            warnings.warn(
                f"after {repeat.limit} rounds of {self.passes.kind}es {', '.join(changing)} still "
                "changed something: what they made is right, but perhaps not the best; "
                "give Repeat a higher limit, or report two passes that undo each other",
                GlowWarning,
                stacklevel=2,
            )
        return ir

    def _run_step(self, ir: IR, step: Step, observer: Observer | None, done: list[str]) -> IR:
        started = time.perf_counter()
        try:
            after = self.passes[step.name](ir, **step.options)
            if after is not ir:
                self._verify(after)
        except GlowError as error:
            earlier = f"after {', '.join(done[-5:])}" if done else "the first to run"
            raise PassError(f"pass {step.name!r} ({earlier}): {error}") from error
        if observer:
            observer(PassRun(step.name, ir, after, time.perf_counter() - started))
        done.append(step.name)
        return after


def _name_of(entry: Entry) -> str:
    if isinstance(entry, Repeat):
        return "repeat"
    return entry if isinstance(entry, str) else entry.name
