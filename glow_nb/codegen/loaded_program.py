"""A native program in this process: linked code, and as many contexts as run at the same time.

Linking needs llvmlite; numba stays out of the process.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from glow_nb.alignment import aligned_empty
from glow_nb.codegen.cores import available_cores
from glow_nb.codegen.loaded_code import LoadedCode
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.codegen.threads import Team
from glow_nb.errors import CompileError, FeedError
from glow_nb.kernels.target import Target
from glow_nb.memory_limit import require_memory
from glow_nb.types import Array, ElementKind, TensorType


def load(native: NativeProgram) -> LoadedProgram:
    """Link the code of *native* into this process, ready to run.

    Raises:
        CompileError: The code is for another processor than this one, or its objects do not fit
            together.
        MemoryLimitError: A run needs more memory than the process may have.
    """
    _require_this_processor(native.target)
    _require_memory(native)
    code = LoadedCode(native.objects.values(), native.target)
    code.address(native.entry.symbol)  # raises if no object defines it
    return LoadedProgram(native, code)


def _require_memory(native: NativeProgram) -> None:
    bindings = (*native.inputs, *native.outputs)
    tensors = [(f"{b.name} : {b.type}", b.type.size_bytes) for b in bindings]
    parts = {
        "arena": native.memory.arena_bytes,
        "scratch": native.scratch_bytes,
        "constants": sum(block.nbytes for block in native.memory.blocks),
        "inputs and outputs": sum(size for _, size in tensors),
    }
    require_memory("native program", parts, tensors)


def _require_this_processor(target: Target) -> None:
    """Raise CompileError unless code for *target* runs here."""
    host = Target.host()
    if target.triple != host.triple:
        raise CompileError(
            f"native program: it is for {target.triple}, this machine is {host.triple}; compile "
            "the model again on this machine"
        )
    absent = sorted(target.enabled_features - host.enabled_features)
    if absent:
        raise CompileError(
            f"native program: it is for the processor {target.cpu}, this one, {host.cpu}, is "
            f"without {', '.join(absent)}; compile the model again on this machine"
        )


class LoadedProgram:
    """Machine code in memory, ready to run on given arrays.

    It may be run from any number of Python threads. Each run in progress has its own context
    (arena, scratch, team of threads); idle contexts are kept, the last used first.
    """

    def __init__(self, native: NativeProgram, code: LoadedCode) -> None:
        """Run *native* by its linked *code*; :func:`load` makes both fit."""
        self.native, self.code = native, code
        self._inputs = [(b.type.kind.dtype, b.type.shape) for b in native.inputs]
        self._outputs = [(b.type.kind.dtype, b.type.shape, b.fed_by) for b in native.outputs]
        self._first_bound = len(native.memory.borrowed)
        self._idle: deque[_Context] = deque(maxlen=available_cores())

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run on *inputs*, in the program's order, and return new output arrays in order.

        Raises:
            FeedError: An input has another shape or dtype, or is not contiguous and aligned.
        """
        self._check_inputs(inputs)
        outputs = self.new_outputs(inputs)
        self._run_on([*inputs, *outputs])
        return outputs

    def run_into(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run on *inputs* and write *outputs*, both in the program's order.

        An output that is an input as well must hold what is fed.

        Raises:
            FeedError: An array has another shape or dtype, is not contiguous and aligned, or is an
                output that cannot be written.
        """
        self._check_inputs(inputs)
        if len(outputs) != len(self._outputs):
            raise FeedError(f"run: {len(outputs)} outputs, the program has {len(self._outputs)}")
        for index, (array, (dtype, shape, _)) in enumerate(
            zip(outputs, self._outputs, strict=True)
        ):
            _check("output", index, array, dtype, shape)
            if not array.flags.writeable:
                raise FeedError(f"output {index}: the array is read-only; give one to write to")
        self._run_on([*inputs, *outputs])

    def new_outputs(self, inputs: Sequence[Array]) -> list[Array]:
        """Return new arrays; one that is an input as well begins as a copy of what is fed."""
        return [
            np.empty(shape, dtype) if fed_by is None else inputs[fed_by].copy()
            for dtype, shape, fed_by in self._outputs
        ]

    def _check_inputs(self, inputs: Sequence[Array]) -> None:
        if len(inputs) != len(self._inputs):
            raise FeedError(f"run: {len(inputs)} inputs, the program has {len(self._inputs)}")
        for index, (array, (dtype, shape)) in enumerate(zip(inputs, self._inputs, strict=True)):
            _check("input", index, array, dtype, shape)

    def _run_on(self, arrays: Sequence[Array]) -> None:
        context = self._take_context()
        for index, array in enumerate(arrays, self._first_bound):
            context.pointers[index] = address_of(array)
        context.team.run()
        self._idle.append(context)  # a full deque drops the one idle for longest

    def _take_context(self) -> _Context:
        process = os.getpid()
        while self._idle:
            try:
                context = self._idle.pop()
            except IndexError:  # another thread took the last one
                break
            if context.process == process:  # otherwise its threads stayed in our parent
                return context
        return _Context(self.native, self.code, process)


def _check(
    role: str, index: int, array: Array, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> None:
    """Raise FeedError unless the entry can work on *array* where it lies."""
    if array.dtype != dtype or array.shape != shape:
        raise FeedError(
            f"{role} {index}: {array.dtype} of shape {array.shape}, the program has "
            f"{TensorType(ElementKind.of(dtype), shape)}"
        )
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        raise FeedError(f"{role} {index}: not contiguous and aligned; make a copy")


def address_of(array: Array) -> int:
    """Return where the elements of a contiguous *array* lie, a microsecond before NumPy does."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))
    except (TypeError, ValueError):  # read-only, empty, or of a kind that buffers do not have
        return array.ctypes.data


class _Context:
    """The memory and the threads of one run at a time."""

    def __init__(self, native: NativeProgram, code: LoadedCode, process: int) -> None:
        self.process = process
        memory, bound = native.memory, len(native.inputs) + len(native.outputs)
        # ctypes has no arrays of length zero that it can take the address of on every version.
        self.pointers = (ctypes.c_void_p * (len(memory.borrowed) + bound))()
        for index, block in enumerate(memory.borrowed):
            self.pointers[index] = block.ctypes.data
        self.team = Team(
            code,
            native.entry,
            constants=memory.constants,
            arena=aligned_empty(memory.arena_bytes),
            bindings=self.pointers,
            scratch=aligned_empty(native.scratch_bytes),
        )
