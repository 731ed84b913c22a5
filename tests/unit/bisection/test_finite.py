"""The first kernel, and the first value of a model, with a NaN or an infinity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import glow_nb
from glow_nb.bisection import bisect_finite
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from tests.unit.commands.samples import call, fails, save_array


def masked() -> Function:
    """Return ``y = softmax(log(x) + mask)``."""
    b = glow_nb.Builder("main")
    x, mask = b.input("x", "float32<2 x 3>"), b.input("mask", "float32<2 x 3>")
    scores = b.emit(ops.Add(b.emit(ops.Log(x), "log"), mask), "scores")
    b.save(b.emit(ops.Softmax(scores, axis=1), "weights"), "y")
    return b.function()


ONES = np.ones((2, 3), np.float32)
HIDING = np.array([[0, 0, -np.inf]] * 2, np.float32)


def test_kernel_and_operator_are_named() -> None:
    found = bisect_finite(masked(), {"x": -ONES, "mask": 0 * ONES}, backend="interpreter")
    assert found.error is not None and found.error.operators == ("log",)
    assert found.value is not None and (found.value.name, found.value.opcode) == ("log", "log")
    assert found.value.bad.count == 6
    assert "the first value of the model is %log, log of %log: element [0, 0] is nan" in str(found)


def test_what_is_meant_is_excluded() -> None:
    feeds = {"x": ONES, "mask": HIDING}
    found = bisect_finite(masked(), feeds, backend="interpreter")
    assert found.error is not None and found.error.kernel is None
    check = glow_nb.FiniteCheck(exclude=["mask", "scores"])
    found = bisect_finite(masked(), feeds, backend="interpreter", check=check)
    assert found.error is None and found.value is None
    assert str(found) == f"all {found.kernels} kernels make finite numbers"


def test_the_check_is_one_that_compile_takes() -> None:
    feeds = {"x": ONES, "mask": HIDING}
    found = bisect_finite(masked(), feeds, backend="interpreter", check=True)
    assert found.value is not None and found.value.name == "scores"
    with pytest.raises(glow_nb.OptionError, match="check_finite='mask'"):
        bisect_finite(masked(), feeds, backend="interpreter", check="mask")  # type: ignore[arg-type]


def test_a_program_has_kernels_alone() -> None:
    program = glow_nb.compile(masked(), backend="interpreter").program
    found = bisect_finite(program, {"x": -ONES, "mask": ONES}, backend="interpreter")
    assert found.error is not None and found.value is None


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "net.glow"
    glow_nb.save_text(masked(), path)
    x, mask = save_array(tmp_path / "x.npy", ONES), save_array(tmp_path / "mask.npy", HIDING)
    fed = ("--input", f"x={x}", "--input", f"mask={mask}", "--backend", "interpreter")
    result = call("bisect", path, "--finite", *fed)
    assert result.exit_code == 3 and "input 'mask': element [0, 2] is -inf" in result.stdout
    result = call("bisect", path, "--finite", "--exclude", "mask", "--exclude", "scores", *fed)
    assert result.exit_code == 0, result.output
    assert "kernels make finite numbers" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--finite", "--keep-going"), "--keep-going: with --finite one run is checked"),
        (("--exclude", "x"), "--exclude: it says what --finite does not check"),
    ],
)
def test_options_that_say_nothing_are_refused(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "net.glow"
    glow_nb.save_text(masked(), path)
    assert message in fails("bisect", path, *options)
