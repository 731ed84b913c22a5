"""A compiled program: native code, constants, and as many contexts as are run at the same time."""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from glow_nb.codegen.cache import ObjectCache, object_key
from glow_nb.codegen.clock import compile_clock
from glow_nb.codegen.cores import available_cores
from glow_nb.codegen.entry import Call, EntrySource, generate_entry
from glow_nb.codegen.load import LoadedCode
from glow_nb.codegen.pool import compile_objects
from glow_nb.codegen.runtime import RUNTIME, compile_runtime
from glow_nb.codegen.stopwatch import Stopwatch
from glow_nb.codegen.threads import ALIGNMENT, Bytes, Team, aligned_empty
from glow_nb.codegen.translate import compile_entry
from glow_nb.errors import CompileError, FeedError, OptionError
from glow_nb.kernels.target import Target
from glow_nb.types import Array, TensorType


@dataclass(frozen=True)
class Binding:
    """A tensor that the caller of ``run`` provides: an input, or an output to write."""

    type: TensorType
    is_output: bool = False


class Executable:
    """Machine code for a sequence of calls, ready to run on given arrays.

    ``run`` may be called from any number of Python threads. Each run in progress has its own
    context (arena, scratch, team of threads); idle contexts are kept, the last used first.
    """

    def __init__(
        self,
        calls: Sequence[Call],
        constants: Bytes,
        arena_bytes: int,
        bindings: Sequence[Binding],
        *,
        borrowed: Sequence[Bytes] = (),
        threads: int = 1,
        target: Target | None = None,
        cache: ObjectCache | None = None,
        workers: int | None = None,
        progress: bool | None = None,
        stamps: int | None = None,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        """Compile what the cache does not have, and load all of it.

        Args:
            calls: Kernels with their operands, in order.
            constants: All constants, as ``aligned_empty`` memory; kept, not copied.
            arena_bytes: Size of the memory that a run works in.
            bindings: Inputs and outputs, in the order in which ``run`` takes them. Regions name
                them by their index among *borrowed* and *bindings*.
            borrowed: More memory that is only read, constants of another executable; kept.
            threads: Threads that share each kernel.
            target: Processor, by default this one.
            cache: Where objects are kept, by default the user's.
            workers: Compile processes; None chooses.
            progress: Whether to draw a progress bar; None draws it on a terminal.
            stamps: The binding that takes the times of a profiled run, see ``generate_entry``.
            stopwatch: Told the end of each step.
        """
        if threads < 1:
            raise OptionError(f"threads={threads}: there must be at least one")
        _check_regions(calls, constants, arena_bytes, borrowed, bindings)
        target = target or Target.host()
        cache = cache or ObjectCache()
        stopwatch = stopwatch or Stopwatch()
        sources = [call.source for call in calls]
        objects = compile_objects(sources, target, cache=cache, workers=workers, progress=progress)
        stopwatch.lap("compile_kernels")
        self.entry: EntrySource = generate_entry(calls, stamps)
        stopwatch.lap("generate_source")
        self.bindings = tuple(bindings)
        self._expected = tuple((b.type.kind.dtype, b.type.shape, b.is_output) for b in bindings)
        self.threads = threads
        self._constants, self._borrowed = constants, tuple(borrowed)
        self._arena_bytes = arena_bytes
        entry, runtime_key = self.entry, object_key("", "runtime", target)
        entry_key = object_key(entry.text, "entry", target)
        native = [
            cache.load_or_make(RUNTIME, runtime_key, partial(compile_runtime, target)),
            cache.load_or_make(entry.symbol, entry_key, partial(compile_entry, entry, target)),
        ]
        native += [] if stamps is None else [compile_clock(target)]
        stopwatch.lap("compile_kernels")
        self._code = LoadedCode([*native, *objects.values()], target)
        self._idle: deque[_Context] = deque(maxlen=available_cores())
        stopwatch.lap("load_code")

    def run(self, arrays: Sequence[Array]) -> None:
        """Read the inputs and write the outputs among *arrays*, given in the order of the bindings.

        Raises:
            FeedError: An array has another shape or dtype, is not contiguous and aligned, or is an
                output that cannot be written.
        """
        self._check(arrays)
        context = self._take_context()
        for index, array in enumerate(arrays, len(self._borrowed)):
            context.pointers[index] = address_of(array)
        context.team.run()
        self._idle.append(context)  # a full deque drops the one idle for longest

    def _check(self, arrays: Sequence[Array]) -> None:
        if len(arrays) != len(self.bindings):
            raise FeedError(f"run: {len(arrays)} arrays for {len(self.bindings)} bindings")
        for index, (array, (dtype, shape, is_output)) in enumerate(
            zip(arrays, self._expected, strict=True)
        ):
            if array.dtype != dtype or array.shape != shape:
                raise FeedError(
                    f"binding {index}: {array.dtype} of shape {array.shape}, "
                    f"expected {self.bindings[index].type}"
                )
            flags = array.flags
            if not (flags.c_contiguous and flags.aligned):
                raise FeedError(f"binding {index}: not contiguous and aligned; make a copy")
            if is_output and not flags.writeable:
                raise FeedError(f"binding {index}: an output, but the array is read-only")

    def _take_context(self) -> _Context:
        process = os.getpid()
        while self._idle:
            try:
                context = self._idle.pop()
            except IndexError:  # another thread took the last one
                break
            if context.process == process:  # otherwise its threads stayed in our parent
                return context
        return _Context(self, process)


def address_of(array: Array) -> int:
    """Return where the elements of a contiguous *array* lie, a microsecond before NumPy does."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))
    except (TypeError, ValueError):  # read-only, empty, or of a kind that buffers do not have
        return array.ctypes.data


class _Context:
    """The memory and the threads of one run at a time."""

    def __init__(self, executable: Executable, process: int) -> None:
        self.process = process
        # ctypes has no arrays of length zero that it can take the address of on every version.
        borrowed = executable._borrowed
        self.pointers = (ctypes.c_void_p * (len(borrowed) + len(executable.bindings)))()
        for index, block in enumerate(borrowed):
            self.pointers[index] = block.ctypes.data
        self.team = Team(
            executable._code,
            executable.entry.symbol,
            constants=executable._constants,
            arena=aligned_empty(executable._arena_bytes),
            bindings=self.pointers,
            scratch=aligned_empty(executable.threads * executable.entry.scratch_bytes),
            threads=executable.threads,
        )


def _check_regions(
    calls: Sequence[Call],
    constants: Bytes,
    arena_bytes: int,
    borrowed: Sequence[Bytes],
    bindings: Sequence[Binding],
) -> None:
    """Raise CompileError if a region reaches outside its memory, or writes to an input."""
    if any(block.ctypes.data % ALIGNMENT and block.size for block in (constants, *borrowed)):
        raise CompileError(f"constants: not aligned to {ALIGNMENT} bytes; use aligned_empty")
    bound = [(block.nbytes, False) for block in borrowed]
    bound += [(binding.type.size_bytes, binding.is_output) for binding in bindings]
    sizes = {"constants": constants.nbytes, "arena": arena_bytes}
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
