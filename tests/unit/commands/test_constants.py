"""``--constant NAME=VALUE`` fixes an input of a model, in every command that compiles one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

from glow_nb.base.errors import OptionError
from glow_nb.base.types import ElementKind, SymbolicType
from glow_nb.cli import main
from glow_nb.commands.literals import array_of
from tests.unit.commands.samples import fails
from tests.unit.formats.onnx.importer.models import model, value, weight

COMPILING = (
    *("bench", "bisect", "calibrate", "check", "diff", "dump", "export", "info", "opt"),
    *("partition", "profile", "quantize", "run", "train"),
)


@pytest.fixture
def resized(tmp_path: Path) -> str:
    """Return the path of a model that reshapes ``x`` to the numbers of its input ``s``."""
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"])]
    path = tmp_path / "resized.onnx"
    onnx.save(model(nodes, [value("x"), value("s", (2,), TensorProto.INT64)]), path)
    return str(path)


@pytest.mark.parametrize("name", COMPILING)
def test_every_command_that_compiles_takes_constants(name: str) -> None:
    assert "--constant NAME=VALUE" in CliRunner().invoke(main, [name, "--help"]).output


@pytest.mark.parametrize("given", ["s=3,2", "s=[3, 2]", "s=FILE.npy"])
def test_run_fixes_the_input(resized: str, given: str, tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", np.array([3, 2]))
    given = given.replace("FILE.npy", str(tmp_path / "s.npy"))
    arguments = ["run", resized, "--backend", "interpreter", "--constant", given]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "float32<3 x 2>" in result.output


def test_info_fixes_the_input(resized: str) -> None:
    result = CliRunner().invoke(main, ["info", resized, "--constant", "s=6,1"])
    assert "float32<6 x 1>" in result.output
    assert "input s" not in result.output


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("size=3,2", "unknown input 'size'; the inputs are ['x', 's']"),
        ("3,2", "the network has 2 inputs; write NAME=VALUE"),
        ("s=three", "no number, no list of numbers of one length"),
        ("s=[[1,2],[3]]", "no number, no list of numbers of one length"),
        ("s=", "no number, no list of numbers"),
        ("s=" + "[" * 100_000, "no number, no list of numbers"),
        ("s=" + "[" * 40 + "1" + "]" * 40, "is declared int64[2], the constant given for it is"),
        ("s=3.5,2", "the input is int64<2>, which cannot hold these numbers"),
        ("s=1e400,1", "no number, no list of numbers"),
        (f"s={1 << 63},1", "cannot hold these numbers"),
        ("s=1,2,3", "is declared int64[2], the constant given for it is int64<3>"),
        ("s=none.npy", "input file none.npy: cannot be read"),
    ],
)
def test_values_that_do_not_fit(resized: str, given: str, expected: str) -> None:
    assert expected in fails("run", resized, "--constant", given)


def test_constant_that_is_given_twice(resized: str) -> None:
    twice = ("--constant", "s=3,2", "--constant", "s=2,3")
    assert "input 's' is given twice" in fails("run", resized, *twice)


def test_ir_text_has_nothing_to_fix(tmp_path: Path) -> None:
    path = tmp_path / "f.glow"
    path.write_text(
        "func @f(%s : float32<2>) -> (%y : float32<2>) {\n  %y_save = save(%s, %y)\n}\n"
    )
    assert "only inputs of ONNX models can be fixed" in fails("run", str(path), "--constant", "s=1")


@pytest.mark.parametrize(
    ("text", "kind", "shape", "expected"),
    [
        ("16000", ElementKind.INT64, (), np.array(16000)),
        ("16000", ElementKind.INT32, (1,), np.array([16000], np.int32)),
        ("1,2,3,4", ElementKind.UINT8, (2, 2), np.array([[1, 2], [3, 4]], np.uint8)),
        ("[[1],[2]]", ElementKind.INT64, None, np.array([[1], [2]])),
        ("0.1", ElementKind.FLOAT32, (), np.array(0.1, np.float32)),
        ("3", ElementKind.FLOAT16, ("n",), np.array(3, np.float16)),
        ("-inf, NaN", ElementKind.FLOAT32, (2,), np.array([-np.inf, np.nan], np.float32)),
        ("True,false,1", ElementKind.BOOL, (3,), np.array([True, False, True])),
        (str(2**64 - 1), ElementKind.UINT64, (), np.array(2**64 - 1, np.uint64)),
        (str(2**63 - 1), ElementKind.INT64, (), np.array(2**63 - 1)),
    ],
)
def test_numbers_get_the_kind_of_the_input(
    text: str, kind: ElementKind, shape: tuple[int | str, ...] | None, expected: object
) -> None:
    array = array_of(text, SymbolicType(kind, shape), "--constant")
    np.testing.assert_array_equal(array, expected, strict=True)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("256", ElementKind.UINT8), ("-1", ElementKind.UINT64), ("2", ElementKind.BOOL),
     ("true", ElementKind.INT64), ("1e39", ElementKind.FLOAT32), ("8", ElementKind.INT4)],
)  # fmt: skip
def test_numbers_that_the_kind_does_not_have(text: str, kind: ElementKind) -> None:
    with pytest.raises(OptionError, match="cannot hold these numbers"):
        array_of(text, SymbolicType(kind, ()), "--constant")


def test_what_runs_decide_is_not_in_one_program(resized: str) -> None:
    assert "data-dependent sizes" in fails("dump", resized, "--backend", "interpreter")


@pytest.fixture
def scaled(tmp_path: Path) -> str:
    """Return the path of ``y = x * w``, where ``w`` has a default."""
    own = weight("w", np.ones(3, np.float32))
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"])]
    onnx.save(model(nodes, [value("x"), value("w", (3,))], weights=[own]), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    np.save(tmp_path / "w.npy", np.array([5, 6, 7], np.float32))
    return str(tmp_path / "m.onnx")


def test_run_takes_a_file_for_an_input_with_a_default(scaled: str, tmp_path: Path) -> None:
    files = [f"--input={name}={tmp_path}/{name}.npy" for name in "xw"]
    common = ["run", scaled, "--backend", "interpreter"]
    own = CliRunner().invoke(main, [*common, *files[:1]]).output
    assert "input w" not in own
    assert "min 1, max 1" in own
    fed = CliRunner().invoke(main, [*common, *files]).output
    assert "input w: float32<3>, from file" in fed
    assert "min 5, max 7" in fed
    fixed = CliRunner().invoke(main, [*common, *files[:1], "--constant", "w=2,2,9"]).output
    assert "min 2, max 9" in fixed
    opened = CliRunner().invoke(main, [*common, *files, "--shape", "w=3x"]).output
    assert "min 5, max 7" in opened
