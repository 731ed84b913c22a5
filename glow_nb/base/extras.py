"""Packages that parts of glow_nb need, and that are not installed with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from glow_nb.base.errors import OptionError

EXTRAS = {
    "bench": ("onnxruntime", "openvino"),
    "plot": ("matplotlib", "pillow"),
    "ray": ("ray",),
    "serve": ("prometheus-client", "starlette", "uvicorn"),
}
"""The packages of the extras that errors name, by the extra's name."""


@contextlib.contextmanager
def needing(extra: str, subject: str) -> Iterator[None]:
    """Import what *subject* needs in the body of the statement.

    Raises:
        OptionError: A package is not installed; says how to install all of the *extra*.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise OptionError(f"{subject}: {package} is not installed; {how_to_add(extra)}") from error


def how_to_add(extra: str) -> str:
    """Return the command that installs the packages of *extra*, wherever glow_nb came from."""
    return f"pip install {' '.join(EXTRAS[extra])}"
