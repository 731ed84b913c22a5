"""Names with several definitions: the compiled text does what Python does with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from tests.unit.kernels.running import RunningKernel

pytestmark = pytest.mark.jit

HEAD = "def kernel(dest, scratch, thread, threads):\n"
TEXTS = {
    "a definition in a loop meets the one before it": """
    x = 1
    for i in range(3):
        put(dest, i, x)
        x = x * 2
    put(dest, 3, x)
""",
    "definitions of two branches meet": """
    for i in range(4):
        if i % 2:
            x = 10 + i
        else:
            x = 20 + i
        put(dest, i, x)
        x = 0
""",
    "only one branch defines again": """
    for i in range(4):
        x = i
        if i > 1:
            x = x + 100
        put(dest, i, x)
""",
    "a value is carried around two loops": """
    x = 5
    y = 7
    for i in range(2):
        for j in range(2):
            put(dest, 2 * i + j, x - y)
            z = x
            x = y
            y = z + 1
        x = x + 50
""",
    "a loop is left early": """
    x = 0
    i = 0
    while i < 9:
        x = x + i
        if x > 8:
            break
        i = i + 1
    put(dest, 0, x)
    i = x + i
    put(dest, 1, i)
""",
    "a name is used for an integer and then for a number": """
    x = 3
    put(dest, x, x)
    x = 0.5
    put(dest, 0, x * 4.0)
""",
    "an argument is written over": """
    thread = thread + 2
    put(dest, thread, 1)
    thread = 0
    put(dest, thread, threads)
""",
}


@pytest.mark.parametrize("name", TEXTS)
def test_names_mean_what_they_mean_in_python(name: str) -> None:
    text = HEAD + TEXTS[name].lstrip("\n")
    expected, found = np.zeros(4, np.float32), np.zeros(4, np.float32)

    def put(array: Array, index: int, value: float) -> None:
        array[index] = value

    names: dict[str, Any] = {"put": put}
    exec(text, names)
    names["kernel"](expected, None, 0, 1)
    source = KernelSource("names", text, (ElementKind.FLOAT32,))
    RunningKernel(source, Target.host())(found)
    np.testing.assert_array_equal(found, expected)


def test_a_name_may_be_vectors_of_several_widths() -> None:
    text = HEAD + "".join(
        f"    for i in range({begin}, {end}, {lanes}):\n"
        f"        x = load(dest, i, {lanes})\n"
        "        x = add(x, x)\n"
        "        store(dest, i, x)\n"
        for begin, end, lanes in ((0, 16, 8), (16, 20, 4), (20, 21, 1))
    )
    array = np.arange(24, dtype=np.float32)
    source = KernelSource("names", text, (ElementKind.FLOAT32,))
    RunningKernel(source, Target.host())(array)
    expected = np.arange(24) * np.where(np.arange(24) < 21, 2.0, 1.0)
    np.testing.assert_array_equal(array, expected)
