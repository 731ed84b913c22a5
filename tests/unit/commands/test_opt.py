"""``glow-nb opt``: passes by name, on both levels."""

from __future__ import annotations

from pathlib import Path

import pytest

from glow_nb.compiler.pipelines import TRAINING
from glow_nb.hlir.graph import Function
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.llir.program import Program
from glow_nb.network.files import load_text, parse_text
from tests.unit.commands.samples import (
    GRAPH,
    call,
    fails,
    write_convolution,
    write_dense,
    write_graph,
)

OVERLAP = """\
declare @main {
  %x = input float32<64>
  %y = output float32<64>
}
program arena 512 of at least 512 {
  %a = alloc float32<64> at 0
  exp @out %a, @in %x
  %b = alloc float32<64> at 0
  exp @out %b, @in %x
  add @out %y, @in %a, @in %b
  dealloc %a
  dealloc %b
}
"""


def test_a_pass_runs_on_a_graph(tmp_path: Path) -> None:
    model = write_dense(tmp_path)
    text = call("opt", model, "--passes", "raise_fully_connected,lower").output
    assert isinstance(parse_text(text), Function)
    assert (
        call("opt", model, "--passes", "verify").output
        == call("dump", model, "--after", "import").output
    )


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("write", [write_graph, write_convolution])
def test_the_whole_order_by_name_is_what_dump_shows(
    tmp_path: Path, backend: str, write: object
) -> None:
    assert callable(write)
    flags = {"cpu": ("--winograd", "off"), "interpreter": ()}[backend]
    model, to = write(tmp_path), ("--backend", backend, *flags)
    own = {
        "cpu": "select_packed_operators,sink_transposes,split_reductions,"
        "fold_constants,eliminate_noops,eliminate_common_nodes,eliminate_dead_nodes,",
        "interpreter": "",
    }[backend]
    last = {"cpu": "plan_kernels,", "interpreter": ""}[backend]
    passes = f"INFERENCE,lower,INFERENCE,{own}schedule,generate,INSTRUCTIONS,{last}allocate"
    made = call("opt", model, "--passes", passes, "--verify", *to)
    assert made.exit_code == 0, made.output
    assert made.output == call("dump", model, "--level", "llir", *to).output


def test_options_stand_behind_a_name(tmp_path: Path) -> None:
    program = tmp_path / "program.glow"
    program.write_text(OVERLAP)
    text = call("opt", program, "--passes", "allocate{alignment = 1024}, verify").output
    assert "at 1024" in text
    assert "no option 'align'; did you mean 'alignment'?" in fails(
        "opt", program, "--passes", "allocate{align = 2}"
    )
    message = fails("opt", program, "--passes", 'allocate{alignment = "x"}')
    assert "alignment='x': give a number of bytes" in message
    message = fails("opt", write_graph(tmp_path), "--passes", 'rematerialize{budget = "x"}')
    assert "budget='x': give a whole number of at least 0" in message


def test_the_passes_of_training_have_a_name() -> None:
    there_and_back = """\
func @main(%x : float32<2 x 3>) -> (%y : float32<2 x 3>) {
  %t = transpose(%x) {permutation = [1, 0]} : float32<3 x 2>
  %r = relu(%t) : float32<3 x 2>
  %u = transpose(%r) {permutation = [1, 0]} : float32<2 x 3>
  %y_save = save(%u, %y)
}
"""
    made = parse_text(call("opt", "-", "--passes", "TRAINING", text=there_and_back).output)
    function = parse_text(there_and_back)
    assert isinstance(function, Function)
    assert str(made) == str(GRAPH_PASSES.run(function, TRAINING)) != str(function)


def test_text_goes_through_a_pipe_and_into_a_file(tmp_path: Path) -> None:
    output = tmp_path / "made.glow"
    made = call("opt", "-", "--passes", "lower", "--output", output, text=GRAPH)
    assert (made.exit_code, made.stdout, made.stderr) == (0, "", f"wrote {output}\n")
    assert isinstance(load_text(output), Function)
    assert isinstance(
        parse_text(call("opt", "-", "--passes", "schedule,generate", text=GRAPH).output), Program
    )
    message = fails("opt", output, "--passes", "lower", "--output", tmp_path / "x.txt", code=2)
    assert "not named FILE.glow" in message


def test_a_file_is_rewritten_in_place(tmp_path: Path) -> None:
    path = write_graph(tmp_path)
    made = call("opt", path, "--passes", "generate", "--output", path)
    assert (made.exit_code, made.stderr) == (0, f"wrote {path}\n")
    assert isinstance(load_text(path), Program)


def test_verify_finds_what_was_wrong_before(tmp_path: Path) -> None:
    program = tmp_path / "program.glow"
    program.write_text(OVERLAP)
    assert call("opt", program, "--passes", "verify").exit_code == 0
    assert "overlaps" in fails("opt", program, "--passes", "verify", "--verify")
    assert "overlaps" in fails("opt", program, "--passes", "check_placement")
    placed = call("opt", program, "--passes", "allocate", "--verify")
    assert placed.exit_code == 0, placed.output


def test_a_pass_that_changes_a_program_leaves_it_without_placement(tmp_path: Path) -> None:
    program = tmp_path / "program.glow"
    program.write_text(OVERLAP)
    assert " at " not in call("opt", program, "--passes", "stack_instructions").output


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        ("peephol", "--passes peephol: there is no such step; did you mean 'peephole'?"),
        ("lowr", "--passes lowr: there is no such step; did you mean 'lower'?"),
        ("INFERENC", "did you mean 'INFERENCE'?"),
        (
            "nosuch",
            "no such step\n  pipelines: INFERENCE, INSTRUCTIONS, TRAINING\n  steps: verify, ",
        ),
        ("nosuch", "\n  graph passes: "),
        ("nosuch", "\n  instruction passes: "),
        ("peephole", "it takes a program, but would get a graph; generate first"),
        ("generate,lower", "step 'lower': it takes a graph, but would get a program"),
        ("", "--passes:1:1: expected the name of a pass"),
        ("lower,", "--passes:1:7: expected the name of a pass"),
        ("lower schedule", "--passes:1:7: expected ','"),
    ],
)
def test_what_cannot_run_is_told(tmp_path: Path, passes: str, message: str) -> None:
    assert message in fails("opt", write_graph(tmp_path), "--passes", passes)


def test_shapes_belong_to_onnx(tmp_path: Path) -> None:
    open_model = write_dense(tmp_path, "n")
    made = call("opt", open_model, "--passes", "lower", "--shape", "n=5")
    assert "%x : float32<5 x 3>" in made.output
    assert "its sizes are fixed" in fails(
        "opt", write_graph(tmp_path), "--passes", "lower", "--shape", "n=4"
    )
