"""``glow_nb.show_versions``."""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb


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
