"""A saved program that runs; its graph and program are read at first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from glow_nb.base.override import override
from glow_nb.base.types import Array
from glow_nb.codegen.loaded_program import LoadedProgram
from glow_nb.codegen.loaded_runs import LoadedRuns
from glow_nb.network.levels import Levels

if TYPE_CHECKING:
    from glow_nb.backends.backend import Timings
    from glow_nb.backends.cpu.executable import CpuExecutable
    from glow_nb.base.kernel_report import KernelReport
    from glow_nb.base.machine_limits import MachineLimits
    from glow_nb.codegen.native_program import NativeProgram


class Reopened(NamedTuple):
    """The objects that a saved function was made from.

    Attributes:
        levels: Its graph, program and pipeline.
        executable: The program made once more, on the constants that are mapped.
    """

    levels: Levels
    executable: CpuExecutable


class SavedExecutable(LoadedRuns):
    """A program whose code and constants are mapped from files.

    Attributes:
        constant_bytes: Memory of the weights.
        scratch_bytes: Working memory of one run, for all threads, beside the arena.
    """

    def __init__(
        self, loaded: LoadedProgram, constant_bytes: int, reopen: Callable[[], Reopened]
    ) -> None:
        """Run *loaded*; *reopen* returns its levels and executable."""
        self._program, self._reopen = loaded, reopen
        self.constant_bytes = constant_bytes
        self.scratch_bytes = loaded.layout.scratch_bytes

    @property
    @override
    def _loaded(self) -> LoadedProgram:
        return self._program

    @cached_property
    def whole(self) -> Reopened:
        """The levels, and an executable that knows its kernels; read when first needed."""
        return self._reopen()

    @property
    def native(self) -> NativeProgram:
        """The program as data."""
        return self.whole.executable.native

    @property
    def held_weights(self) -> Mapping[str, Array]:
        """The weights by name, where the kernels read them."""
        return self.whole.executable.held_weights

    @property
    def kernels(self) -> tuple[KernelReport, ...]:
        """What was generated for each instruction."""
        return self.whole.executable.kernels

    @property
    def source(self) -> str:
        """The entry and every kernel once."""
        return self.whole.executable.source

    def limits(self, *, were_beaten: bool = False) -> MachineLimits:
        """Return the peak rates of this machine with the same number of threads."""
        return self.whole.executable.limits(were_beaten=were_beaten)

    def timings(self, inputs: Sequence[Array], runs: int) -> Timings:
        """Run in turn an entry with time stamps and the ordinary one, *runs* times each."""
        return self.whole.executable.timings(inputs, runs)

    def stamped_run(self, inputs: Sequence[Array]) -> Callable[[], npt.NDArray[np.int64]]:
        """Return a function that runs on *inputs* and returns the time stamps of the kernels."""
        return self.whole.executable.stamped_run(inputs)
