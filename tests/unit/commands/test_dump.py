"""``glow-nb dump`` and ``glow-nb check``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import glow_nb
from glow_nb.backends import backend_named
from glow_nb.base.passes import PassRun
from glow_nb.commands.stages import Stages
from glow_nb.hlir.graph import Function
from glow_nb.hlir.print import print_function
from glow_nb.llir.print import print_program
from glow_nb.llir.program import Program
from glow_nb.network.compilation import lower_for
from glow_nb.network.files import load_text, parse_text
from glow_nb.network.ir_text import ir_text
from tests.unit.commands.samples import (
    GRAPH,
    call,
    fails,
    save_array,
    write_convolution,
    write_dense,
    write_graph,
)

INTERPRETER = ("--backend", "interpreter")
STEPS = (
    "import",
    "fold_constants",
    "sink_transposes",
    "eliminate_dead_nodes",
    "lower",
    "schedule",
    "generate",
    "eliminate_dead_stores",
    "shrink_lifetimes",
    "allocate",
)


def parse_graph(text: str) -> Function:
    ir = parse_text(text)
    assert isinstance(ir, Function)
    return ir


def test_graph_as_imported_and_lowered(tmp_path: Path) -> None:
    model = write_graph(tmp_path)
    assert call("dump", model, "--after", "import").output == GRAPH
    lowered = lower_for(parse_graph(GRAPH), backend_named("interpreter"))
    assert call("dump", model, *INTERPRETER).output == print_function(lowered)
    assert "packed_mat_mul" in call("dump", model, "--after", "select_packed_operators").output


def test_winograd_is_chosen_unless_it_is_off(tmp_path: Path) -> None:
    model = write_convolution(tmp_path)
    assert "winograd_convolution" in call("dump", model).output
    assert "guarded = true" in call("dump", model, "--winograd", "guarded").output
    assert "packed_convolution" in call("dump", model, "--winograd", "off").output
    assert "sometimes" in call("dump", model, "--winograd", "sometimes").stderr


@pytest.mark.parametrize("step", STEPS)
def test_text_of_every_step_comes_back(tmp_path: Path, step: str) -> None:
    text = call("dump", write_dense(tmp_path), "--after", step, *INTERPRETER).output
    ir = parse_text(text)
    assert (print_program(ir) if isinstance(ir, Program) else print_function(ir)) == text


def test_every_pass_of_the_pipelines_is_a_step() -> None:
    stages = Stages(parse_graph(GRAPH), backend_named("cpu"))
    assert set(STEPS) | {"select_packed_operators"} <= {*stages.graph_steps, *stages.program_steps}
    for step in stages.graph_steps:
        assert isinstance(stages.after(step), Function)
    for step in stages.program_steps:
        assert isinstance(stages.after(step), Program)


def test_after_shows_the_last_run(tmp_path: Path) -> None:
    states: list[Function] = []

    def observe(run: PassRun, /) -> None:
        if run.name == "eliminate_dead_nodes":
            states.append(run.after)

    lower_for(parse_graph(GRAPH), backend_named("cpu"), observer=observe)
    text = call("dump", write_graph(tmp_path), "--after", "eliminate_dead_nodes").output
    assert text == print_function(states[-1]) != print_function(states[0])


def test_program_is_allocated(tmp_path: Path) -> None:
    program = parse_text(call("dump", write_graph(tmp_path), "--level", "llir").output)
    assert isinstance(program, Program)
    assert program.arena is not None


@pytest.mark.parametrize("level", ["hlir", "llir"])
def test_output_runs_to_the_same_result(tmp_path: Path, level: str) -> None:
    model = write_dense(tmp_path)
    dumped = tmp_path / "dumped.glow"
    result = call("dump", model, "--level", level, "--output", dumped, *INTERPRETER)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"wrote {dumped}\n")
    assert dumped.with_suffix(".npz").exists()
    x = save_array(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    outputs = []
    for source, name in ((model, "first"), (dumped, "second")):
        out = tmp_path / f"{name}.npz"
        result = call("run", source, "--input", x, "--save", out, *INTERPRETER)
        assert result.exit_code == 0, result.output
        with np.load(out) as archive:
            outputs.append(archive["y"])
    np.testing.assert_array_equal(*outputs)


def test_program_text_dumps_as_it_is(tmp_path: Path) -> None:
    dumped = tmp_path / "program.glow"
    call("dump", write_dense(tmp_path), "--level", "llir", "--output", dumped)
    text = dumped.read_text().partition("\n")[2]  # behind the line that names its constants
    assert call("dump", dumped).output == text
    assert call("dump", dumped, "--level", "llir", "--after", "import").output == text
    assert "has no graph" in fails("dump", dumped, "--level", "hlir")
    assert "no pass is run" in fails("dump", dumped, "--after", "lower")
    assert "--dot draws graphs" in fails("dump", dumped, "--dot", code=2)


def test_dot(tmp_path: Path) -> None:
    text = call("dump", write_graph(tmp_path), "--after", "import", "--dot").output
    assert text.startswith("digraph {")
    picture = tmp_path / "net.dot"
    call("dump", write_graph(tmp_path), "--after", "import", "--dot", "--output", picture)
    assert picture.read_text() == text


def test_unknown_step_lists_all(tmp_path: Path) -> None:
    message = fails("dump", write_graph(tmp_path), "--after", "lowr")
    assert "did you mean 'lower'?" in message
    for step in STEPS:
        assert step in message


def test_contradictions(tmp_path: Path) -> None:
    model = write_graph(tmp_path)
    assert "level hlir, not llir" in fails("dump", model, "--level", "llir", "--after", "lower")
    assert "level llir, not hlir" in fails("dump", model, "--level", "hlir", "--after", "allocate")
    fails("dump", model, "--level", "source", "--dot", code=2)
    assert "generates no source" in fails("dump", model, "--level", "source", *INTERPRETER)
    message = fails("dump", model, "--output", tmp_path / "x.txt", code=2)
    assert "not named FILE.glow" in message


def test_unwritable_output(tmp_path: Path) -> None:
    message = fails("dump", write_graph(tmp_path), "--output", tmp_path / "missing" / "x.glow")
    assert "there is no folder" in message


def test_symbolic_dimensions_need_sizes(tmp_path: Path) -> None:
    assert "--shape n=1" in fails("dump", write_dense(tmp_path, "n"))
    result = call("dump", write_dense(tmp_path, "n"), "--shape", "n=4", "--after", "import")
    assert "%x : float32<4 x 3>" in result.output


class TestCheck:
    def test_graph(self, tmp_path: Path) -> None:
        model = write_graph(tmp_path)
        expected = f"{model}: graph @main, 3 nodes, 1 constant, 1 input, 1 output\n"
        assert call("check", model).output == expected

    def test_program(self, tmp_path: Path) -> None:
        path = tmp_path / "program.glow"
        call("dump", write_dense(tmp_path), "--level", "llir", "--output", path, *INTERPRETER)
        program = load_text(path)
        assert isinstance(program, Program)
        output = call("check", path).output
        assert output.startswith(f"{path}: program @")
        assert ", 1 input, 1 output, arena of " in output
        path.with_suffix(".npz").unlink()
        assert ", 1 of them without numbers, 1 input" in call("check", path).output

    def test_onnx(self, tmp_path: Path) -> None:
        assert ": graph @" in call("check", write_dense(tmp_path)).output

    def test_shapes(self, tmp_path: Path) -> None:
        model = write_dense(tmp_path, "n")
        assert "give sizes: --shape n=1" in fails("check", model)
        assert ": graph @" in call("check", model, "--shape", "n=4").output
        assert "its sizes are fixed" in fails("check", write_graph(tmp_path), "--shape", "n=4")

    def test_standard_input(self) -> None:
        result = call("check", "-", text=GRAPH)
        assert result.output == "-: graph @main, 3 nodes, 1 constant, 1 input, 1 output\n"

    def test_a_program_of_packed_operators_comes_through_a_pipe(self, tmp_path: Path) -> None:
        text = call("dump", write_graph(tmp_path), "--level", "llir").output
        assert "packed_mat_mul" in text
        script = "from glow_nb.cli import main; main(['check', '-'])"
        done = subprocess.run(
            [sys.executable, "-c", script], input=text, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("-: program @main")

    def test_syntax_error_has_its_place(self, tmp_path: Path) -> None:
        path = tmp_path / "net.glow"
        path.write_text(GRAPH.replace("mat_mul", "mat_mull"))
        message = fails("check", path)
        assert f"{path}:3:14: " in message
        assert "\n                 ^" in message

    def test_type_error_has_its_place(self, tmp_path: Path) -> None:
        path = tmp_path / "net.glow"
        path.write_text(GRAPH.replace("float32<3 x 2>)", "float32<3 x 4>)", 1))
        assert f"{path}:3:" in fails("check", path)

    def test_overlap_is_found(self, tmp_path: Path) -> None:
        path = tmp_path / "program.glow"
        path.write_text(
            "declare @main {\n"
            "  %x = input float32<64>\n"
            "  %y = output float32<64>\n"
            "}\n"
            "program arena 512 of at least 512 {\n"
            "  %a = alloc float32<64> at 0\n"
            "  exp @out %a, @in %x\n"
            "  %b = alloc float32<64> at 0\n"
            "  exp @out %b, @in %x\n"
            "  add @out %y, @in %a, @in %b\n"
            "  dealloc %a\n"
            "  dealloc %b\n"
            "}\n"
        )
        assert "overlaps" in fails("check", path)

    @pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"PK\x03\x04", b"func"])
    def test_no_ir_text(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "net.glow"
        path.write_bytes(content)
        assert str(path) in fails("check", path)

    def test_folder_and_missing_file(self, tmp_path: Path) -> None:
        assert str(tmp_path) in fails("check", tmp_path)
        assert "nowhere.glow" in fails("check", "nowhere.glow")


def test_every_state_goes_into_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "steps"
    result = call("dump", write_dense(tmp_path), "--after-each-pass", folder, *INTERPRETER)
    assert (result.exit_code, result.stdout) == (0, "")
    names = sorted(path.name for path in folder.iterdir())
    assert result.stderr == f"wrote {len(names)} files to {folder}\n"
    assert names[0] == "00-import.glow"
    assert names[-1].endswith("-allocate.glow")
    last = call("dump", write_dense(tmp_path), "--level", "llir", *INTERPRETER).output
    assert "program arena" in (folder / names[-1]).read_text() == last


def test_every_state_and_one_state_do_not_go_together(tmp_path: Path) -> None:
    model = write_graph(tmp_path)
    fails("dump", model, "--after-each-pass", tmp_path / "a", "--after", "lower", code=2)
    assert "cannot be written" in fails("dump", model, "--after-each-pass", model)
    program = tmp_path / "program.glow"
    call("dump", model, "--level", "llir", "--output", program)
    message = fails("dump", program, "--after-each-pass", tmp_path / "a")
    assert "no pass is run" in message


@pytest.mark.jit
@pytest.mark.parametrize("options", [(), ("--threads", 1), ("--threads", 2, "--winograd", "off")])
def test_what_is_dumped_is_what_runs(tmp_path: Path, options: tuple[object, ...]) -> None:
    model = write_convolution(tmp_path)
    given = dict(zip(options[::2], options[1::2], strict=True))
    net = glow_nb.compile(
        str(model),
        threads=given.get("--threads"),  # type: ignore[arg-type]
        winograd=given.get("--winograd", "auto"),
    )
    assert call("dump", model, "--level", "llir", *options).output == ir_text(net.program)
    source = call("dump", model, "--level", "source", *options).output
    assert source.rstrip("\n") == net.source.rstrip("\n")
