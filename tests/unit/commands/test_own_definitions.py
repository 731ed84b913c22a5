"""``--import FILE.py``: definitions of a user that a command knows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from onnx import TensorProto, helper, save

from glow_nb.base.extensions import EXTENDING_MODULES
from glow_nb.cli import COMMANDS, main
from glow_nb.formats.onnx.importer.registry import OWN, RULES
from glow_nb.hlir.passes import GRAPH_PASSES
from tests.unit.commands.samples import call, fails, write_graph

DOMAIN = "test.command"

RULE = f"""
from glow_nb.extend import ImportContext, OnnxNode, imports
from glow_nb import Value
from shared_in_test import NAME

@imports({DOMAIN!r}, NAME)
def scaled(context: ImportContext, node: OnnxNode) -> Value:
    return (context.term(node.operand(0)) * 2.0).value
"""

PASS = """
import glow_nb

@glow_nb.register_pass
def pass_of_test(function: glow_nb.Function) -> glow_nb.Function:
    print("it runs")
    return function
"""


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Leave no rule, module or folder behind."""
    folders, modules = list(sys.path), dict(EXTENDING_MODULES)
    yield
    EXTENDING_MODULES.clear()  # networks of later tests would have no key: files are gone
    EXTENDING_MODULES.update(modules)
    sys.path[:] = folders
    for name in [name for name in sys.modules if name.endswith(("_of_test", "_in_test"))]:
        del sys.modules[name]
    GRAPH_PASSES.passes.pop("pass_of_test", None)
    RULES.pop((DOMAIN, "Scaled"), None)
    OWN.clear()


def write_model(folder: Path) -> Path:
    """Write a model with an operator of the domain."""
    node = helper.make_node("Scaled", ["x"], ["y"], name="node", domain=DOMAIN)
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(DOMAIN, 1)]
    graph = helper.make_graph([node], "graph", infos[:1], infos[1:])
    save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "scaled.onnx")
    return folder / "scaled.onnx"


def write(path: Path, text: str) -> Path:
    """Write *text* to *path*, which is returned."""
    path.write_text(text)
    return path


def test_a_command_knows_what_a_file_registers(tmp_path: Path) -> None:
    model = write_model(tmp_path)
    assert "domain 'test.command' is not known" in fails("check", model)
    write(tmp_path / "shared_in_test.py", "NAME = 'Scaled'")
    rule = write(tmp_path / "rule_of_test.py", RULE)
    more = write(tmp_path / "file_of_test.py", PASS)
    result = call("opt", model, "--import", rule, "--import", more, "--passes", "pass_of_test")
    assert result.exit_code == 0, result.output
    assert "it runs" in result.stdout
    assert "mul(%x" in result.stdout


def test_a_file_runs_once_in_a_process(tmp_path: Path) -> None:
    file = write(tmp_path / "once_in_test.py", "print('it runs')")
    graph = write_graph(tmp_path)
    outputs = [call("check", graph, *["--import", file] * 2).stdout for _ in range(2)]
    assert [text.count("it runs") for text in outputs] == [1, 0]


def test_a_file_is_in_no_package(tmp_path: Path) -> None:
    """A module of glow_nb does not count in the key of a network in the cache, but this one."""
    file = write(tmp_path / "glow_nb.own_in_test.py", "print(__name__, __package__)")
    said = call("check", write_graph(tmp_path), "--import", file).stdout
    assert said.startswith("glow_nb_own_in_test \n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nx = = 2\n", "line 2: SyntaxError: invalid syntax"),
        ("x = 1\nx = y\n", "line 2: NameError: name 'y' is not defined (x = y)"),
        ("\nexit(3)", "line 2: SystemExit: 3 (exit(3))"),
        ("import sys\ndel sys.modules[__name__]\nexit(3)", "line 3: SystemExit: 3 (exit(3))"),
        ("\nimport sys; sys.exit()", "line 2: SystemExit (import sys; sys.exit())"),
        (
            "class E(Exception):\n    def __str__(self): return 1\nraise E",
            "line 3: wrong_in_test.E: <exception str() failed> (raise E)",
        ),
        (
            "from glow_nb.extend import imports\nimports('', 'Reluu')(print)\n",
            "line 2: import rule of 'Reluu': ONNX defines domain '', and has no Reluu",
        ),
        ("def f():\n    return 1 / 0\nf()\n", "line 2: ZeroDivisionError: division by zero"),
    ],
)
def test_a_file_that_fails(tmp_path: Path, text: str, message: str) -> None:
    file, folders = write(tmp_path / "wrong_in_test.py", text), list(sys.path)
    result = call("check", write_graph(tmp_path), "--import", file)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: --import {file}: {message}")
    assert "wrong_in_test" not in sys.modules
    assert sys.path == folders


def test_what_is_no_file_of_python(tmp_path: Path) -> None:
    graph = write_graph(tmp_path)
    for file in (tmp_path / "absent.py", graph, tmp_path):
        said = fails("check", graph, "--import", file)
        assert f"--import {file}: there is no such file of Python" in said
    numpy = write(tmp_path / "numpy.py", "")
    assert "a module 'numpy' is loaded already" in fails("check", graph, "--import", numpy)


def test_an_output_does_not_replace_it(tmp_path: Path) -> None:
    file = write(tmp_path / "kept_in_test.py", "")
    said = fails("dump", write_graph(tmp_path), "--import", file, "--output", file)
    assert f"it would replace {file}, the file of --import" in said


def test_each_command_that_reads_a_model_has_the_option() -> None:
    options = {
        name: {text for parameter in main.commands[name].params for text in parameter.opts}
        for name in COMMANDS
    }
    assert {n for n in COMMANDS if "--import" not in options[n]} == {"cache", "machine"}


def test_a_report_compares_with_it(tmp_path: Path) -> None:
    """Both compilations know it, and the page does not tell its path."""
    file = write(tmp_path / "report_of_test.py", "print('it runs')")
    page = tmp_path / "page.html"
    options = ("--backend", "interpreter", "--runs", 0, "--against-options", "--without fuse")
    said = fails("report", write_graph(tmp_path), "--import", file, "--output", page, *options)
    assert "'fuse'" in said
    options = (*options[:-1], "--without eliminate_dead_nodes")
    result = call("report", write_graph(tmp_path), "--import", file, "--output", page, *options)
    assert result.exit_code == 0, result.output
    assert str(file) not in page.read_text()
