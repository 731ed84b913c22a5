"""Passes are plain functions, pipelines are data, one driver runs and checks them.

A pass takes an IR object (a Function, a Program) and returns one; it returns *the same object* when
it changed nothing, which is how ``Repeat`` knows that a fixed point is reached. Its name is the
function's name, its options are keyword-only parameters with defaults::

    @register_pass
    def eliminate_dead_nodes(function: Function) -> Function: ...

    INFERENCE = Pipeline((
        "fold_constants",
        Repeat(("sink_transposes", "eliminate_dead_nodes"), limit=5),
        Step("fold_batch_normalization", {"keep_shared": True}),
        my_own_pass,
    ))

A pipeline (:mod:`glow_nb.compiler.pipelines`) names registered passes, or has functions themselves
in it. Timing, dumping, counting and bisecting are observers, not flags of the driver.
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import FunctionType
from typing import Any, Generic, Protocol, TypeVar

from glow_nb.base.arguments import described
from glow_nb.base.errors import DefinitionError, GlowError, GlowWarning, OptionError, PassError
from glow_nb.base.foreign import foreign, name_of
from glow_nb.base.log import DEBUG, log
from glow_nb.base.noted import keep, trial
from glow_nb.base.progress import report
from glow_nb.base.schema import Registry, closest, in_groups
from glow_nb.base.steps import (
    DESCRIPTIONS,
    Entries,
    Entry,
    Pass,
    Repeat,
    Step,
    as_step,
    first_line,
    name_of_step,
)

IR = TypeVar("IR")

STEP_NAMES = (
    *("import", "backend", "verify", "differentiate", "lower", "schedule", "generate", "allocate"),
    *("check_placement", "compile", "share_weights", "free_memory"),
)
"""The compiler's own steps: those before, between and after the pipelines.

A backend may name steps of its own instead of ``compile`` (``Backend.compile_steps``). Only those
from ``differentiate``, which runs where it is asked for, to ``allocate`` change the IR.
"""


@dataclass(frozen=True)
class PassRun:
    """The argument of an observer: one step of the compiler that ran.

    It is a pass, or one of the compiler's own steps (:data:`STEP_NAMES`), or a ``Repeat`` that hit
    its limit.

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
        """Return whether the step did something."""
        return self.after is not self.before


class Observer(Protocol):
    """Called after every step, in order; :mod:`glow_nb.observers` has some observers.

    If it has a method ``finish()``, ``glow_nb.compile`` calls it once a network is made.
    """

    def __call__(self, run: PassRun, /) -> None:
        """Take note of *run*."""


def check_observer(observer: object) -> None:
    """Raise OptionError unless *observer* can be called with one :class:`PassRun`."""
    if isinstance(observer, type):
        name = observer.__name__
        raise OptionError(f"observer={name}: this is a class; give an instance of it: {name}()")
    if not callable(observer):
        raise OptionError(f"observer={described(observer)}: give a function of one PassRun")
    if not _takes_one(observer):
        raise OptionError(
            f"observer={name_of(observer)}: it cannot be called with one argument; "
            "give a function of one PassRun"
        )


def _takes_one(function: Callable[..., object]) -> bool:
    """Return whether *function* may be called with one argument and nothing else."""
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # written in C, without a signature
        return True
    return True


def tell(observer: Observer | None, run: PassRun) -> None:
    """Call *observer* with *run*, and log it; an exception becomes a GlowError that names both."""
    log(DEBUG, "step %s: %.1f ms%s", run.name, 1e3 * run.seconds, ", changed" * run.changed)
    if observer is not None:
        with foreign(GlowError, f"observer {name_of(observer)!r}, told of step {run.name!r}"):
            observer(run)


Before = TypeVar("Before")
After = TypeVar("After")


def finish(observer: Observer | None) -> None:
    """Tell *observer* that the compilation has ended, if it has a method for that."""
    method = getattr(observer, "finish", None)
    if method is not None:
        with foreign(GlowError, f"observer {name_of(observer)!r}, at the end"):
            method()


def observed(
    name: str, step: Callable[[Before], After], ir: Before, observer: Observer | None
) -> After:
    """Return ``step(ir)`` and report it to *observer*, as the driver does for a pass."""
    started = time.perf_counter()
    report(f"step {name}")
    after = step(ir)
    tell(observer, PassRun(name, ir, after, time.perf_counter() - started))
    return after


_REGISTRIES: list[PassRegistry[Any]] = []
"""Those of all levels."""


class PassRegistry(Generic[IR]):
    """The passes of one IR level, and the driver that runs a pipeline of them."""

    def __init__(
        self,
        level: str,
        verify: Callable[[IR], None],
        *,
        argument: str = "pipeline",
        renewed: str = "",
    ) -> None:
        """Make the registry of a level, without passes.

        Args:
            level: The name of the level in errors.
            verify: Raises a GlowError for IR that breaks a rule.
            argument: Which argument of ``glow_nb.compile`` takes its pipelines.
            renewed: How a pass returns IR with other parts, as code.
        """
        self.passes: Registry[str, Pass[IR]] = Registry(f"{level} pass")
        self._verify, self._argument, self._renewed = verify, argument, renewed
        _REGISTRIES.append(self)

    def register(self, run: Pass[IR]) -> Pass[IR]:
        """Register *run* under its own name (a decorator).

        Raises:
            DefinitionError: It is not a function of one IR whose options are keyword-only and have
                defaults, or its name is that of a compiler step or of a pass of another module.
        """
        subject = f"{self.passes.kind} {name_of(run)!r}"
        if isinstance(run, type) or not (callable(run) and hasattr(run, "__name__")):
            raise DefinitionError(f"{subject}: {run!r:.80} is no function, which alone has a name")
        if run.__name__ in STEP_NAMES:
            raise DefinitionError(
                f"{subject}: the compiler has a step of this name; choose another"
            )
        ir, *options = inspect.signature(run).parameters.values() or (None,)
        if ir is None or ir.kind is ir.KEYWORD_ONLY:
            raise DefinitionError(f"{subject}: its first parameter must be the IR, it has none")
        for option in options:
            if option.kind is not option.KEYWORD_ONLY or option.default is option.empty:
                raise DefinitionError(
                    f"{subject}: option {option.name!r} must be keyword-only with a default"
                )
        DESCRIPTIONS[run.__name__] = first_line(run)
        return self.passes.add(run.__name__, run)

    def run(self, ir: IR, pipeline: Entries, observer: Observer | None = None) -> IR:
        """Run *pipeline* on *ir*, verifying after each pass that changed it.

        Raises:
            OptionError: *pipeline* or *observer* is none.
            PassError: A pass raised, returned no IR or broke it; names it and those before it.
        """
        self.check(pipeline)
        if observer is not None:
            check_observer(observer)
        return self._run_entries(ir, pipeline, observer, [])

    def check(self, pipeline: Entries) -> None:
        """Raise OptionError for an unknown pass or option, before anything runs."""
        if not isinstance(pipeline, tuple | list):
            raise OptionError(f"{self._argument}={described(pipeline)}: {self._wanted}")
        for entry in pipeline:
            if not isinstance(entry, Repeat):
                self._check_step(as_step(entry), entry)
            elif isinstance(entry.limit, int):
                self.check(entry.steps)
            else:
                raise OptionError(f"{self._argument}: entry {entry!s:.80}: {self._wanted}")

    def with_options(self, pipeline: Entries, options: Mapping[str, Any]) -> Entries:
        """Return *pipeline* with each pass given those of *options* that it has.

        Options that a Step, or a ``functools.partial``, sets itself stay.

        Raises:
            OptionError: *pipeline* is none.
        """
        self.check(pipeline)
        return tuple(self._with_options(entry, options) for entry in pipeline)

    def _with_options(self, entry: Entry, options: Mapping[str, Any]) -> Entry:
        if isinstance(entry, Repeat):
            return replace(entry, steps=self.with_options(entry.steps, options))
        step = as_step(entry)
        known = _open_options(self._pass_of(step))
        taken = {name: value for name, value in options.items() if name in known}
        return replace(step, options={**taken, **step.options})

    @property
    def _wanted(self) -> str:
        kind = self.passes.kind
        return f"give a tuple of names of {kind}es, functions, Steps and Repeats"

    def _check_step(self, step: Step, entry: Entry) -> None:
        is_pass = isinstance(step.name, str) or (
            callable(step.name) and not isinstance(step.name, type)
        )
        if not (is_pass and isinstance(step.options, Mapping)):
            raise OptionError(f"{self._argument}: entry {entry!s:.80}: {self._wanted}")
        check_options(f"pass {name_of_step(step)!r}", self._pass_of(step), step.options)

    def _pass_of(self, step: Step) -> Pass[IR]:
        """Return the function of *step*; raise OptionError for a name that is unknown."""
        if not isinstance(step.name, str):
            return step.name
        if step.name in self.passes:
            return self.passes[step.name]
        for other in _REGISTRIES:
            if step.name in other.passes:
                raise OptionError(
                    f"{self._argument}: {step.name!r} is no {self.passes.kind}; give it in "
                    f"{other._argument}=, which takes {other.passes.kind}es"
                )
        kind = self.passes.kind
        hint = closest(step.name, self.passes) or in_groups({f"{kind}es": self.passes})
        raise OptionError(f"unknown {kind} {step.name!r}{hint}")

    def _run_entries(
        self, ir: IR, entries: Entries, observer: Observer | None, done: list[str]
    ) -> IR:
        for entry in entries:
            if isinstance(entry, Repeat):
                ir = self._run_repeat(ir, entry, observer, done)
            else:
                ir = self._run_step(ir, as_step(entry), observer, done)
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
                    changing.append(name_of_step(entry))
                if unchanged == len(repeat.steps):
                    return ir  # each step has had this very IR and left it
        tell(observer, PassRun("repeat", ir, ir, 0.0))
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
        started, name = time.perf_counter(), name_of_step(step)
        report(f"pass {name}")
        earlier = f"after {', '.join(done[-5:])}" if done else "the first to run"
        with foreign(PassError, f"pass {name!r} ({earlier})", ours=True):
            with trial() as notes:
                after = self._pass_of(step)(ir, **step.options)
            if after is not ir:
                keep(notes)
                self._check_kind(ir, after)
                self._verify(after)
        tell(observer, PassRun(name, ir, after, time.perf_counter() - started))
        done.append(name)
        return after

    def _check_kind(self, before: object, after: object) -> None:
        wanted = type(before)
        if not isinstance(after, wanted):
            changed = f"return {self._renewed}; " if self._renewed else ""
            raise GlowError(
                f"it returned {described(after)} and not a {wanted.__name__}; {changed}"
                "a pass that changes nothing returns what it was given"
            )


def _open_options(run: Pass[Any]) -> set[str]:
    """Return the names of the options of *run* that are not bound yet."""
    try:
        parameters = _parameters_of(run)
    except ValueError:  # written in C, without a signature
        return set()
    bound = run.keywords if isinstance(run, partial) else {}
    return {p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY} - bound.keys()


def _parameters_of(run: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of *run*; those of a plain function are found once."""
    if isinstance(run, FunctionType):
        return _parameters_of_function(run)
    return inspect.signature(run).parameters


@lru_cache(maxsize=1024)
def _parameters_of_function(run: FunctionType) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(run).parameters


def check_options(subject: str, run: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise OptionError about the *subject* if *run* has not these *options*, or needs another."""
    known = dict(list(_parameters_of(run).items())[1:])
    for option in options:
        if option not in known:
            raise OptionError(f"{subject} has no option {option!r}{closest(option, known)}")
    for name, parameter in known.items():
        is_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if is_named and parameter.default is parameter.empty and name not in options:
            raise OptionError(f"{subject} needs the option {name!r}")
