"""The error of a size that is no number yet, where one is needed."""

from __future__ import annotations

from glow_nb.base.errors import GlowError


class OpenSizeError(GlowError):
    """A plain number is needed where a ``size`` is known only when the network runs."""

    size: int


def open_error(size: int, problem: str) -> OpenSizeError:
    """Return the error that says what the *problem* with a *size* is that is no number."""
    error = OpenSizeError(
        f"size {size!s:.80}: {problem}; give it as a number, by shapes= of glow_nb.load or "
        "glow_nb.compile"
    )
    error.size = size
    return error
