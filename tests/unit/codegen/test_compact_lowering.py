"""Integers and ranges of kernels, as they are emitted, against Python."""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind
from glow_nb.codegen import compact_lowering
from glow_nb.codegen.compile import compile_kernel
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from tests.unit.kernels.running import RunningKernel

pytestmark = pytest.mark.jit

INT64 = ElementKind.INT64
LEAST, MOST = -(1 << 63), (1 << 63) - 1
NUMBERS = np.array([LEAST, LEAST + 1, -12, -7, -1, 0, 1, 5, 6, 12, MOST], np.int64)


def run(lines: str, *arrays: Array) -> None:
    """Run *lines* as a kernel of int64 arrays, named a, b, c, on one thread."""
    out = SourceWriter()
    with out.block(f"def kernel({', '.join('abc'[: len(arrays)])}, scratch, thread, threads):"):
        out.line(lines)
    RunningKernel(KernelSource("integers", out.text, (INT64,) * len(arrays)), Target.host())(
        *arrays
    )


def divided(x: int, d: int) -> tuple[int, int]:
    """Return what numba gives for ``x // d`` and ``x % d``."""
    return (0, 0) if d == 0 or (x, d) == (LEAST, -1) else divmod(x, d)


def test_division_by_any_number_goes_down() -> None:
    dividends, divisors = (np.ascontiguousarray(a) for a in np.meshgrid(NUMBERS, NUMBERS))
    found = np.empty((2, NUMBERS.size**2), np.int64)
    run(
        f"for i in range({NUMBERS.size**2}):\n"
        "    put(a, i, get(b, i) // get(c, i))\n"
        f"    put(a, i + {NUMBERS.size**2}, get(b, i) % get(c, i))",
        found,
        dividends,
        divisors,
    )
    pairs = zip(dividends.ravel().tolist(), divisors.ravel().tolist(), strict=True)
    assert found.T.tolist() == [list(divided(*pair)) for pair in pairs]


def test_division_by_constants_goes_down() -> None:
    constants = [1, 2, 3, 7, 64, MOST, -1, -3]
    found = np.empty((len(constants), 2, NUMBERS.size), np.int64)
    lines = [f"for i in range({NUMBERS.size}):"]
    for number, constant in enumerate(constants):
        place = f"{2 * number * NUMBERS.size} + i"
        lines += [
            f"    put(a, {place}, get(b, i) // {constant})",
            f"    put(a, {place} + {NUMBERS.size}, get(b, i) % {constant})",
        ]
    run("\n".join(lines), found, NUMBERS)
    for constant, (quotients, rests) in zip(constants, found.tolist(), strict=True):
        wanted = [divided(x, constant) for x in NUMBERS.tolist()]
        assert list(zip(quotients, rests, strict=True)) == wanted, constant


@pytest.mark.parametrize("step", [1, 3, 8, -1, -4])
def test_ranges_are_those_of_python(step: int) -> None:
    bounds = [(0, 0), (0, 1), (2, 9), (-5, 5), (3, 3), (7, -2), (0, 24), (4, -9)]
    starts, stops = np.array(bounds, np.int64).T.copy()
    found = np.full((len(bounds), 32), 77, np.int64)
    run(
        f"for i in range({len(bounds)}):\n"
        "    count = 0\n"
        f"    for n in range(get(b, i), get(c, i), {step}):\n"
        "        put(a, i * 32 + count, n)\n"
        "        count += 1\n"
        "    put(a, i * 32 + 31, count)",
        found,
        starts,
        stops,
    )
    for (start, stop), row in zip(bounds, found.tolist(), strict=True):
        wanted = list(range(start, stop, step))
        assert row[31] == len(wanted)
        assert row[: len(wanted)] == wanted
        assert set(row[len(wanted) : 31]) <= {77}


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_ranges_that_no_kernel_ends_begin_all_the_same(step: int) -> None:
    bounds = [(0, MOST), (LEAST, -1), (MOST - 5, MOST), (7, LEAST + 8), (LEAST, LEAST + 2)]
    starts, stops = np.array(bounds, np.int64).T.copy()
    found = np.zeros(len(bounds), np.int64)
    run(
        f"for i in range({len(bounds)}):\n"
        f"    for n in range(get(b, i), get(c, i), {step}):\n"
        "        put(a, i, get(a, i) + 1)\n"
        "        if get(a, i) == 3:\n"
        "            break",
        found,
        starts,
        stops,
    )
    assert found.tolist() == [min(3, len(range(*ends, step)[:3])) for ends in bounds]


def test_nothing_of_an_ordinary_kernel_is_left_to_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """What numba calls a function by may change with its version."""
    used: list[object] = []

    def seen(key: object, shorter: compact_lowering.Lowering) -> compact_lowering.Lowering:
        def emit(*arguments: Any) -> Any:
            value = shorter(*arguments)
            used.append(None if value is None else key)
            return value

        return emit

    shorter = {key: seen(key[0], one) for key, one in compact_lowering._SHORTER.items()}
    monkeypatch.setattr(compact_lowering, "_SHORTER", shorter)
    text = (
        "def kernel(a, scratch, thread, threads):\n"
        "    for i in range(3, threads, 2):\n"
        "        put(a, i // 4, i % thread)\n"
    )
    compile_kernel(KernelSource("integers", text, (INT64,)), Target.host())
    assert Counter(used) == Counter([range, "getiter", "iternext", operator.floordiv, operator.mod])


def test_a_range_ends_where_its_bounds_stood_when_it_began() -> None:
    """The bounds may change within, and ``break`` and loops within loops leave ranges open."""
    found = np.zeros(6, np.int64)
    run(
        "end = 4\n"
        "for i in range(end):\n"
        "    end = 9\n"
        "    for j in range(i, 100):\n"
        "        if j == 3:\n"
        "            break\n"
        "        put(a, 4, get(a, 4) + 1)\n"
        "    put(a, i, end)\n"
        "put(a, 5, i)",
        found,
    )
    assert found.tolist() == [9, 9, 9, 9, 3 + 2 + 1, 3]
