"""A program as kernels over constants, arena and bindings: what the cpu backend runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from glow_nb.backends.backend import KernelReport, Timings
from glow_nb.backends.cpu.annotated_source import Use, annotated_entry, annotated_kernel
from glow_nb.backends.cpu.constants import ConstantBlock
from glow_nb.backends.cpu.shared_weights import SharedWeights
from glow_nb.codegen.cache import ObjectCache
from glow_nb.codegen.entry import Call, Region
from glow_nb.codegen.executable import Binding, Executable
from glow_nb.codegen.hazards import AccessMode
from glow_nb.codegen.stopwatch import Stopwatch
from glow_nb.errors import CompileError
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.cost import instruction_cost
from glow_nb.llir.print import print_instruction
from glow_nb.llir.program import (
    Activation,
    Bound,
    Buffer,
    Instruction,
    Program,
    Weight,
    kernel_operands,
    mutated,
    pixel_stride,
    read,
)
from glow_nb.llir.substitute import substitute
from glow_nb.llir.verify import element_interval
from glow_nb.types import Array, ElementKind, TensorType


class CpuExecutable:
    """An allocated program as machine code."""

    def __init__(
        self,
        program: Program,
        target: Target,
        *,
        threads: int,
        shared: SharedWeights | None = None,
    ) -> None:
        """Generate, compile (or fetch from the cache) and load the kernels of *program*.

        Weights that are among the *shared* ones are read there; others join them.
        """
        stopwatch = Stopwatch()
        constants = ConstantBlock(_used_weights(program), shared)
        # Not the block itself: it knows the weights as the model has them, which are to be freed.
        self._constants, self._borrowed = constants.block, constants.borrowed
        self._held, self.constant_bytes = constants.held, constants.size_bytes
        self.held_weights = constants.arrays
        self._inputs, self._outputs = program.inputs, program.outputs
        fed = {buffer: place for place, buffer in enumerate(program.inputs)}
        self._results = [(b.type.shape, b.type.kind.dtype, fed.get(b)) for b in program.outputs]
        self._target, self._threads, self._cache = target, threads, ObjectCache()
        self._arena_bytes = program.arena.size_bytes if program.arena else 0
        bound = enumerate((*program.inputs, *program.outputs), len(constants.borrowed))
        places = _Places(program, constants.places, {buffer: index for index, buffer in bound})
        work = [i for i in program.work if _computes(i)]
        stopwatch.lap("fill_constants")
        with constants.being_filled():  # while the kernels are written
            self._calls = [places.call(instruction, target) for instruction in work]
            self._uses = [Use(*numbered) for numbered in enumerate(_without_numbers(work))]
            stopwatch.lap("generate_source")
        stopwatch.lap("fill_constants")
        self._native = self._make_native(stopwatch=stopwatch)
        self.compile_seconds = stopwatch.seconds
        largest = max((call.source.scratch_bytes for call in self._calls), default=0)
        self.scratch_bytes = threads * largest

    @cached_property
    def kernels(self) -> tuple[KernelReport, ...]:
        """What was generated for each instruction; written when it is asked for."""
        return tuple(map(_report, self._uses, self._calls))

    def _make_native(
        self, *, profiled: bool = False, stopwatch: Stopwatch | None = None
    ) -> Executable:
        """Return the code and its memory; *profiled* adds a binding that takes time stamps."""
        bindings = [
            *(Binding(buffer.type) for buffer in self._inputs),
            *(Binding(buffer.type, is_output=True) for buffer in self._outputs),
        ]
        stamps = len(self._borrowed) + len(bindings) if profiled else None
        if profiled:
            type = TensorType(ElementKind.INT64, (self._threads, len(self._calls), 2))
            bindings.append(Binding(type, is_output=True))
        return Executable(
            self._calls,
            self._constants,
            self._arena_bytes,
            bindings,
            borrowed=self._borrowed,
            threads=self._threads,
            target=self._target,
            cache=self._cache,
            stamps=stamps,
            stopwatch=stopwatch,
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
        entry = annotated_entry(self._calls, self._uses)
        return "\n".join([entry, *texts, f"# The functions that kernels call:\n{functions}"])

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run on contiguous *inputs*; return new output arrays."""
        outputs = self._new_outputs(inputs)
        self._native.run([*inputs, *outputs])
        return outputs

    def _new_outputs(self, inputs: Sequence[Array]) -> list[Array]:
        """Return new arrays; one that is an input as well begins as a copy of what is fed."""
        return [
            np.empty(shape, dtype) if place is None else inputs[place].copy()
            for shape, dtype, place in self._results
        ]

    def timings(self, inputs: Sequence[Array], runs: int) -> Timings:
        """Run in turn an entry with time stamps and the ordinary one, *runs* times each.

        Both entries call the same kernels on the same constants; the first round is not counted.
        """
        stamped = self.stamped_run(inputs)
        outputs = self.run(inputs)
        stamps, seconds = [], []
        for _ in range(runs + 1):
            stamps.append(stamped())
            began = time.perf_counter()
            self._native.run([*inputs, *outputs])
            seconds.append(time.perf_counter() - began)
        return Timings(np.stack(stamps[1:]), tuple(seconds[1:]))

    def stamped_run(self, inputs: Sequence[Array]) -> Callable[[], npt.NDArray[np.int64]]:
        """Return a function that runs on *inputs* and returns the time stamps of the kernels.

        They are ``int64[threads, kernels, 2]``: begin and end in nanoseconds.
        """
        native = self._make_native(profiled=True)
        outputs = self._new_outputs(inputs)

        def run() -> npt.NDArray[np.int64]:
            stamps = np.zeros((self._threads, len(self._calls), 2), np.int64)
            native.run([*inputs, *outputs, stamps])
            return stamps

        return run


def _computes(instruction: Instruction) -> bool:
    """False if there is nothing to write."""
    return any(buffer.type.size for buffer in mutated(instruction))


def _without_numbers(work: list[Instruction]) -> tuple[Instruction, ...]:
    """Return *work* with weights that have name and type alone: the model's own are to be freed."""
    weights = {buffer.root for i in work for buffer in read(i) if isinstance(buffer.root, Weight)}
    return substitute(work, {weight: Weight(weight.name, weight.type) for weight in weights})


def _used_weights(program: Program) -> list[Weight]:
    """Return the weights that instructions read: others take no memory at run time."""
    roots = (buffer.root for i in program.work if _computes(i) for buffer in read(i))
    return [root for root in dict.fromkeys(roots) if isinstance(root, Weight)]


class _Places:
    """Where the buffers of a program lie in memory."""

    def __init__(
        self,
        program: Program,
        constants: dict[Buffer, tuple[int, int]],
        bindings: dict[Bound, int],
    ) -> None:
        self._constants = constants
        self._bindings = bindings
        self._arena = program.arena.offsets if program.arena else {}

    def call(self, instruction: Instruction, target: Target) -> Call:
        """Return the call of the kernel for *instruction*."""
        written = {id(b) for b in mutated(instruction)}
        reads = {id(b) for b in read(instruction)}
        regions = tuple(
            self._region(buffer, _mode(id(buffer) in written, id(buffer) in reads))
            for buffer in kernel_operands(instruction)
        )
        return Call(generate_kernel(instruction, target), regions)

    def _region(self, buffer: Buffer, mode: AccessMode) -> Region:
        kind = buffer.type.kind
        first, last = element_interval(buffer) if buffer.type.size else (buffer.offset, -1)
        size_bytes = max(0, last + 1 - first) * kind.size_bytes
        start, lead = first * kind.size_bytes, (buffer.offset - first) * kind.size_bytes
        run_bytes, pitch_bytes = _runs(buffer)
        region = partial(
            Region,
            kind=kind,
            size_bytes=size_bytes,
            mode=mode,
            lead_bytes=lead,
            run_bytes=run_bytes,
            pitch_bytes=pitch_bytes,
        )
        match buffer.root:
            case Weight() as weight:
                block, offset = self._constants.get(weight, (0, 0))
                if block:
                    return region("binding", offset_bytes=start + offset, binding=block - 1)
                return region("constants", offset_bytes=start + offset)
            case Activation() as activation:
                return region("arena", offset_bytes=start + self._arena[activation])
            case Bound() as bound:
                return region("binding", offset_bytes=start, binding=self._bindings[bound])
        raise CompileError(f"{buffer!r} lies in no region of the program")


def _runs(buffer: Buffer) -> tuple[int, int]:
    """Return the bytes of a pixel and those from pixel to pixel, if others lie between them."""
    pitch = pixel_stride(buffer)
    channels = buffer.type.shape[-1] if buffer.type.shape else 1
    if pitch is None or pitch <= channels:
        return 0, 0
    return channels * buffer.type.kind.size_bytes, pitch * buffer.type.kind.size_bytes


def _mode(written: bool, is_read: bool) -> AccessMode:
    if written:
        return "inout" if is_read else "out"
    return "in"


def _report(use: Use, call: Call) -> KernelReport:
    instruction = use.instruction
    return KernelReport(
        instruction=print_instruction(instruction),
        origin=instruction.name,
        family=call.source.family,
        symbol=call.source.symbol,
        source=annotated_kernel(call.source, [use]),
        scratch_bytes=call.source.scratch_bytes,
        cost=instruction_cost(instruction),
        origins=instruction.imported_names,
    )
