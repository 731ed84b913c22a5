"""What an import pulls in: the graph level must work without numba, and start quickly."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "glow_nb",
        "glow_nb.hlir.ops",
        "glow_nb.hlir.optimize",
        "glow_nb.llir.instructions",
        "glow_nb.llir.optimize",
        "glow_nb.importers.onnx",
        "glow_nb.api",
    ],
)
def test_importing_does_not_import_numba(module: str) -> None:
    script = f"import sys, {module}; print(*sorted({{'numba', 'llvmlite'}} & set(sys.modules)))"
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert finished.stdout.split() == []


def test_importing_the_package_alone_imports_no_onnx() -> None:
    script = "import sys, glow_nb; print('onnx' in sys.modules)"
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert finished.stdout.strip() == "False"


def test_every_public_name_exists() -> None:
    import glow_nb

    assert {name for name in glow_nb.__all__ if not hasattr(glow_nb, name)} == set()
    assert set(glow_nb.__all__) <= set(dir(glow_nb))
