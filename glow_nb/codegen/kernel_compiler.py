"""numba, imported when the first kernel is compiled, and what it says when it cannot start."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

from glow_nb.base.errors import CompileError
from glow_nb.base.foreign import foreign
from glow_nb.codegen.numba_releases import require_tested_numba
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource


def kernel_compiler() -> Callable[[KernelSource, Target], bytes]:
    """Return :func:`glow_nb.codegen.compile.compile_kernel`; the first call imports numba.

    Raises:
        CompileError: numba is of a release that was not tested, or does not start, as with a
            variable ``NUMBA_...`` that makes no sense.
    """
    require_tested_numba()
    subject = f"numba does not start{_settings()}"
    with foreign(CompileError, subject), warnings.catch_warnings():
        # of a value that it cannot read numba only warns, with a traceback
        warnings.filterwarnings("error", category=RuntimeWarning, module=r"numba\.core\.config")
        try:
            from glow_nb.codegen.compile import compile_kernel
        except RuntimeWarning as warning:
            raise CompileError(f"{subject}: {str(warning).splitlines()[0]}") from None
    return compile_kernel


def _settings() -> str:
    """Return numba's settings in the environment as a likely cause; empty if there are none."""
    found = [
        f"{name}={value!r:.40}" for name, value in os.environ.items() if name.startswith("NUMBA_")
    ]
    if not found:
        return ""
    return (
        f" with {', '.join(sorted(found))} in the environment; "
        "correct or unset it, and start Python again"
    )
