"""The boundary to foreign code that glow_nb calls: the one place that catches any ``Exception``.

Arrays that are fed, passes, lowering rules, observers, operators, kernel generators and backends
may come from a user, and raise any exception. The exception becomes one error of ours that names
the code; the original is its ``__cause__``, with its traceback.
"""

from __future__ import annotations

import os

from glow_nb.base.errors import GlowError, MemoryLimitError, ModelError
from glow_nb.base.memory_limit import out_of_memory
from glow_nb.base.open_size_error import OpenSizeError

NOBODYS_FAULT = (MemoryLimitError, ModelError, OpenSizeError)

_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep


class foreign:  # noqa: N801 - reads like a function, with foreign(...)
    """Run the body of the statement; an exception in it becomes ``kind(f"{subject}: ...")``.

    An error of ours stays as it is, unless *ours* asks to put the subject before that, too. If
    memory is exhausted, a model's file has changed or a size is open, the code is not at fault: a
    MemoryError becomes a MemoryLimitError, and errors of :data:`NOBODYS_FAULT` are never changed.
    Exceptions that end the program, such as KeyboardInterrupt, pass as well. One object serves any
    number of statements, on any threads.
    """

    __slots__ = ("_kind", "_ours", "_subject")

    def __init__(self, kind: type[GlowError], subject: str, *, ours: bool = False) -> None:
        """Raise *kind* about the *subject*."""
        self._kind, self._subject, self._ours = kind, subject, ours

    def __enter__(self) -> None:
        """Begin with the body."""

    def __exit__(self, _: object, cause: BaseException | None, __: object) -> None:
        """Raise the error of ours, if the body has raised one that is not."""
        if not isinstance(cause, Exception) or isinstance(cause, NOBODYS_FAULT):
            return
        if isinstance(cause, GlowError) and not self._ours:
            return
        if isinstance(cause, MemoryError):
            raise out_of_memory(self._subject, cause) from cause
        raise self._kind(f"{self._subject}: {_described(cause)}") from cause


def _described(cause: Exception) -> str:
    """Return the message of an error of ours, and of another one its type as well."""
    if isinstance(cause, GlowError):
        return str(cause)
    import traceback  # rarely needed

    # not str(cause), which may raise in its turn
    return "".join(traceback.format_exception_only(cause)).strip() + _place(cause)


def _place(cause: Exception) -> str:
    """Return the last line of code of a user that ran: `` (line 3 of net.py: return a / b)``."""
    import traceback

    frames = traceback.extract_tb(cause.__traceback__)
    for frame in reversed(frames):
        is_library = "site-packages" in frame.filename or frame.filename.startswith(_OURS)
        if not is_library and frame.line:
            return f" (line {frame.lineno} of {os.path.basename(frame.filename)}: {frame.line})"
    return ""


def name_of(code: object) -> str:
    """Return how errors refer to a function, or to an object that is called like one."""
    name = getattr(code, "__name__", None)
    return name if isinstance(name, str) else type(code).__name__
