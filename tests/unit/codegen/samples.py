"""Small kernels, calls and programs for the tests of the code generator."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from glow_nb.base.alignment import Bytes, aligned_empty
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.codegen.entry import Call, Region
from glow_nb.codegen.load_native import load
from glow_nb.codegen.loaded_program import LoadedProgram
from glow_nb.codegen.make_native_program import make_native_program
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.codegen.program_memory import ProgramMemory
from glow_nb.codegen.run_layout import Binding, OutputBinding
from glow_nb.kernels.target import CACHES_VARIABLE
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.system.cache_folder import CACHE_VARIABLE

FLOAT32 = ElementKind.FLOAT32
SIZE = 1003
SIZE_BYTES = SIZE * 4

ROTATE_ADD = f"""
def kernel(dest, lhs, rhs, scratch, thread, threads):
    for i in range({SIZE} * thread // threads, {SIZE} * (thread + 1) // threads):
        put(dest, i, get(lhs, ({SIZE} - 1) - i) + get(rhs, i))
"""
"""``dest[i] = lhs[-1 - i] + rhs[i]``: a share reads what another share's thread has written."""


class Owner:
    """Something that wants workers kept."""


def source(text: str = ROTATE_ADD, arguments: int = 3, scratch_bytes: int = 0) -> KernelSource:
    return KernelSource("sample", text, (FLOAT32,) * arguments, scratch_bytes)


def region(space: str, mode: str, slot: int = 0) -> Region:
    """Return a vector of SIZE floats: a binding, or the slot of the arena or the constants."""
    where = {"binding": slot} if space == "binding" else {"offset_bytes": slot * 4096}
    return Region(space, FLOAT32, SIZE_BYTES, mode, **where)  # type: ignore[arg-type]


class Chain:
    """``depth`` dependent additions: ``x = reversed(x) + constant`` from binding 0 to binding 1."""

    arena_bytes = 2 * 4096

    def __init__(self, depth: int, text: str = ROTATE_ADD) -> None:
        self.depth = depth
        kernel = source(text)
        places = [region("binding", "in")]
        places += [region("arena", "in", step % 2) for step in range(depth - 1)]
        self.calls = []
        for step, place in enumerate(places):
            is_last = step == depth - 1
            dest = region("binding", "out", 1) if is_last else region("arena", "out", step % 2)
            self.calls.append(Call(kernel, (dest, place, region("constants", "in"))))
        self.constants: Bytes = aligned_empty(SIZE_BYTES)
        self.constants.view(np.float32)[:] = np.arange(SIZE) % 7
        vector = TensorType(FLOAT32, (SIZE,))
        self.inputs, self.outputs = [Binding(vector, "x")], [OutputBinding(vector, "y")]

    def make(self, **options: Any) -> NativeProgram:
        memory = ProgramMemory(self.arena_bytes, self.constants)
        return make_native_program(self.calls, memory, self.inputs, self.outputs, **options)

    def load(self, **options: Any) -> LoadedProgram:
        return load(self.make(**options))

    def expected(self, x: np.ndarray) -> np.ndarray:
        for _ in range(self.depth):
            x = x[::-1] + self.constants.view(np.float32)
        return x


def run_python(script: str, folder: Path, *arguments: str) -> str:
    """Run *script* in a new interpreter with its cache in *folder*; return what it printed."""
    root = str(Path(__file__).parents[3])
    program = f"import sys; sys.path.insert(0, {root!r})\n{textwrap.dedent(script)}"
    result = subprocess.run(
        [sys.executable, *arguments, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env={
            CACHE_VARIABLE: str(folder / "cache"),
            CACHES_VARIABLE: os.environ[CACHES_VARIABLE],
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
        },
        check=False,
    )
    assert result.returncode == 0, f"status {result.returncode}\n{result.stderr}"
    return str(result.stdout)
