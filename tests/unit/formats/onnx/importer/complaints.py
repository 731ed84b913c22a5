"""What the importer says to a model that it refuses."""

from __future__ import annotations

import pytest

from glow_nb.base.errors import ModelError
from glow_nb.formats.onnx.importer import import_onnx


def complaint(broken: object, error: type[Exception] = ModelError) -> str:
    """Return the message of the error that importing *broken* raises."""
    with pytest.raises(error) as caught:
        import_onnx(broken)  # type: ignore[arg-type]
    assert type(caught.value) is error
    return str(caught.value)
