"""Which releases of numba the code generator takes."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from glow_nb.base.errors import CompileError
from glow_nb.codegen import numba_releases
from glow_nb.codegen.kernel_compiler import kernel_compiler
from glow_nb.codegen.numba_releases import require_tested_numba, requirement

SETTINGS = Path(__file__).parents[3] / "setup.cfg"


def install(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    monkeypatch.setattr(numba_releases, "installed_versions", lambda: versions)


@pytest.mark.parametrize("version", ["0.62.0", "0.62.1", "0.68.1", "0.68.0rc1"])
def test_tested_releases_are_taken(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, numba=version)
    require_tested_numba()


@pytest.mark.parametrize("version", ["0.61.2", "0.69.0", "0.69.0rc1", "1.0.0", "0.70.0.dev0+7.g3"])
def test_other_releases_are_refused_before_they_are_imported(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, numba=version)
    with pytest.raises(CompileError) as caught:
        kernel_compiler()
    message = str(caught.value)
    assert message.startswith(f"numba {version}: ")
    assert "numba 0.62 to 0.68" in message and requirement() in message


def test_a_numba_whose_version_nobody_tells_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    require_tested_numba()


def test_the_installer_is_asked_for_the_same_releases() -> None:
    settings = configparser.ConfigParser()
    settings.read(SETTINGS)
    assert requirement() in settings["options"]["install_requires"].splitlines()
