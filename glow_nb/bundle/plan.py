"""The parts of a bundle: its functions in each variant, and their places in memory.

Three blocks of memory are given to each call. *Constants* are read-only: a head that tells whose
they are, the packed weights of each variant, and the first values of states. *Tensors* hold a head
that says which variant works on them, the states, and the inputs and outputs of each function. The
*arena* is working memory, whose content is not kept between two calls.

If sizes are open, the tensors hold after the states what is laid out for those that came last
(:class:`glow_nb.bundle.area.Area`), and then the inputs and outputs, whose places these sizes tell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from glow_nb.base.alignment import ALIGNMENT, Bytes, aligned_bytes
from glow_nb.base.errors import CompileError, UnsupportedError
from glow_nb.base.size import Symbol, symbols_of
from glow_nb.base.types import Array, TensorType
from glow_nb.bundle.area import Area
from glow_nb.bundle.identifiers import function_identifiers
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.codegen.run_layout import Binding
from glow_nb.kernels.target import Target

HEAD_BYTES = ALIGNMENT
"""What lies in front of everything else in constants and tensors."""

IDENTITY_OFFSET = 56
"""Where the identity of a bundle stands in the head of its constants."""

VARIANT_BITS = 8
"""The bits of an identity that are left to say the number of a variant."""

_PAGE_BYTES = 4096
_HEAD_TEXT = b"constants of a glow_nb bundle\n"


@dataclass(frozen=True)
class PlacedTensor:
    """An input, an output or a state.

    Attributes:
        name: Its name in the model.
        type: Its type.
        offset: Offset of its first element in the block of tensors; -1 if it depends on open sizes.
        count: For an output with a data-dependent size: the number of the output that holds the
            size; or -1.
        axis: And the axis that it counts along.
    """

    name: str
    type: TensorType
    offset: int
    count: int = -1
    axis: int = 0

    @property
    def is_placed(self) -> bool:
        """Whether its offset is known before it runs."""
        return self.offset >= 0


@dataclass(frozen=True, eq=False)
class Variant:
    """The functions for one processor.

    Attributes:
        natives: Their programs, in order.
    """

    natives: tuple[NativeProgram, ...]

    @property
    def cpu(self) -> str:
        """LLVM's name of the processor."""
        return self.target.cpu

    @property
    def target(self) -> Target:
        """The processor."""
        return self.natives[0].target

    @property
    def uses_tiles(self) -> bool:
        """Return whether the permission to use tile registers is requested before it runs."""
        return any(native.uses_tiles for native in self.natives)


@dataclass(frozen=True, eq=False)
class BundledFunction:
    """One function, as C sees it.

    Attributes:
        name: Its name in the model.
        identifier: Its name in C, after that of the bundle.
        inputs: The inputs of a run, in order.
        outputs: The outputs of a run, in order.
        fed: Pairs of an input and of an output that begins as a copy of it, by their numbers.
        phases: Phases of a run in that variant which has the most.
        lead: Whether there is a phase before those of the program: it copies what is fed to
            outputs, and lays out memory for sizes that are new.
    """

    name: str
    identifier: str
    inputs: tuple[PlacedTensor, ...]
    outputs: tuple[PlacedTensor, ...]
    fed: tuple[tuple[int, int], ...]
    phases: int
    lead: bool


class ConstantsFile:
    """The blocks of constants one after the other, equal ones once, after a head."""

    def __init__(self) -> None:
        """Hold nothing but the head."""
        self._digests: dict[tuple[int, int], bytes] = {}
        self._offsets: dict[bytes, int] = {}
        self.blocks: list[tuple[int, Bytes]] = []
        self.size_bytes = _PAGE_BYTES

    def add(self, block: Bytes) -> None:
        """Give *block*, which must stay, a place on a page, unless an equal one has one."""
        digest = hashlib.sha256(block.data).digest()
        self._digests[block.ctypes.data, block.nbytes] = digest
        if digest not in self._offsets:
            self._offsets[digest] = self.size_bytes
            self.blocks.append((self.size_bytes, block))
            self.size_bytes += -(-block.nbytes // _PAGE_BYTES) * _PAGE_BYTES

    def offset_of(self, block: Bytes) -> int:
        """Return where *block*, or its equal, lies."""
        return self._offsets[self._digests[block.ctypes.data, block.nbytes]]

    @property
    def digests(self) -> Mapping[bytes, int]:
        """Where the blocks lie, by what they hold."""
        return self._offsets

    def pieces(self, identity: int) -> Iterable[bytes | memoryview]:
        """Yield the content of the file, whose bundle has this *identity*."""
        head = _HEAD_TEXT.ljust(IDENTITY_OFFSET, b"\0") + identity.to_bytes(8, "little")
        place = len(head)
        yield head
        for offset, block in self.blocks:
            yield bytes(offset - place)
            yield block.data
            place = offset + block.nbytes
        yield bytes(self.size_bytes - place)


@dataclass(frozen=True, eq=False)
class Bundle:
    """All of a bundle, before any of it is written.

    Attributes:
        name: The prefix of all its names in C.
        variants: The processors that it is for, with their code.
        functions: The functions, in order.
        states: The values that runs keep for the next one.
        first_values: Values of the states, as blocks of the constants, in order.
        constants: The constants of all variants.
        tensors_bytes: Size of the block of tensors; if sizes are open, of what is in front of
            inputs and outputs.
        sizes: The open sizes, in the order in which C gives them.
        area_offset: Where the tensors hold what is laid out for them.
    """

    name: str
    variants: tuple[Variant, ...]
    functions: tuple[BundledFunction, ...]
    states: tuple[PlacedTensor, ...]
    first_values: tuple[Bytes, ...]
    constants: ConstantsFile
    tensors_bytes: int
    sizes: tuple[Symbol, ...] = ()
    area_offset: int = 0

    @property
    def triple(self) -> str:
        """LLVM's name of the kind of machine."""
        return self.variants[0].target.triple

    @property
    def natives(self) -> Iterable[NativeProgram]:
        """The programs of all variants."""
        return (native for variant in self.variants for native in variant.natives)

    @property
    def threads(self) -> int:
        """Threads that can share a run of that function which has the most."""
        return max(native.threads for native in self.natives)

    @property
    def uses_tiles(self) -> bool:
        """Return whether a variant needs the right to use tile registers."""
        return any(variant.uses_tiles for variant in self.variants)

    @property
    def guards(self) -> tuple[str, ...]:
        """The comparisons of open sizes for which all variants are right."""
        found = (guard for n in self.natives if n.open for guard in n.open.guards)
        return tuple(dict.fromkeys(map(str, found)))

    @property
    def tensors(self) -> tuple[PlacedTensor, ...]:
        """States, inputs and outputs."""
        return (*self.states, *(t for f in self.functions for t in (*f.inputs, *f.outputs)))

    @property
    def most_dimensions(self) -> int:
        """Sizes of a shape that C has room for."""
        return max([1, *(tensor.type.rank for tensor in self.tensors)])

    @property
    def arena_bytes(self) -> int:
        """Working memory, scratch of all threads included, of the function that needs most.

        If sizes are open, they tell it.
        """
        needs = (
            scratch_offset(native) + self.threads * native.layout.thread_scratch_bytes
            for native in self.natives  # of few shares, too: any thread may do them
        )
        return max(ALIGNMENT, aligned_bytes(max(needs)))

    @cached_property
    def identity(self) -> int:
        """A number that distinguishes this bundle from others; the bits for the variant are 0."""
        digest = hashlib.sha256(self.name.encode())
        for native in self.natives:
            digest.update(repr(native.layout).encode())
            for symbol, payload in sorted(native.objects.items()):
                digest.update(symbol.encode() + payload)
        for content, offset in self.constants.digests.items():
            digest.update(content + offset.to_bytes(8, "little"))
        number = int.from_bytes(digest.digest()[:8], "little")
        return number >> VARIANT_BITS << VARIANT_BITS


def scratch_offset(native: NativeProgram) -> int:
    """Return where the scratch of *native* begins in the arena."""
    return aligned_bytes(native.memory.arena_bytes)


def plan_bundle(
    name: str,
    functions: Sequence[str],
    variants: Sequence[Variant],
    values: Mapping[str, Array],
) -> Bundle:
    """Return the bundle *name* of *functions*, by their names in the model.

    Args:
        name: The prefix of its names in C.
        functions: Names in the order of the programs of each variant.
        variants: The processors, those that are taken first first.
        values: The initial values of the states, by name.

    Raises:
        CompileError: The programs of two variants take or give different tensors.
    """
    _check_alike(functions, variants)
    opened = _open_sizes(functions, variants)
    constants = ConstantsFile()
    for native in (native for variant in variants for native in variant.natives):
        for block in native.memory.blocks:
            constants.add(block)
    layout = _TensorLayout()
    held = {s.name: s for variant in variants for native in variant.natives for s in native.state}
    states = tuple(layout.place(binding) for binding in held.values())
    first = tuple(_block_of(values.get(s.name, s.array)) for s in held.values())
    for block in first:
        constants.add(block)
    area_offset = layout.size_bytes
    if opened:
        areas = (Area.of(variant.natives[0]).size_bytes for variant in variants)
        layout.size_bytes += aligned_bytes(max(areas))
        layout.is_open = True
    identifiers = function_identifiers(name, functions)
    bundled = tuple(
        _function(functions[i], identifiers[i], [v.natives[i] for v in variants], layout)
        for i in range(len(functions))
    )
    return Bundle(
        *(name, tuple(variants), bundled, states, first, constants, layout.size_bytes),
        *(opened, area_offset),
    )


class _TensorLayout:
    """Places in the block of tensors, given one after the other while they are known."""

    def __init__(self) -> None:
        self.size_bytes = HEAD_BYTES
        self.is_open = False

    def place(self, binding: Binding, count: int = -1, axis: int = 0) -> PlacedTensor:
        if self.is_open:
            return PlacedTensor(binding.name, binding.type, -1, count, axis)
        placed = PlacedTensor(binding.name, binding.type, self.size_bytes, count, axis)
        self.size_bytes += aligned_bytes(binding.type.size_bytes)
        return placed


def _function(
    name: str, identifier: str, natives: Sequence[NativeProgram], layout: _TensorLayout
) -> BundledFunction:
    first = natives[0]
    numbers = {output.name: number for number, output in enumerate(first.outputs)}
    inputs = tuple(map(layout.place, first.inputs))
    outputs = tuple(
        layout.place(o, numbers[o.counted.count], o.counted.axis) if o.counted else layout.place(o)
        for o in first.outputs
    )
    fed = tuple((o.fed_by, n) for n, o in enumerate(first.outputs) if o.fed_by is not None)
    lead = bool(fed) or first.open is not None
    phases = max(native.layout.phases for native in natives) + lead
    return BundledFunction(name, identifier, inputs, outputs, fed, phases, lead)


def _check_alike(functions: Sequence[str], variants: Sequence[Variant]) -> None:
    """Raise CompileError unless each function takes and gives the same in all variants."""
    for number, name in enumerate(functions):
        found = {
            str([(b.name, b.type) for b in (*n.inputs, *n.outputs)])
            + str(sorted(map(str, n.open.symbols if n.open else ())))
            for n in (variant.natives[number] for variant in variants)
        }
        if len(found) > 1:
            raise CompileError(
                f"function {name!r:.60}: for different processors it takes or gives different "
                "tensors; make one bundle for each"
            )


def _open_sizes(functions: Sequence[str], variants: Sequence[Variant]) -> tuple[Symbol, ...]:
    """Return the open sizes of a bundle, if there are any.

    Raises:
        UnsupportedError: It has several functions, or a size that no input tells, or that of a
            state.
    """
    natives = [native for variant in variants for native in variant.natives]
    opened = next((native.open for native in natives if native.open is not None), None)
    if opened is None:
        return ()
    if len(functions) > 1:
        raise UnsupportedError(
            f"a bundle of the functions {', '.join(map(repr, functions)):.200} with open sizes: "
            "make one for each"
        )
    told = symbols_of(*(n for binding in natives[0].inputs for n in binding.type.shape))
    unknown = [symbol.name for symbol in opened.symbols if symbol not in told]
    kept = [state.name for state in natives[0].state if state.type.is_open]
    if unknown or kept:
        problem = f"no input tells the sizes {unknown}" if unknown else f"states {kept} have some"
        raise UnsupportedError(
            f"a bundle of {functions[0]!r:.60} with open sizes: {problem}; give the sizes, "
            "shapes={...}"
        )
    return opened.symbols


def _block_of(array: Array) -> Bytes:
    block: Bytes = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return block
