"""The numbers of a constant or weight: an array, or a recipe that makes it when it is needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

from glow_nb.base.errors import GlowError
from glow_nb.base.types import Array


class Recipe(ABC):
    """Makes numbers at first use, and where they are needed; they may never be used."""

    @abstractmethod
    def make(self) -> Array:
        """Return the numbers, made anew."""

    def write_to(self, place: Array) -> None:
        """Make the numbers in *place*, of the same shape and dtype."""
        np.copyto(place, self.make())

    @cached_property
    def array(self) -> Array:
        """The numbers, made once and kept, as an array that cannot be written."""
        view = self.make().view()
        view.flags.writeable = False
        return view


Payload = Array | Recipe | None
"""None: the numbers are external to the IR text and were not supplied."""


def array_or_none(payload: Payload) -> Array | None:
    """Return the numbers, None if they were not supplied."""
    return payload.array if isinstance(payload, Recipe) else payload


class HasPayload:
    """What has a name, and numbers known at compile time."""

    payload: Payload

    @property
    def array(self) -> Array:
        """The numbers; raises GlowError if they were not supplied."""
        array = array_or_none(self.payload)
        if array is None:
            raise self._missing()
        return array

    def write_to(self, place: Array) -> None:
        """Write the numbers to *place*; raises GlowError if they were not supplied."""
        if isinstance(self.payload, Recipe):
            self.payload.write_to(place)
        else:
            np.copyto(place, self.array)

    def _missing(self) -> GlowError:
        return GlowError(
            f"{type(self).__name__.lower()} {self}: its numbers are external to the IR text and "
            "were not supplied; pass them to the parser (constants=...) or keep the .npz file "
            "beside the text"
        )
