"""The backends that come with glow_nb, imported when they are first asked for."""

from __future__ import annotations

from glow_nb.backends.backend import BACKENDS, Backend, backend_named


def _cpu() -> Backend:
    from glow_nb.backends.cpu.backend import CpuBackend

    return CpuBackend()


def _interpreter() -> Backend:
    from glow_nb.backends.interpreter import Interpreter

    return Interpreter()


BACKENDS.add("cpu", _cpu)
BACKENDS.add("interpreter", _interpreter)

__all__ = ["BACKENDS", "Backend", "backend_named"]
