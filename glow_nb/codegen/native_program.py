"""A compiled program as data: machine code, the layout of its memory, and what it is made of.

``make_native_program`` makes it, which takes a compiler; ``load_native.load`` makes it run. To
write, read and load one needs llvmlite, but neither numba nor the graph level.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from typing_extensions import override

from glow_nb.base.alignment import ALIGNMENT, Bytes, aligned_empty
from glow_nb.base.errors import CompileError, GlowError
from glow_nb.base.kernel_report import KernelReport
from glow_nb.base.plain_data import from_plain, to_plain
from glow_nb.base.types import Array
from glow_nb.base.version import __version__
from glow_nb.codegen.container import read_container, write_container
from glow_nb.codegen.debugging.debug_files import DebugFiles
from glow_nb.codegen.entry import EntrySource
from glow_nb.codegen.open_sizes import OpenSizes
from glow_nb.codegen.program_memory import PlacedWeight, ProgramMemory
from glow_nb.codegen.run_layout import Binding, InitialState, OutputBinding, RunLayout
from glow_nb.codegen.runtime import RUNTIME, RUNTIME_DIGEST
from glow_nb.codegen.written_sizes import open_from_plain, open_to_plain
from glow_nb.kernels.target import Target

FORMAT = "glow_nb native program 4"
"""What is written of a program says this; another layout of it says another number."""

_BLOCK, _STATE, _OBJECT = "constants.", "state.", "object."
"""How the names of pieces begin: blocks of constants and states by their number, objects by their
symbol."""


@dataclass(frozen=True, eq=False)
class NativeProgram:
    """All that is needed to run a program on processors like its target.

    Attributes:
        entry: The generated function that calls the kernels in order.
        objects: Relocatable objects: kernels and entry by their symbols, and the runtime.
        memory: The constants, and the size of the arena.
        inputs: The inputs of a run, in the order of its arguments.
        outputs: What a run writes, likewise.
        target: The processor that the code is for.
        kernels: The instruction of each call of the entry, in order; without the source of the
            kernel.
        state: The state, which the last run has left for a run.
        open: The sizes that inputs tell, if some are open.
        uses_tiles: Whether its code has instructions on tile registers, for which the process needs
            a right.
        debug: Debug information, if the objects have any; it is not written
            with the program.
    """

    entry: EntrySource
    objects: Mapping[str, bytes] = field(repr=False)
    memory: ProgramMemory
    inputs: tuple[Binding, ...]
    outputs: tuple[OutputBinding, ...]
    target: Target
    kernels: tuple[KernelReport, ...] = ()
    state: tuple[InitialState, ...] = ()
    open: OpenSizes | None = None
    uses_tiles: bool = False
    debug: DebugFiles | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        lines = len(self.entry.text.splitlines())  # a phase takes one or more
        if not 1 <= self.entry.phases <= lines:
            raise CompileError(
                f"the entry has {self.entry.phases} phases; there must be 1 to {lines}, the number "
                "of lines of its text"
            )
        called = {kernel.symbol for kernel in self.kernels}
        absent = sorted({self.entry.symbol, RUNTIME, *called} - set(self.objects))
        if absent:
            raise CompileError(f"objects: there is none of {', '.join(absent)}")
        _ = self.layout  # which checks itself

    @cached_property
    def layout(self) -> RunLayout:
        """The memory of a run."""
        entry = self.entry
        return RunLayout(
            symbol=entry.symbol,
            threads=entry.threads,
            phases=entry.phases,
            thread_scratch_bytes=entry.scratch_bytes,
            memory=self.memory,
            inputs=self.inputs,
            outputs=self.outputs,
            state=self.state,
            open=self.open,
        )

    @property
    def threads(self) -> int:
        """Threads that work on one run."""
        return self.layout.threads

    @property
    def scratch_bytes(self) -> int:
        """Working memory of the kernels in one run, for all threads."""
        return self.layout.scratch_bytes

    def to_bytes(self) -> bytes:
        """Return all of this as bytes, the constants among them: a file in the safetensors layout.

        :meth:`from_bytes` reads it, in another process or on another machine with such a processor.
        """
        manifest = _Manifest(
            entry=self.entry,
            arena_bytes=self.memory.arena_bytes,
            weights=self.memory.weights,
            inputs=self.inputs,
            outputs=self.outputs,
            target=self.target,
            kernels=self.kernels,
            state=tuple(Binding(s.type, s.name) for s in self.state),
            uses_tiles=self.uses_tiles,
        )
        texts = {
            "format": FORMAT,
            "glow_nb": __version__,
            "runtime": RUNTIME_DIGEST,
            "program": json.dumps(to_plain(manifest)),
            "open": json.dumps(self.open and open_to_plain(self.open)),
        }
        blocks = {f"{_BLOCK}{index}": block.data for index, block in enumerate(self.memory.blocks)}
        objects = {_OBJECT + symbol: payload for symbol, payload in self.objects.items()}
        state = {f"{_STATE}{index}": _bytes_of(s.array) for index, s in enumerate(self.state)}
        return write_container(texts, {**blocks, **state, **objects})

    @classmethod
    def from_bytes(cls, content: bytes | bytearray | memoryview) -> NativeProgram:
        """Return the program that :meth:`to_bytes` wrote.

        Reading runs no code, but what is read is a program: run it only if you would run one from
        the same place. Constants stay where they are in *content* if that begins at a multiple of
        64 bytes, as a file does that is mapped into memory; otherwise they are copied.

        Raises:
            CompileError: The content is damaged, of another format, or made by a version of glow_nb
                whose threads work differently.
        """
        try:
            return _read(content)
        except GlowError as error:
            raise CompileError(f"native program: {error}") from error

    @override
    def __repr__(self) -> str:
        code = sum(map(len, self.objects.values()))
        return (
            f"<NativeProgram of {len(self.objects)} objects, {code} bytes, for {self.target.cpu}, "
            f"threads {self.threads}, {self.memory!r}>"
        )


@dataclass(frozen=True)
class _Manifest:
    """The data of a program besides its objects and blocks of constants."""

    entry: EntrySource
    arena_bytes: int
    weights: tuple[PlacedWeight, ...]
    inputs: tuple[Binding, ...]
    outputs: tuple[OutputBinding, ...]
    target: Target
    kernels: tuple[KernelReport, ...]
    state: tuple[Binding, ...]
    uses_tiles: bool


def _read(content: bytes | bytearray | memoryview) -> NativeProgram:
    texts, pieces = read_container(content)
    if texts.get("format") != FORMAT:
        raise CompileError(
            f"its format is {texts.get('format')!r:.40}, this version of glow_nb reads {FORMAT!r}; "
            "compile the model again"
        )
    if texts.get("runtime") != RUNTIME_DIGEST:
        raise CompileError(
            f"glow_nb {texts.get('glow_nb')!s:.40} made it, whose threads work otherwise than "
            f"those of this version, {__version__}; compile the model again"
        )
    try:
        plain = json.loads(texts.get("program", ""))
        plain_open = json.loads(texts.get("open", ""))
    except (ValueError, RecursionError) as error:
        raise CompileError(f"its description is not JSON: {error}") from error
    opened, read_size = None, None
    if plain_open is not None:
        opened, sizes = open_from_plain(plain_open)
        read_size = sizes.read
    manifest = from_plain(_Manifest, plain, "description", read_size)
    found = [name for name in pieces if name.startswith(_BLOCK)]
    numbered = [f"{_BLOCK}{number}" for number in range(len(found))]
    if not found or set(found) != set(numbered):
        raise CompileError(f"its blocks of constants are {found!s:.200}, not numbered from 0")
    blocks = [_aligned(pieces[name]) for name in numbered]
    objects = {
        name.removeprefix(_OBJECT): bytes(piece)
        for name, piece in pieces.items()
        if name.startswith(_OBJECT)
    }
    return NativeProgram(
        entry=manifest.entry,
        objects=objects,
        memory=ProgramMemory(manifest.arena_bytes, blocks[0], tuple(blocks[1:]), manifest.weights),
        inputs=manifest.inputs,
        outputs=manifest.outputs,
        target=manifest.target,
        kernels=manifest.kernels,
        state=tuple(
            InitialState(b.type, b.name, array=_state_array(b, pieces.get(f"{_STATE}{index}")))
            for index, b in enumerate(manifest.state)
        ),
        open=opened,
        uses_tiles=manifest.uses_tiles,
    )


def _bytes_of(array: Array) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _state_array(binding: Binding, piece: memoryview | None) -> Array:
    """Return the value of a state before the first run; raise CompileError if it is not there."""
    found = 0 if piece is None else piece.nbytes
    if piece is None or found != binding.type.size_bytes:
        raise CompileError(
            f"state {binding.name!r}: {found} bytes of its value before the first run, "
            f"{binding.type} takes {binding.type.size_bytes}"
        )
    array: Array = np.asarray(piece).view(binding.type.kind.dtype).reshape(binding.type.shape)
    return array


def _aligned(piece: memoryview) -> Bytes:
    """Return *piece* where it lies, or in memory of its own if it is not aligned there."""
    lying: Bytes = np.asarray(piece)
    if lying.ctypes.data % ALIGNMENT == 0:
        return lying
    block = aligned_empty(lying.nbytes)
    block[:] = lying
    return block
