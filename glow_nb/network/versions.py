"""``glow_nb.show_versions``: the facts about the machine that a bug report needs."""

from __future__ import annotations

import os
import platform
import sys

from glow_nb.base.errors import GlowError
from glow_nb.base.foreign import foreign
from glow_nb.base.version import __version__
from glow_nb.codegen.numba_releases import is_tested, requirement
from glow_nb.system.cache_folder import default_folder
from glow_nb.system.cores import available_cores
from glow_nb.system.installed import installed_versions
from glow_nb.system.processor import processor

NEEDED = (
    *("numpy", "numba", "llvmlite", "ml_dtypes", "onnx", "protobuf", "safetensors", "click"),
    *("platformdirs", "pyyaml", "rich", "typing_extensions"),
)
"""The packages that glow_nb needs."""

OPTIONAL = ("onnxruntime", "openvino", "torch", "matplotlib", "pillow", "ray", "uvicorn")
"""Packages that parts of glow_nb use, or with which it is compared."""


def show_versions() -> None:
    """Print the versions of glow_nb and its packages, the processor, and environment variables.

    Paste the text into a bug report. Nothing is compiled or measured.
    """
    found = installed_versions()
    rows = [
        ("glow_nb", __version__),
        ("python", f"{platform.python_version()} ({platform.python_implementation()})"),
        ("system", platform.platform()),
        ("processor", processor() or platform.processor() or platform.machine()),
        ("planned as", _row()),
        ("cores", f"{available_cores()} of {os.cpu_count()}"),
        ("cache folder", str(default_folder() or "none")),
        *((name, found.get(name, "not installed")) for name in NEEDED if name != "numba"),
        ("numba", _numba(found.get("numba"))),
        *((name, found[name]) for name in OPTIONAL if name in found),
        *sorted((name, value) for name, value in os.environ.items() if name.startswith("GLOW_NB_")),
    ]
    width = max(len(name) for name, _ in rows)
    sys.stdout.writelines(f"{name:{width}}  {value}\n" for name, value in rows)


def _numba(version: str | None) -> str:
    """Return the *version* of numba, and whether kernels can be compiled with it."""
    if version is None:
        return "not installed"
    return version if is_tested(version) else f"{version}, which is refused; {requirement()} works"


def _row() -> str:
    """Return the row of the machine that kernels are planned by, or why there is none."""
    try:
        with foreign(GlowError, "the processor cannot be asked"):
            from glow_nb.kernels.target import Target

            target = Target.host()
            return f"{target.chosen_row.machine.name}, {target.lanes} lanes of float32"
    except GlowError as error:
        return str(error)
