"""Every error that glow_nb raises on purpose; anything else that escapes is a bug of ours.

A message reads ``subject: what is wrong, with both values; what to do``, in lower case and without
a full stop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from typing_extensions import override


class GlowError(Exception):
    """Base of every error that glow_nb raises on purpose; each can be pickled."""

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


class DefinitionError(GlowError):
    """An operator, instruction, kernel or pass is declared wrongly; found when it is declared."""


class ParseError(GlowError):
    """Text that is not valid IR: ``path:line:column: message``, the line, and a caret."""

    def __init__(self, path: str, line: int, column: int, source_line: str, message: str) -> None:
        """Point at *column* (from 1) of *line* (from 1), whose text is *source_line*."""
        caret = " " * (column - 1) + "^"
        super().__init__(f"{path}:{line}:{column}: {message}\n    {source_line}\n    {caret}")
        self.path, self.line, self.column, self.message = path, line, column, message


class VerifyError(GlowError):
    """The IR breaks a rule; ``subject`` is the offending node, instruction or function."""

    def __init__(self, subject: object, message: str) -> None:
        """Name the *subject* before the *message*."""
        super().__init__(f"{subject!r}: {message}")
        self.subject, self.message = subject, message

    @override
    def __reduce__(self) -> tuple[Callable[..., GlowError], tuple[object, ...]]:
        """Send the subject as text: a program has objects that stay in their process."""
        return _restored, (
            type(self),
            self.args,
            {**self.__dict__, "subject": repr(self.subject)},
        )


class UnsupportedError(GlowError):
    """Something valid that this version cannot do: an operator, an attribute, an element kind."""


class ModelError(GlowError):
    """A model file or graph that is broken: where it is, what is wrong, what would be right."""


class FeedError(GlowError):
    """The arrays given to ``run`` do not fit the inputs of the network."""


class StateError(GlowError):
    """State that does not fit, is not there, or is in use by another run."""


class OptionError(GlowError):
    """An argument of the public API or of the command has no meaning: says which are valid."""


class PassError(GlowError):
    """A pass failed or broke the IR; the message names it and the passes before it."""


class GradientError(GlowError):
    """A gradient that cannot be made: of what, and which operators are in the way."""


class TrainingError(GlowError):
    """A step of training whose loss is not finite; says where that begins."""


class CalibrationError(GlowError):
    """Samples that no ranges come from, or ranges that are not those of the network."""


class MemoryLimitError(GlowError):
    """Something needs more memory than the process may have, or than the system gives."""


class CompileError(GlowError):
    """Generated source could not be made into machine code, or the code could not be loaded."""


class PartitionError(GlowError):
    """A network that cannot be placed on the devices: what is missing where."""


class DeviceError(GlowError):
    """A device that died, hangs or does not answer; the message begins with its name."""


class RefusedError(GlowError):
    """A request that was not taken: the queue is full, or the host or network is going away."""


class DeadlineError(GlowError):
    """A request whose answer was not there in time."""


class UnboundDimension(ModelError):
    """A model has dimensions without a size; bind them by ``shapes`` or at the first run.

    Attributes:
        names: The symbols that have no size.
        signature: Declared shape of each input; None where not even the rank is known.
    """

    def __init__(
        self,
        place: str,
        names: Sequence[str],
        signature: Mapping[str, tuple[int | str, ...] | None],
    ) -> None:
        """Complain about *names* in the model at *place*."""
        example = ", ".join(f"{name!r}: 1" for name in names)
        wheres = "; ".join(
            f"input {name!r} is {'of unknown rank' if shape is None else list(shape)}"
            for name, shape in signature.items()
            if shape is None or any(isinstance(n, str) for n in shape)
        )
        super().__init__(
            f"{place}: its dimensions {list(names)} have no size ({wheres}); "
            f"bind them, for example shapes={{{example}}}"
        )
        self.names, self.signature = tuple(names), dict(signature)


class UnboundInput(UnsupportedError):
    """A value that shapes depend on is computed from inputs that are known at run time only.

    Attributes:
        names: Those inputs; give them by ``import_onnx(..., constants={name: array})``.
    """

    def __init__(self, message: str, names: Sequence[str]) -> None:
        """Complain with *message* about the inputs called *names*."""
        super().__init__(message)
        self.names = tuple(names)
