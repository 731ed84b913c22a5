"""The interface of a backend: kernels and their traits, passes, and how a program runs.

No level above depends on a certain backend.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from glow_nb.base.kernel_report import KernelReport
from glow_nb.base.machine_limits import MachineLimits
from glow_nb.base.precision import FULL, Precision
from glow_nb.base.steps import Entries, Step
from glow_nb.base.types import Array
from glow_nb.compiler.pipelines import INSTRUCTIONS
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.lower import lower
from glow_nb.llir.kernel_table import KernelTable
from glow_nb.llir.program import Instruction, Program
from glow_nb.llir.traits import Traits
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.codegen.loaded_program import DirectRun


@dataclass(frozen=True)
class Timings:
    """When each kernel of some runs began and ended.

    Attributes:
        stamps: Nanoseconds of one clock, ``int64[runs, threads, kernels, 2]``: begin and end of
            each share of a kernel, zeros where a share has no part in it. There are as many shares
            as threads, but a thread may do several.
        plain_seconds: Wall time of ordinary runs, in turn with the timed ones.
    """

    stamps: npt.NDArray[np.int64]
    plain_seconds: tuple[float, ...]


def kernel_ns(stamps: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return ``[..., kernels]``: how long at least one share of each kernel ran.

    The times of shares that one thread executes in turn are added up; shares that run in parallel
    are counted once.

    Args:
        stamps: ``[..., threads, kernels, 2]``, see :class:`Timings`.
    """
    order = np.argsort(stamps[..., 0], axis=-2)
    begins, ends = (np.take_along_axis(stamps[..., i], order, axis=-2) for i in (0, 1))
    reached = np.maximum.accumulate(ends, axis=-2)  # the last end among the shares so far
    begins[..., 1:, :] = np.maximum(begins[..., 1:, :], reached[..., :-1, :])
    spans: npt.NDArray[np.int64] = np.maximum(ends - begins, 0).sum(axis=-2)
    return spans


class Executable(Protocol):
    """A program that is ready to run."""

    @property
    def kernels(self) -> tuple[KernelReport, ...]:
        """What was generated, one entry an instruction."""
        ...

    @property
    def source(self) -> str:
        """The generated source, to read; empty if nothing is generated."""
        ...

    @property
    def constant_bytes(self) -> int:
        """Memory that holds the weights."""
        ...

    @property
    def scratch_bytes(self) -> int:
        """Working memory of one run, for all threads, beside the arena."""
        ...

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run on contiguous *inputs* in the program's order; return its outputs in order.

        The caller has checked that their kinds and shapes are those of the program's inputs. May be
        called from many threads at once.
        """
        ...


@runtime_checkable
class StatefulExecutable(Protocol):
    """An executable of a program with state."""

    def run_on(self, state: StateStore, inputs: Sequence[Array]) -> list[Array]:
        """Do what :meth:`Executable.run` does, on the arrays that ``state.for_a_run()`` lends.

        The program reads them as the last run has left them, and writes them for the next one.
        """
        ...


@runtime_checkable
class DirectExecutable(Protocol):
    """An executable with a fast path for the usual run of a network without state."""

    def direct_run(self, inputs: Sequence[str], outputs: Sequence[str]) -> DirectRun | None:
        """Return the fast path for inputs and outputs of these names, or None if there is none.

        It takes a dict with one contiguous array for each input. If it returns None,
        :meth:`Executable.run` executes the run, or raises the error about it.
        """
        ...


@runtime_checkable
class BindingExecutable(Protocol):
    """An executable that can write its results to given arrays."""

    def bind(
        self, inputs: Sequence[Array], outputs: Sequence[Array], state: StateStore
    ) -> Callable[[], None]:
        """Return a function that runs on exactly these arrays, and on *state*, at each call.

        All are contiguous, of the types of the program's inputs and outputs, and in its order; the
        outputs can be written, and overlap nothing.
        """
        ...


@runtime_checkable
class WeightHolder(Protocol):
    """An executable that holds its own copy of the weights."""

    @property
    def held_weights(self) -> Mapping[str, Array]:
        """The weights of its program in its own memory, by name, so that other copies can be
        freed.
        """
        ...


@runtime_checkable
class TimedExecutable(Protocol):
    """An executable that can measure the time of each of its kernels."""

    def timings(self, inputs: Sequence[Array], runs: int) -> Timings:
        """Run *runs* times with time stamps, and *runs* times without, on contiguous *inputs*."""
        ...


@runtime_checkable
class LimitedExecutable(Protocol):
    """An executable that knows the peak rates of the machine that it runs on."""

    def limits(self, *, were_beaten: bool = False) -> MachineLimits:
        """Return the machine's rates, measured if need be.

        If they *were_beaten* by a kernel, something else ran while they were measured, and they are
        measured again.
        """
        ...


@runtime_checkable
class Estimator(Protocol):
    """A backend that can estimate the time of kernels before they are made."""

    def estimated_ns(self, instruction: Instruction) -> float:
        """Return the estimated time of *instruction* on one thread, in nanoseconds."""
        ...


@runtime_checkable
class CompiledInSteps(Protocol):
    """An executable that knows how long each step of its compilation took."""

    @property
    def compile_seconds(self) -> Mapping[str, float]:
        """Wall time by step, in order: all of ``Backend.compile``, without a gap."""
        ...


Progress = Callable[[int, int], None]
"""Called with (kernels compiled, kernels in all)."""


_NO_KERNELS = KernelTable("backend's")


class Backend(Protocol):
    """A target that executes programs (paper 3.4 and 5).

    A derived class must define ``name`` and ``compile``. The other members are by default those of
    a backend without kernels of its own: every operator is lowered, and no kernel has traits.
    """

    left_out: Collection[str] = ()
    """Passes that are left out of all compilations for it (``compile(without=...)``)."""

    precision: Precision = FULL
    """What factors of products of float32 are rounded to (``compile(precision=...)``)."""

    keep: Collection[str] = ()
    """Names and globs of layers that stay float32."""

    @property
    def name(self) -> str:
        """The name in ``compile(backend=...)``."""
        ...

    @property
    def kernels(self) -> KernelTable:
        """The generators of its kernels, and the kernels' traits; operators with a kernel are not
        lowered.

        By default empty. A class with kernels has a table of its own, ``KernelTable("mine")``.
        """
        return _NO_KERNELS

    @property
    def traits(self) -> Traits:
        """The traits of its kernels; instruction passes get them as their option ``traits``."""
        return self.kernels.traits

    @property
    def replaced(self) -> tuple[type[Node], ...]:
        """Operators that :attr:`graph_pipeline` replaces by ones with kernels; never lowered."""
        return ()

    @property
    def early_pipeline(self) -> Entries:
        """Graph passes of this backend, run before lowering, which leaves no quantized types."""
        return ()

    @property
    def graph_pipeline(self) -> Entries:
        """Graph passes of this backend, run after those that follow lowering.

        By default, operators without a kernel that these passes have emitted are lowered again.
        """
        return (Step(lower, {"should_lower": self.should_lower}),)

    @property
    def program_pipeline(self) -> Entries:
        """Instruction passes, run before allocation unless the user gives others."""
        return INSTRUCTIONS

    @property
    def late_pipeline(self) -> Entries:
        """Instruction passes of this backend, run after all others, whatever the user gives."""
        return ()

    @property
    def compile_steps(self) -> Mapping[str, str]:
        """The steps of :meth:`compile` in order, with one line about each.

        These are the names of :attr:`CompiledInSteps.compile_seconds`.
        """
        return {"compile": "Make the program run."}

    def should_lower(self, node: Node) -> bool:
        """True for an operator without a kernel.

        One kernel computes what several lowered nodes would compute. A backend whose kernel does
        not take every operand may override this.
        """
        return not (isinstance(node, self.replaced) or self.kernels.has_kernel(type(node)))

    def compile(self, program: Program, *, threads: int) -> Executable:
        """Make an allocated *program* ready to run on *threads* cores."""
        ...


@dataclass(frozen=True)
class PlannedMemory:
    """The memory of a program besides its arena, its state, and the arrays that the caller binds.

    Attributes:
        constant_bytes: Memory of the weights.
        scratch_bytes: Working memory of one run, for all threads.
    """

    constant_bytes: int
    scratch_bytes: int = 0


@runtime_checkable
class MemoryPlanner(Protocol):
    """A backend that knows the memory of a program before it compiles it.

    For other backends, a program is assumed to need its weights as they are, and no scratch.
    """

    def planned_memory(self, program: Program, *, threads: int) -> PlannedMemory:
        """Return the memory that the executable of an allocated *program* for *threads* cores
        needs.
        """
        ...


@runtime_checkable
class VariantBackend(Protocol):
    """A backend that compiles better if it knows that several programs belong to one network."""

    def for_variants(self) -> Backend:
        """Return a backend for the programs of one network, compiled for several sets of sizes."""
        ...


@runtime_checkable
class ModuleBackend(Protocol):
    """A backend some of whose options name layers, each of which may be in only one function of a
    model.
    """

    def for_functions(self, functions: Sequence[Function] | None, passes: Entries = ()) -> Backend:
        """Return a backend for the functions of one model, before any is compiled.

        Args:
            functions: All of them; None for functions that need not have the layers, since others
                have them.
            passes: The passes and steps that the graph of each function goes through.

        Raises:
            OptionError: An option names a layer that none of *functions* has.
        """
        ...
