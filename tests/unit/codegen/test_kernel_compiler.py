"""numba that does not start is one error of ours, in whatever process it was to start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.in_turn import in_turn

SCRIPT = """
import sys
from pathlib import Path
from glow_nb.codegen.cache import ObjectCache
from glow_nb.codegen.pool import compile_objects
from glow_nb.base.errors import CompileError
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.kernels.target import Target

text = "def kernel(scratch, thread, threads):\\n    return\\n"
try:
    compile_objects(
        [KernelSource("own", text, ())], Target.host(), cache=ObjectCache(None), workers=WORKERS
    )
except CompileError as error:
    print(error)
else:
    print("compiled")
"""


SETTINGS = {
    ("NUMBA_NUM_THREADS", "0"): "ValueError: Number of threads specified must be > 0.",
    ("NUMBA_OPT", "x"): "Environment variable 'NUMBA_OPT' is defined but",
    ("NUMBA_ENABLE_AVX", "perhaps"): "Environment variable 'NUMBA_ENABLE_AVX' is defined but",
}
"""What numba says to values of its variables that it does not take."""


@pytest.mark.jit
@pytest.mark.parametrize(("setting", "workers"), in_turn(SETTINGS, [0, 1], only=[*SETTINGS][:1]))
def test_a_setting_that_numba_does_not_take_is_named(
    setting: tuple[str, str], workers: int
) -> None:
    variable, value = setting
    finished = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("WORKERS", str(workers))],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {variable: value, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    (line,) = finished.stdout.splitlines()
    wanted = f"numba does not start with {variable}={value!r} in the environment; correct or unset"
    assert line.startswith(wanted)
    assert SETTINGS[setting] in line
    assert "Traceback" not in finished.stderr
