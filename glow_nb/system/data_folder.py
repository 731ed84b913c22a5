"""Where the external data of a model may lie: in its folder, or where links to there lead.

The cache of a model hub has links with the names that people know, ``snapshots/R/m.onnx`` and
``snapshots/R/m.onnx_data``. Both lead to files in one folder, ``blobs``.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from glow_nb.base.errors import ModelError


class DataFolder(NamedTuple):
    """The folder that a model was found in, and the one that its file lies in.

    They differ if the model is a link.

    Attributes:
        found: The first of them, as a real path.
        real: The second.
    """

    found: str
    real: str

    @classmethod
    def of(cls, model: str) -> DataFolder:
        """Return the folders of the *model* at this path."""
        found = os.path.realpath(os.path.dirname(model))
        return cls(found, os.path.dirname(os.path.realpath(model)))

    def path_of(self, location: str, place: str) -> str:
        """Return the real path of the data called *location*.

        It is looked for where the model was found, then where the model's file lies.

        Raises:
            ModelError: *location* lies outside of these folders, or a link leads out of both.
        """
        bases = dict.fromkeys((self.found, self.real))
        inside = [path for base in bases if (path := _below(base, location))]
        if not inside:
            raise ModelError(
                f"{place}: its data are said to be in {location!r}, which is not a file in the "
                "model's folder; move the file there"
            )
        path = os.path.realpath(next(filter(os.path.lexists, inside), inside[0]))
        if not any(_below(base, path) for base in bases):
            raise ModelError(
                f"{place}: its data are said to be in {location!r}, where a link leads out of the "
                "model's folder; put the file itself there"
            )
        return path


def _below(base: str, location: str) -> str | None:
    """Return the path of *location* as seen from *base*; None if it is none below *base*."""
    if not location or "\0" in location:
        return None
    path = os.path.normpath(os.path.join(base, location))
    return path if path != base and os.path.commonpath([base, path]) == base else None
