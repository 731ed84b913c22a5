"""Pictures that commands draw on request, with packages that glow_nb does not install."""

from __future__ import annotations

from pathlib import Path

from glow_nb.base.extras import needing


def require_drawing(option: str, picture: Path | None) -> None:
    """Check before the work of a command that it can draw *picture*, if *option* asks for one.

    Raises:
        OptionError: A package is not installed; names the *option* and says how to install it.
    """
    if picture is not None:
        with needing("plot", option):
            import matplotlib as _drawing  # noqa: F401 - is it there?
