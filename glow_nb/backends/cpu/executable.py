"""A program on the cpu backend: its native program, loaded, and its reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from glow_nb.backends.backend import Timings
from glow_nb.backends.cpu.annotated_source import Use, annotated_entry, annotated_kernel
from glow_nb.backends.cpu.constant_block import ConstantBlock, Placed
from glow_nb.backends.cpu.debug_files import debug_files, kernel_nodes, with_debug_info
from glow_nb.backends.cpu.kernel_estimate import estimated_ns
from glow_nb.backends.cpu.planned_calls import Kernels, places_of, plan_calls, used_weights
from glow_nb.backends.cpu.shared_weights import SharedWeights
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.kernel_report import KernelReport
from glow_nb.base.machine_limits import MachineLimits
from glow_nb.base.override import override
from glow_nb.base.progress import report
from glow_nb.base.size import Guard
from glow_nb.base.stopwatch import Stopwatch
from glow_nb.base.types import Array
from glow_nb.codegen.cache import ObjectCache
from glow_nb.codegen.debugging.debug_folder import CODE, write_debug_folder
from glow_nb.codegen.debugging.perf import tell_perf
from glow_nb.codegen.load_native import load
from glow_nb.codegen.loaded_program import DirectRun, LoadedProgram
from glow_nb.codegen.loaded_runs import LoadedRuns
from glow_nb.codegen.make_native_program import make_native_program
from glow_nb.codegen.open_program import Shapes
from glow_nb.codegen.program_memory import ProgramMemory
from glow_nb.codegen.run_layout import Binding, InitialState, OutputBinding
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.program import Bound, Buffer, Program
from glow_nb.llir.with_sizes import instruction_at_hints, is_open
from glow_nb.system.state_store import StateStore


class CpuExecutable(LoadedRuns):
    """An allocated program as machine code.

    Attributes:
        native: The program as data.
        constant_bytes: Memory of the weights, of those that other programs hold, too.
        scratch_bytes: Working memory of one run, for all threads, beside the arena.
        compile_seconds: Wall time of the steps of its making, in order and without a gap.
    """

    def __init__(
        self,
        program: Program,
        target: Target,
        *,
        threads: int,
        shared: SharedWeights | None = None,
        placed: ProgramMemory | None = None,
        loads: bool = True,
        debug: bool = False,
    ) -> None:
        """Generate, compile (or fetch from the cache) and load the kernels of *program*.

        Weights that are among the *shared* ones are read there; others join them. If all are
        *placed* already, they stay where they are. What does not load now, as it may be for another
        processor, does when it is run. With *debug*, what a debugger reads is written then.
        """
        if debug and is_open(program):
            raise UnsupportedError(
                f"debug=True: program {program.name!r} has open sizes, for which there is no debug "
                "information; compile it for some sizes, shapes={...}"
            )
        stopwatch, self._threads = Stopwatch(), threads
        weights = used_weights(program)
        constants = ConstantBlock(weights, shared) if placed is None else Placed(weights, placed)
        # Not the block itself: it knows the weights as the model has them, which are to be freed.
        self._held, self.constant_bytes = constants.held, constants.size_bytes
        memory = constants.memory(program.arena.size_bytes if program.arena else 0)
        places = places_of(program, constants.places, len(memory.borrowed))
        stopwatch.lap("fill_constants")
        with constants.being_filled():  # while the kernels are written
            report("writing the kernels")
            planned = plan_calls(program, places, Kernels(target), threads)
            self._uses, self._calls = planned.uses(), planned.calls
            aligned = planned.aligned()
            files = None
            if debug:
                self._calls = with_debug_info(planned.calls)
                files = debug_files(program, planned.work, self._calls, self._uses)
            reports = planned.reports(self._uses)
            stopwatch.lap("generate_source")
        stopwatch.lap("fill_constants")
        self._cache = ObjectCache()
        self.native = make_native_program(
            self._calls,
            memory,
            [Binding(b.type, b.name, is_aligned=b in aligned) for b in program.inputs],
            _outputs(program, aligned),
            threads=planned.threads,
            target=target,
            kernels=reports,
            state=[InitialState(s.type, s.name, array=s.array) for s in program.state],
            open=planned.open,
            debug=files,
            cache=self._cache,
            stopwatch=stopwatch,
        )
        self._loads = loads
        if loads:
            _ = self._loaded
        stopwatch.lap("load_code")
        self.compile_seconds = stopwatch.seconds
        self.scratch_bytes = self.native.scratch_bytes

    @cached_property
    @override
    def _loaded(self) -> LoadedProgram:
        folder = self.debug_folder
        if folder is not None:
            return load(self.native, folder / CODE)  # a file, from which perf reads the names, too
        loaded = load(self.native)
        tell_perf(loaded.code, self.native.objects, kernel_nodes(self._calls, self._uses))
        return loaded

    @cached_property
    def debug_folder(self) -> Path | None:
        """The folder that a debugger reads, if it was requested."""
        return None if self.native.debug is None else write_debug_folder(self.native)

    @property
    @override
    def guards(self) -> tuple[Guard, ...]:
        return self.native.open.guards if self.native.open else ()

    @property
    def held_weights(self) -> Mapping[str, Array]:
        """The weights by name, where the kernels read them."""
        return self.native.memory.arrays

    @cached_property
    def kernels(self) -> tuple[KernelReport, ...]:
        """What was generated for each instruction; source and estimate are made when asked for."""
        return tuple(
            replace(
                report,
                source=annotated_kernel(call.source, [use]),
                estimated_ns=estimated_ns(
                    instruction_at_hints(use.instruction), self.native.target
                ),
            )
            for report, call, use in zip(self.native.kernels, self._calls, self._uses, strict=True)
        )

    @property
    def source(self) -> str:
        """The entry and every kernel once, with comments, and what the kernels call explained."""
        from glow_nb.simd.glossary import glossary  # loads numba

        kernels: dict[KernelSource, list[Use]] = {}
        for call, use in zip(self._calls, self._uses, strict=True):
            kernels.setdefault(call.source, []).append(use)
        texts = [annotated_kernel(source, uses) for source, uses in kernels.items()]
        functions = glossary("\n".join(source.text for source in kernels))
        entry = annotated_entry(self._calls, self._uses, self.native.threads)
        return "\n".join([entry, *texts, f"# The functions that kernels call:\n{functions}"])

    @override
    def direct_run(self, inputs: Sequence[str], outputs: Sequence[str]) -> DirectRun | None:
        return super().direct_run(inputs, outputs) if self._loads else None

    @override
    def notify_hot(self, after: int, notice: Callable[[Shapes], None]) -> None:
        if self._loads:
            super().notify_hot(after, notice)

    def for_program(self, program: Program) -> CpuExecutable:
        """Return another *program* with the same weights, which are read where they lie."""
        target, memory = self.native.target, self.native.memory
        return CpuExecutable(program, target, threads=self._threads, placed=memory)

    def limits(self, *, were_beaten: bool = False) -> MachineLimits:
        """Return the peak rates of this machine with as many threads as were asked for."""
        from glow_nb.codegen.measure_limits import limits_that_were_beaten, machine_limits

        measure = limits_that_were_beaten if were_beaten else machine_limits
        return measure(self._threads)

    def timings(self, inputs: Sequence[Array], runs: int) -> Timings:
        """Run in turn an entry with time stamps and the ordinary one, *runs* times each.

        Both entries call the same kernels on the same constants; the first round is not counted.
        Each has states of its own, which begin as before the first run.
        """
        stamped = self.stamped_run(inputs)
        outputs, state = self.run(inputs), StateStore(self.native.state)
        stamps, seconds = [], []
        for _ in range(runs + 1):
            stamps.append(stamped())
            began = time.perf_counter()
            self._loaded.run_into(inputs, outputs, state)
            seconds.append(time.perf_counter() - began)
        return Timings(np.stack(stamps[1:]), tuple(seconds[1:]))

    def stamped_run(self, inputs: Sequence[Array]) -> Callable[[], npt.NDArray[np.int64]]:
        """Return a function that runs on *inputs* and returns the time stamps of the kernels.

        They are ``int64[threads, kernels, 2]``: begin and end in nanoseconds, zeros where a
        share has no part in a kernel.
        """
        plain = self.native
        stamped = make_native_program(
            self._calls,
            plain.memory,
            plain.inputs,
            plain.outputs,
            threads=plain.threads,
            target=plain.target,
            kernels=plain.kernels,
            state=plain.state,
            open=plain.open,
            stamped=True,
            cache=self._cache,
        )
        loaded = load(stamped)
        *outputs, _ = loaded.new_outputs(inputs)
        state = StateStore(stamped.state)

        def run() -> npt.NDArray[np.int64]:
            stamps = np.zeros(stamped.outputs[-1].type.shape, np.int64)
            loaded.run_into(inputs, [*outputs, stamps], state)
            return stamps

        return run


def _outputs(program: Program, aligned: Collection[Buffer]) -> list[OutputBinding]:
    """Return what a run writes; an output may be an input as well.

    Those that are *aligned* begin on cache lines if a run makes them.
    """
    fed: dict[Bound, int] = {buffer: place for place, buffer in enumerate(program.inputs)}
    return [
        OutputBinding(b.type, b.name, fed.get(b), b.counted, is_aligned=b in aligned)
        for b in program.outputs
    ]
