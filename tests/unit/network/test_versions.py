"""``glow_nb.show_versions``."""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb
from glow_nb.network import versions


def test_versions_processor_and_settings_are_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOW_NB_COMPILERS", "2")
    glow_nb.show_versions()
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert shown["glow_nb"] == glow_nb.__version__
    assert shown["numpy"] == np.__version__
    assert shown["GLOW_NB_COMPILERS"] == "2"
    assert {"python", "system", "processor", "cores", "numba", "onnx"} <= shown.keys()


def test_a_numba_that_is_refused_is_called_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "installed_versions", lambda: {"numba": "0.99.0"})
    glow_nb.show_versions()
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert shown["numba"].startswith("0.99.0, which is refused; numba>=")
