"""Every error that glow_nb raises on purpose; anything else that escapes is a bug of ours.

A message reads ``subject: what is wrong, with both values; what to do``, in lower case and without
a full stop. It quotes names and values that come from models, files and clients, which may be of
any length: every message goes through :func:`bounded`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from glow_nb.base.override import override

MOST_LETTERS = 2000
"""Longer messages are shortened."""
MOST_QUOTED = 300
"""Longest word, or list in brackets, in a message, in letters."""
SHOWN_LINE = 160
"""Longest quoted line of a text, in letters."""

_LONG = re.compile(rf"\[[^\[\]]{{{MOST_QUOTED},}}\]|\S{{{MOST_QUOTED + 1},}}")


def bounded(message: str) -> str:
    """Return *message* without the middle of long words and long lists, and shortened as a
    whole.
    """
    if len(message) <= MOST_QUOTED:
        return message
    return _shortened(_LONG.sub(lambda found: _shortened(found[0], MOST_QUOTED), message))


def _shortened(text: str, most: int = MOST_LETTERS) -> str:
    """Return *text*, or its beginning and its end if it has more than *most* letters."""
    if len(text) <= most:
        return text
    begin, end = most * 6 // 10, most * 3 // 10
    return f"{text[:begin]}...({len(text) - begin - end:,} letters left out)...{text[-end:]}"


def reason_of(error: Exception) -> str:
    """Return the text of *error*, without the error number of the system."""
    told = error.strerror if isinstance(error, OSError) else None
    return told or str(error) or type(error).__name__


class GlowError(Exception):
    """Base of every error that glow_nb raises on purpose; each can be pickled."""

    def __init__(self, message: str) -> None:
        """Say *message*, as far as :func:`bounded` lets it."""
        super().__init__(bounded(message))

    @override
    def __reduce__(self) -> tuple[Callable[..., GlowError], tuple[object, ...]]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    kind: type[GlowError], arguments: tuple[object, ...], attributes: Mapping[str, object]
) -> GlowError:
    """Return the error that was pickled; its message is made already."""
    error = kind.__new__(kind)
    error.args = arguments
    error.__dict__.update(attributes)
    return error


class GlowWarning(UserWarning):
    """Something that works, but not as well as it could: says what and why."""

    def __init__(self, message: str) -> None:
        """Say *message*, as far as :func:`bounded` lets it."""
        super().__init__(bounded(message))


class DefinitionError(GlowError):
    """A wrong declaration of an operator, instruction, kernel or pass, detected when it is
    declared.
    """


class ParseError(GlowError):
    """Text that is not valid IR: ``path:line:column: message``, the line, and a caret."""

    def __init__(self, path: str, line: int, column: int, source_line: str, message: str) -> None:
        """Point at *column* (from 1) of *line* (from 1), whose text is *source_line*."""
        self.path, self.line, self.column, self.message = path, line, column, bounded(message)
        shown, place = _around(source_line, column - 1)
        super().__init__(f"{path}:{line}:{column}: {self.message}")
        self.args = (f"{self.args[0]}\n    {shown}\n    {' ' * place}^",)


def _around(line: str, place: int) -> tuple[str, int]:
    """Return what is shown of *line* so that *place* is in it, and where *place* is there."""
    if len(line) <= SHOWN_LINE:
        return line, place
    begin = max(0, min(place - SHOWN_LINE // 2, len(line) - SHOWN_LINE))
    end = begin + SHOWN_LINE
    before, behind = "..." * (begin > 0), "..." * (end < len(line))
    return f"{before}{line[begin:end]}{behind}", place - begin + len(before)


class VerifyError(GlowError):
    """The IR breaks a rule; ``subject`` is the offending node, instruction or function."""

    def __init__(self, subject: object, message: str) -> None:
        """Name the *subject* before the *message*."""
        super().__init__(f"{subject!r}: {message}")
        self.subject, self.message = subject, bounded(message)

    @override
    def __reduce__(self) -> tuple[Callable[..., GlowError], tuple[object, ...]]:
        """Send the subject as text: a program has objects that stay in their process."""
        return _restored, (
            type(self),
            self.args,
            {**self.__dict__, "subject": repr(self.subject)},
        )


class KindError(VerifyError):
    """An operand is of an element kind that the operator does not take."""


class UnsupportedError(GlowError):
    """Something valid that this version cannot do: an operator, an attribute, an element kind."""


class SettingError(UnsupportedError):
    """A plan has no such setting, or another kind of value for it; ``reason`` says so."""

    def __init__(self, plan: object, reason: str) -> None:
        """Say the *reason* why a setting of *plan* cannot be read."""
        super().__init__(f"plan {plan}: {reason}; leave the plan out, to have one made")
        self.reason = bounded(reason)


class ModelError(GlowError):
    """A broken model file or graph: says where it is broken, what is wrong, and what would be
    valid.
    """


class FeedError(GlowError):
    """The arrays given to ``run`` do not fit the inputs of the network."""


class StateError(GlowError):
    """A state that does not fit, is missing, or is in use by another run."""


class OptionError(GlowError):
    """An invalid argument of the public API or of the command; says which are valid."""


class PassError(GlowError):
    """A pass failed or broke the IR; the message names it and the passes before it."""


class GradientError(GlowError):
    """A gradient that cannot be computed; names the operators without a gradient."""


class TrainingError(GlowError):
    """A training step whose loss or gradients are not finite; names the first operator or the
    weights.
    """


class CalibrationError(GlowError):
    """Samples without usable numbers, or ranges of another network."""


class MemoryLimitError(GlowError):
    """Something needs more memory than the process may use, or than the system provides."""


class CompileError(GlowError):
    """Generated source could not be made into machine code, or the code could not be loaded."""


class PartitionError(GlowError):
    """A network that cannot be placed on the devices; says which device lacks what."""


class DeviceError(GlowError):
    """A device that died, hangs or does not answer; the message begins with its name."""


class RefusedError(GlowError):
    """A request that was refused: the queue is full, or the host or network is being closed."""


class DeadlineError(GlowError):
    """A request that was not answered before its deadline."""


class UnboundDimension(ModelError):
    """A model has dimensions without a size; bind them by ``shapes`` or at the first run.

    Attributes:
        names: The symbols that have no size.
        signature: Declared shape of each input; None where not even the rank is known.
        place: Where the model is from.
    """

    def __init__(
        self,
        place: str,
        names: Sequence[str],
        signature: Mapping[str, tuple[int | str, ...] | None],
        *,
        otherwise: str = "",
    ) -> None:
        """Complain about *names* in the model at *place*, and say what to do *otherwise*."""
        unranked = [name for name, shape in signature.items() if shape is None]
        example = ", ".join(f"{n!r}: {'(1, 3)' if n in unranked else 1}" for n in names)
        wheres = "; ".join(
            f"input {name!r} is {'of unknown rank' if shape is None else list(shape)}"
            for name, shape in signature.items()
            if shape is None or any(isinstance(n, str) for n in shape)
        )
        super().__init__(
            f"{place}: its dimensions {list(names)} have no size ({wheres}); "
            f"bind them, for example shapes={{{example}}}{f', or {otherwise}' * bool(otherwise)}"
        )
        self.names, self.signature, self.place = tuple(names), dict(signature), place


class UnboundInput(UnsupportedError):
    """A value on which shapes depend is computed from inputs that are known only at run time.

    Attributes:
        names: Those inputs; give them by ``import_onnx(..., constants={name: array})``.
    """

    def __init__(self, message: str, names: Sequence[str]) -> None:
        """Complain with *message* about the inputs called *names*."""
        super().__init__(message)
        self.names = tuple(names)
