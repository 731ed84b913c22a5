"""The options of a description that only one kind of device knows, checked when it is opened."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar, cast

from glow_nb.base.attributes import check_attributes
from glow_nb.base.errors import GlowError, OptionError
from glow_nb.base.schema import closest
from glow_nb.runtime.devices.device_description import (
    KEEP,
    PRECISION,
    UNSUPPORTED,
    WITHOUT,
    DeviceDescription,
)


@dataclass(frozen=True)
class DeviceOptions:
    """The options of a kind of devices, as fields with defaults; here there are none."""

    def __post_init__(self) -> None:
        """Raise GlowError for a value of the wrong type."""
        check_attributes(self)


T = TypeVar("T", bound=DeviceOptions)


def read_options(description: DeviceDescription, kind: type[T]) -> T:
    """Return the options of *description* as a *kind* of them, without ``unsupported``.

    Raises:
        OptionError: There is no such option, or it has no such value.
    """
    known = [field.name for field in fields(kind)]
    known_to_all = (UNSUPPORTED, WITHOUT, PRECISION, KEEP)
    options = {n: value for n, value in description.options.items() if n not in known_to_all}
    for name in options:
        if name not in known:
            raise OptionError(
                f"device {description.name!r}: unknown option {name!r:.80}"
                f"{closest(str(name), known)}; the options of a device of the kind "
                f"{description.kind!r} are {known}"
            )
    try:
        return kind(**cast(dict[str, Any], options))
    except GlowError as error:
        raise OptionError(f"device {description.name!r}: {error}") from error
