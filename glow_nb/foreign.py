"""The border to code that is not ours but that we call: the one place that catches ``Exception``.

Arrays that are fed, passes, observers, operators and kernel generators may come from a user, and
raise whatever they like. What they raise becomes one error of ours that says whose code it was; the
original is its ``__cause__``, with its traceback.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from glow_nb.errors import GlowError


@contextmanager
def foreign(kind: type[GlowError], subject: str, *, ours: bool = False) -> Iterator[None]:
    """Run the body of the statement; what it raises becomes ``kind(f"{subject}: ...")``.

    An error of ours stays as it is, unless *ours* asks to put the subject before that, too. What
    ends the program, such as KeyboardInterrupt, is no ``Exception`` and always stays.
    """
    try:
        yield
    except Exception as cause:
        if isinstance(cause, GlowError) and not ours:
            raise
        raise kind(f"{subject}: {_described(cause)}") from cause


def _described(cause: Exception) -> str:
    """Return the message of an error of ours, and of another one its type as well."""
    if isinstance(cause, GlowError):
        return str(cause)
    import traceback  # rarely needed

    # not str(cause), which may raise in its turn
    return "".join(traceback.format_exception_only(cause)).strip()


def name_of(code: object) -> str:
    """Return what an error calls a function, or an object that is called like one."""
    name = getattr(code, "__name__", None)
    return name if isinstance(name, str) else type(code).__name__
