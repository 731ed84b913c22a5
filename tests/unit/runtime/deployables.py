"""Small networks as data, for the tests of devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import glow_nb
from glow_nb.backends.cpu.executable import CpuExecutable
from glow_nb.base.types import Array
from glow_nb.llir.program import Buffer
from glow_nb.runtime.deployable import Deployable

SCALE = """
func @main(%x : float32<{size}>) -> (%y : float32<{size}>) {{
  %scaled = mul(%x, %x) : float32<{size}>
  %y_save = save(%scaled, %y)
}}
"""
"""``y = x * x``."""


def deploy(network: Any, *, name: str = "net") -> Deployable:
    """Return a compiled *network* as data: machine code, or the program of the interpreter."""
    executable, memory = network.executable, network.memory
    program = network.program
    is_native = isinstance(executable, CpuExecutable)
    bound = (*program.inputs, *program.outputs)
    return Deployable(
        name=name,
        inputs=_typed(program.inputs),
        outputs=_typed(program.outputs),
        program=executable.native if is_native else program,
        constant_bytes=memory.constant_bytes + memory.state_bytes,
        run_bytes=memory.arena_bytes
        + memory.scratch_bytes
        + sum(buffer.type.size_bytes for buffer in bound),
    )


def _typed(buffers: tuple[Buffer, ...]) -> tuple[tuple[str, Any], ...]:
    return tuple((buffer.name, buffer.type) for buffer in buffers)


def compile_text(text: str, folder: Path, **options: Any) -> Any:
    """Return the network of IR *text*."""
    path = folder / "net.glow"
    path.write_text(text)
    return glow_nb.compile(path, **options)


def square(folder: Path, *, size: int = 1000, backend: str = "cpu", threads: int = 1) -> Deployable:
    """Return the network ``y = x * x``."""
    text = SCALE.format(size=size)
    return deploy(compile_text(text, folder, backend=backend, threads=threads))


def feed(seed: int, size: int = 1000) -> Array:
    """Return an input of the network :func:`square`."""
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)
