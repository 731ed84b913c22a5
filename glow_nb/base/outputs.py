"""The results of a run."""

from __future__ import annotations

from typing import NoReturn

from glow_nb.base.errors import GlowError
from glow_nb.base.types import Array


class NoOutputError(GlowError, KeyError):
    """A run has no output of this name."""

    __str__ = Exception.__str__  # that of KeyError would quote the message


class Outputs(dict[str, Array]):
    """Arrays by output name, in the model's order; a dict that says what it holds."""

    def __missing__(self, key: object) -> NoReturn:
        """Raise NoOutputError, which is a KeyError, too."""
        if isinstance(key, int) and -len(self) <= key < len(self):
            name = list(self)[key]
            raise NoOutputError(
                f"output {key}: outputs are found by their names; this one is outputs[{name!r}], "
                "and list(outputs.values()) has all in order"
            )
        raise NoOutputError(f"there is no output {key!r}; the outputs are {list(self) or 'none'}")
