"""Compiling a part, or a whole network, for a device."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from glow_nb.backends import Backend, backend_named
from glow_nb.backends.backend import Executable, MemoryPlanner, PlannedMemory
from glow_nb.base.guards import Guard
from glow_nb.base.memory_limit import within_memory
from glow_nb.base.progress import shown
from glow_nb.base.text import format_name
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.hlir.graph import Function
from glow_nb.hlir.kept_names import require_kept
from glow_nb.llir.order_placement import program_at_hints
from glow_nb.llir.program import Program
from glow_nb.llir.with_sizes import guards_of
from glow_nb.network.compilation import (
    build_program,
    code_of,
    leaving_out,
    lower_for,
    make_executable,
)
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.planning.partitioning import Part


@runtime_checkable
class NativeExecutable(Protocol):
    """An executable that is a native program, which other processes can load."""

    @property
    def native(self) -> NativeProgram:
        """The program as data."""
        ...


def backend_of(device: DeviceDescription) -> Backend:
    """Return the backend that compiles for *device*; raise OptionError if there is none."""
    named = backend_named(
        device.backend,
        threads=device.cores,
        options={"precision": device.precision, "keep": sorted(device.keep)},
    )
    return leaving_out(named, device.without)


def compile_part(part: Part | Function, device: DeviceDescription) -> Deployable:
    """Return *part*, or a whole network, compiled for *device*.

    A part without machine code, such as one for the interpreter, stays a program.

    Raises:
        OptionError: There is no backend of the device's name.
        PassError: A pass failed.
        CompileError: No machine code could be made.
        MemoryLimitError: A run needs more memory than this process may have.
    """
    backend = backend_of(device)
    with shown(f"compiling {format_name(part.name)}"), within_memory("compile"):
        if isinstance(part, Part):
            program = part.program
        else:
            require_kept([part], backend.keep)
            program = build_program(lower_for(part, backend), backend)
        made = make_executable(program, backend, threads=device.cores)
    memory = PlannedMemory(made.constant_bytes, made.scratch_bytes)
    constant_bytes, run_bytes = memory_of(program_at_hints(program), memory)
    return Deployable(
        name=part.name,
        inputs=tuple((buffer.name, buffer.type) for buffer in program.inputs),
        outputs=tuple((buffer.name, buffer.type) for buffer in program.outputs),
        program=made.native if isinstance(made, NativeExecutable) else program,
        constant_bytes=constant_bytes,
        run_bytes=run_bytes,
        guards=_guards_of(made, program),
    )


def _guards_of(made: Executable, program: Program) -> tuple[Guard, ...]:
    """Return the comparisons of sizes for which *made*, the code of *program*, is right."""
    opened = made.native.open if isinstance(made, NativeExecutable) else None
    return tuple(guards_of(program)) if opened is None else opened.guards


def planned_memory(program: Program, backend: Backend, cores: int) -> tuple[int, int]:
    """Return the bytes that *program* holds, and those of one run, without compiling it."""
    return memory_of(program, memory_beside(program, backend, cores))


def memory_beside(program: Program, backend: Backend, cores: int) -> PlannedMemory:
    """Return the memory of *program* besides its arena, its states and bindings."""
    if not isinstance(backend, MemoryPlanner):
        return PlannedMemory(sum(weight.type.size_bytes for weight in program.weights))
    with code_of(backend, "planned_memory"):
        return backend.planned_memory(program, threads=cores)


def memory_of(program: Program, memory: PlannedMemory) -> tuple[int, int]:
    """Return the bytes that *program* holds, and those of one run of it.

    It holds weights and states; a run takes arena and scratch, inputs and outputs.
    """
    states = sum(state.type.size_bytes for state in program.state)
    bound = dict.fromkeys((*program.inputs, *program.outputs))
    arena = program.arena.size_bytes if program.arena else 0
    run = arena + memory.scratch_bytes + sum(buffer.type.size_bytes for buffer in bound)
    return memory.constant_bytes + states, run
