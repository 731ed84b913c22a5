"""From calls of kernels to a native program: what the cache does not have is compiled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from glow_nb.base.dot_instruction import MATRIX_REGISTERS, uses_matrix_registers
from glow_nb.base.errors import CompileError, OptionError
from glow_nb.base.kernel_report import KernelReport
from glow_nb.base.size import symbols_of
from glow_nb.base.stopwatch import Stopwatch
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.codegen.cache import ObjectCache, object_key
from glow_nb.codegen.clock import STAMP_SYMBOL, compile_clock
from glow_nb.codegen.compile_runtime import compile_runtime
from glow_nb.codegen.debugging.debug_files import DebugFiles
from glow_nb.codegen.entry import Call, generate_entry
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.codegen.open_sizes import OpenSizes
from glow_nb.codegen.pool import compile_objects
from glow_nb.codegen.program_memory import ProgramMemory
from glow_nb.codegen.run_layout import Binding, InitialState, OutputBinding
from glow_nb.codegen.runtime import RUNTIME
from glow_nb.codegen.translate import compile_entry
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource


def make_native_program(
    calls: Sequence[Call],
    memory: ProgramMemory,
    inputs: Sequence[Binding],
    outputs: Sequence[OutputBinding],
    *,
    threads: int = 1,
    target: Target | None = None,
    kernels: Sequence[KernelReport] = (),
    state: Sequence[InitialState] = (),
    stamped: bool = False,
    open: OpenSizes | None = None,
    debug: DebugFiles | None = None,
    cache: ObjectCache | None = None,
    workers: int | None = None,
    stopwatch: Stopwatch | None = None,
) -> NativeProgram:
    """Return the program that makes *calls* in order; compile what the cache does not have.

    Args:
        calls: Kernels with their operands.
        memory: Constants and arena. The constants are referred to, not copied.
        inputs: The inputs of a run, in the order of its arguments.
        outputs: What a run writes, likewise. Regions name bindings by their index among the
            borrowed blocks of *memory*, the *state*, the *inputs* and the *outputs*.
        threads: Threads that share each kernel that is not one thread's alone.
        target: Processor, by default this one.
        kernels: The instruction of each call.
        state: The state, which the last run has left for a run.
        stamped: Whether a run takes the time of each call: one more output, ``int64[threads, calls,
            2]``, with begin and end of each thread's share in nanoseconds.
        open: The sizes that inputs tell, if some are open. The array of sizes and the windows are
            bound between the *state* and the *inputs*.
        debug: Debug information of the calls.
        cache: Where objects are kept, by default the user's.
        workers: Compile processes; None chooses.
        stopwatch: Called at the end of each step.

    Raises:
        CompileError: A kernel does not compile, or a region lies outside of its memory.
        OptionError: *threads* is less than one.
    """
    if threads < 1:
        raise OptionError(f"threads={threads}: there must be at least one")
    bound = [(block.nbytes, False) for block in memory.borrowed]
    bound += [(binding.type.size_bytes, True) for binding in state]
    bound += [(binding.type.size_bytes, False) for binding in inputs]
    bound += [(binding.type.size_bytes, True) for binding in outputs]
    if open is None:
        _check_regions(calls, memory, bound)
    target, cache = target or Target.host(), cache or ObjectCache()
    stopwatch = stopwatch or Stopwatch()
    sources = [call.source for call in calls]
    objects = compile_objects(sources, target, cache=cache, workers=workers)
    stopwatch.lap("compile_kernels")
    behind = 0 if open is None else 1 + len(open.windows)
    scratch = None
    if open is not None and symbols_of(*open.scratch_bytes):
        scratch = len(memory.borrowed) + len(state), len(open.words)
    entry = generate_entry(calls, threads, len(bound) + behind if stamped else None, (), scratch)
    stopwatch.lap("generate_source")
    lines = debug.lines if debug else None
    for symbol, key, make in (
        (RUNTIME, object_key("", "runtime", target), partial(compile_runtime, target)),
        (
            entry.symbol,
            object_key(entry.text, "entry" if lines is None else f"entry of {lines}", target),
            partial(compile_entry, entry, target, lines),
        ),
    ):
        objects[symbol] = cache.load_or_make(symbol, key, make)
    if stamped:
        objects[STAMP_SYMBOL] = compile_clock(target)
        times = TensorType(ElementKind.INT64, (entry.threads, len(calls), 2))
        outputs = [*outputs, OutputBinding(times, STAMP_SYMBOL)]
    stopwatch.lap("compile_kernels")
    return NativeProgram(
        entry=entry,
        objects=objects,
        memory=memory,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        target=target,
        kernels=tuple(kernels),
        state=tuple(state),
        open=open,
        uses_tiles=_use_tiles(sources, target),
        debug=debug,
    )


def _use_tiles(sources: Iterable[KernelSource], target: Target) -> bool:
    """Return whether code of *sources* for *target* uses the tile registers of AMX."""
    has_tiles = MATRIX_REGISTERS in target.instruction_sets
    return has_tiles and any(uses_matrix_registers(source.text) for source in sources)


def _check_regions(
    calls: Sequence[Call], memory: ProgramMemory, bound: Sequence[tuple[int, bool]]
) -> None:
    """Raise CompileError if a region reaches outside its memory, or writes to an input.

    Of what is bound, size and whether it may be written are given.
    """
    sizes = {"constants": memory.constants.nbytes, "arena": memory.arena_bytes}
    for number, call in enumerate(calls):
        for region in call.operands:
            where = f"call {number} of {call.source.symbol}: {region}"
            if region.space == "binding":
                if region.binding >= len(bound):
                    raise CompileError(f"{where}: there are {len(bound)} bindings")
                size, is_output = bound[region.binding]
                if region.mode != "in" and not is_output:
                    raise CompileError(f"{where}: writes to an input")
            else:
                size = sizes[region.space]
            if region.offset_bytes + region.size_bytes > size:
                raise CompileError(f"{where}: reaches beyond {size} bytes")
