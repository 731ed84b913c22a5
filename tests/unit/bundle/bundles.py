"""Bundles of small networks, run in this process, or as the example that a C compiler builds."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.alignment import aligned_empty
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.bundle.area import Area
from glow_nb.bundle.plan import Bundle, PlacedTensor, Variant, plan_bundle
from glow_nb.bundle.writing import merged_code
from glow_nb.codegen.loaded_code import LoadedCode
from glow_nb.hlir import ops
from glow_nb.hlir.module import Module
from glow_nb.kernels.target import Target
from glow_nb.network.network import CompiledNetwork, Network

needs_elf = pytest.mark.skipif(
    "linux" not in Target.host().triple, reason="bundles for this machine are ELF objects"
)
needs_x86 = pytest.mark.skipif(
    not Target.host().triple.startswith("x86_64"), reason="x86-64 alone tells what it can do"
)
needs_c = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler cc")

WARNINGS = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-O1")


def counting_module() -> Module:
    """Return a module of two functions over one state: one adds to it, one reads it."""
    count = glow_nb.State(
        "count", TensorType(ElementKind.FLOAT32, (3,)), payload=np.ones(3, np.float32)
    )
    b = glow_nb.Builder("step/1")
    x = b.input("x */ y", "float32<3>")
    total = b.emit(ops.Add(count, x))
    b.update(count, total)
    b.save(total, "y\n#define z")
    step = b.function()
    b = glow_nb.Builder("read")
    b.save(b.emit(ops.Tanh(count)), "y")
    return Module((step, b.function()))


def natives_of(network: Network) -> tuple[Any, ...]:
    """Return the native programs of the functions of *network*."""
    functions = network.functions.values()
    return tuple(f.executable.native for f in functions if isinstance(f, CompiledNetwork))  # type: ignore[attr-defined]


def bundle_of(*networks: Network, name: str = "net") -> Bundle:
    """Return the bundle of one network for different processors."""
    variants = [Variant(natives_of(network)) for network in networks]
    with networks[0].state.for_reading() as values:
        return plan_bundle(name, list(networks[0].functions), variants, values)


class LoadedBundle:
    """A bundle for this machine, linked into this process.

    Attributes:
        constants: Its first block.
        tensors: Its second block.
        arena: Its third block.
    """

    def __init__(self, bundle: Bundle) -> None:
        """Link *bundle*; its tensors are not initialized."""
        self.bundle = bundle
        self._code = LoadedCode([merged_code(bundle).payload], Target.host())
        content = b"".join(bundle.constants.pieces(bundle.identity))
        self.constants = aligned_empty(len(content))
        self.constants[:] = np.frombuffer(content, np.uint8)
        self.tensors = aligned_empty(bundle.tensors_bytes)
        self.tensors[:] = 255
        self.arena = aligned_empty(bundle.arena_bytes)

    def call(self, name: str, *arguments: Array | int) -> int:
        """Return what the function *name* returns for blocks and numbers."""
        address = self._code.address(f"{self.bundle.name}_{name}")
        kinds = [
            ctypes.c_void_p if isinstance(a, np.ndarray) else ctypes.c_size_t for a in arguments
        ]
        given = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
        found: int = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(address)(*given)
        return found

    def variant(self) -> str | None:
        """Return the processor whose code this one runs."""
        address = self._code.address(f"{self.bundle.name}_variant")
        found: bytes | None = ctypes.CFUNCTYPE(ctypes.c_char_p)(address)()
        return None if found is None else found.decode()

    def initialize(self) -> int:
        """Initialize the tensors."""
        return self.call("initialize", self.constants, self.tensors)

    def place(self, tensor: PlacedTensor) -> Array:
        """Return *tensor* where it lies."""
        end = tensor.offset + tensor.type.size_bytes
        place: Array = self.tensors[tensor.offset : end]
        return place.view(tensor.type.kind.dtype).reshape(tensor.type.shape)

    def feed(self, feeds: Mapping[str, Array], number: int = 0) -> None:
        """Write the inputs of function *number*."""
        for tensor in self.bundle.functions[number].inputs:
            self.place(tensor)[...] = feeds[tensor.name]

    def outputs(self, number: int = 0) -> dict[str, Array]:
        """Return copies of the outputs of function *number*."""
        return {t.name: self.place(t).copy() for t in self.bundle.functions[number].outputs}

    def run(self, feeds: Mapping[str, Array], number: int = 0) -> dict[str, Array]:
        """Run function *number*."""
        self.feed(feeds, number)
        function = self.bundle.functions[number].identifier
        assert self.call(function, self.constants, self.tensors, self.arena) == 0
        return self.outputs(number)


def run_command(command: Sequence[object], folder: Path) -> str:
    """Return what *command* prints, which must succeed without a word on its error stream."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), (done.stdout, done.stderr)
    return done.stdout


def build_example(folder: Path, *flags: str, compiler: str = "cc") -> Path:
    """Return the example in *folder*, compiled with all warnings."""
    pool = [path.name for path in folder.glob("*_pool.c")]
    library = next(folder.glob("lib*"))
    program = folder.parent / f"{folder.name}_program"
    command = [compiler, *WARNINGS, *flags, "-o", program, "main.c", *pool]
    run_command(
        [*command, "-x", "none", library, f"-Wl,-rpath,{folder}", "-lm", "-pthread"], folder
    )
    return program


def emulator(architecture: str) -> list[str]:
    """Return the command that runs programs of *architecture*; skip the test without it."""
    compiler, name = f"{architecture}-linux-gnu-gcc", f"qemu-{architecture}"
    for program in (compiler, name):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}")
    return [name, "-L", f"/usr/{architecture}-linux-gnu"]


def run_example(
    program: Path,
    folder: Path,
    feeds: Sequence[Array],
    *options: object,
    prefix: Sequence[str] = (),
) -> dict[str, Array]:
    """Return the arrays that the example writes, by the names of their files."""
    inputs = [folder.parent / f"input_{number}.npy" for number in range(len(feeds))]
    for path, array in zip(inputs, feeds, strict=True):
        np.save(path, array)
    constants = list(folder.glob("*.constants"))
    results = folder.parent / "results"
    results.mkdir(exist_ok=True)
    run_command([*prefix, program, *constants, *options, "-o", f"{results}/", *inputs], folder)
    return {path.stem: np.load(path) for path in results.iterdir()}


class LoadedOpenBundle(LoadedBundle):
    """A bundle with open sizes, linked into this process.

    Attributes:
        sizes: The struct that C gives: sizes in order, and bytes of tensors and arena.
    """

    def __init__(self, bundle: Bundle) -> None:
        """Link *bundle*; nothing is measured yet."""
        super().__init__(bundle)
        self.sizes = np.zeros(len(bundle.sizes) + 2, np.int64)

    def measure(self, **sizes: int) -> int:
        """Measure what *sizes* by name need."""
        self.sizes[: len(sizes)] = [sizes[symbol.name] for symbol in self.bundle.sizes]
        return self.call("measure", self.sizes)

    def prepare(self, **sizes: int) -> None:
        """Give the bundle the memory that *sizes* need, filled with nonsense."""
        assert self.measure(**sizes) == 0
        tensors_bytes, arena_bytes = self.sizes[-2:].tolist()
        self.tensors, self.arena = aligned_empty(tensors_bytes), aligned_empty(arena_bytes)
        self.tensors[:] = self.arena[:] = 255
        assert self.initialize() == 0

    def rows(self) -> tuple[Array, Array]:
        """Return the tables of inputs and outputs for the sizes, as words: see the header."""
        (function,) = self.bundle.functions
        width = 7 + self.bundle.most_dimensions
        inputs = np.full((len(function.inputs), width), -1)
        outputs = np.full((len(function.outputs), width), -1)
        assert self.call("run_tensors", self.sizes, inputs, outputs) == 0
        return inputs, outputs

    def array_at(self, row: Array, tensor: PlacedTensor) -> Array:
        """Return *tensor* where its *row* of a table says that it lies."""
        offset, size_bytes = row[3:5].tolist()
        place: Array = self.tensors[offset : offset + size_bytes]
        shape = row[6 : 6 + tensor.type.rank].tolist()
        return place.view(tensor.type.kind.dtype).reshape(shape)

    def run_open(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run the function for the sizes that were prepared."""
        (function,) = self.bundle.functions
        inputs, outputs = self.rows()
        for row, tensor in zip(inputs, function.inputs, strict=True):
            self.array_at(row, tensor)[...] = feeds[tensor.name]
        assert self.call("run", self.constants, self.tensors, self.arena, self.sizes) == 0
        found = zip(outputs, function.outputs, strict=True)
        return {tensor.name: self.array_at(row, tensor).copy() for row, tensor in found}

    @property
    def _words(self) -> tuple[Area, Array]:
        """What the tensors hold of the sizes that they are laid out for."""
        area, begin = Area.of(self.bundle.variants[0].natives[0]), self.bundle.area_offset
        return area, self.tensors[begin : begin + area.size_bytes].view(np.int64)

    def laid_out(self) -> tuple[list[int], list[int], int]:
        """Return the offset of each activation and window, and the bytes of the arena."""
        area, words = self._words
        windows = words[area.windows : area.tensors].tolist()
        return words[area.offsets : area.count].tolist(), windows, int(words[area.arena_bytes])

    def lengths(self) -> list[int]:
        """Return the bytes of each activation."""
        area, words = self._words
        found: list[int] = words[area.lengths : area.offsets].tolist()
        return found
