"""The backend for this machine: kernels are generated for their shapes and compiled to machine
code.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from typing_extensions import override

from glow_nb.backends.backend import Backend
from glow_nb.backends.cpu.options import CpuOptions, Winograd
from glow_nb.backends.options import BackendOptions
from glow_nb.base.errors import CompileError
from glow_nb.base.foreign import foreign
from glow_nb.base.memory_limit import require_memory

LIBRARY_BYTES = 256 << 20
"""What the libraries of a first compilation take of the process's addresses (LLVM, numba, ONNX,
and the buffers of NumPy's products); some end the process if there is less."""


@dataclass(frozen=True)
class Cpu(CpuOptions, BackendOptions):
    """Machine code for this processor: ``glow_nb.compile(model, backend=glow_nb.Cpu(tune=True))``.

    Its fields are the options (:class:`glow_nb.backends.cpu.options.CpuOptions`).
    """

    @override
    def make(self, *, threads: int) -> Backend:
        if "llvmlite" not in sys.modules:
            require_memory("backend 'cpu'", {"libraries": LIBRARY_BYTES})
        with foreign(CompileError, "backend 'cpu': it does not start"):
            from glow_nb.backends.cpu.backend import CpuBackend

        return CpuBackend(options=self, threads=threads)


__all__ = ["Cpu", "Winograd"]
