"""The backends that come with glow_nb, imported when they are first asked for."""

from __future__ import annotations

from glow_nb.backends.backend import (
    BACKENDS,
    WINOGRAD_CHOICES,
    Backend,
    BackendOptions,
    VariantBackend,
    backend_named,
)


def _cpu(options: BackendOptions) -> Backend:
    from glow_nb.backends.cpu.backend import CpuBackend

    return CpuBackend(options=options)


def _interpreter(options: BackendOptions) -> Backend:
    from glow_nb.backends.interpreter import Interpreter

    return Interpreter()


BACKENDS.add("cpu", _cpu)
BACKENDS.add("interpreter", _interpreter)

__all__ = [
    "BACKENDS",
    "WINOGRAD_CHOICES",
    "Backend",
    "BackendOptions",
    "VariantBackend",
    "backend_named",
]
