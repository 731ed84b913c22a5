"""Observers: the IR in files, times, several of them at once."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.helper import make_node

import glow_nb
from glow_nb.backends import backend_named
from glow_nb.base.errors import GlowError, OptionError
from glow_nb.base.passes import STEP_NAMES, PassRun
from glow_nb.compiler.program_passes import PROGRAM_PASSES
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.llir.program import Program
from glow_nb.network.files import load_text, parse_text
from glow_nb.network.ir_text import ir_text
from glow_nb.observers import PrintDiff, Timing, WriteIR, each
from tests.unit.formats.onnx.importer.models import model, value

NAME = '../../etc/"x"\n'


def graph() -> Function:
    """Return ``softmax(x w)`` behind two transposes that cancel, with a name nobody can trust."""
    b = glow_nb.Builder("main")
    x = b.input("x", "float32<2 x 3>")
    w = b.constant(NAME, np.arange(60, dtype=np.float32).reshape(3, 20))
    there = b.emit(ops.Transpose(x, (1, 0)), f"{NAME} there")
    back = b.emit(ops.Transpose(there, (1, 0)), "back")
    b.save(b.emit(ops.Softmax(b.emit(ops.MatMul(back, w)), axis=1)), "y")
    return b.function()


def test_ir_is_written_when_it_changed(tmp_path: Path) -> None:
    runs: list[PassRun] = []
    write = WriteIR(tmp_path / "new" / "steps")
    glow_nb.compile(graph(), backend="interpreter", observer=each(write, runs.append))
    names = [path.name for path in write.written]
    assert names[0] == "00-import.glow"
    assert names[-1] == f"{len(names) - 1:02d}-allocate.glow"
    changed = ["import", *(run.name for run in runs if run.changed)]
    assert names == [f"{i:02d}-{name}.glow" for i, name in enumerate(changed)]
    assert {"sink_transposes", "generate"} <= set(changed)
    assert sorted(p.name for p in (tmp_path / "new" / "steps").iterdir()) == sorted(names)
    states = [runs[0].before, *(run.after for run in runs if run.changed)]
    for path, state in zip(write.written, states, strict=True):
        assert path.read_text() == ir_text(state)
        assert ir_text(parse_text(path.read_text())) == ir_text(state)


def test_nothing_of_the_model_gets_into_paths(tmp_path: Path) -> None:
    write = WriteIR(tmp_path / "steps")
    write(PassRun("../<lambda> a/b", graph(), graph(), 0.0))
    assert [p.name for p in write.written] == ["00-import.glow", "01-____lambda__a_b.glow"]
    assert [p.name for p in tmp_path.iterdir()] == ["steps"]


def test_states_with_constants_run(tmp_path: Path) -> None:
    write = WriteIR(tmp_path, constants=True)
    net = glow_nb.compile(graph(), backend="interpreter", observer=write)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for path in (write.written[0], write.written[-1]):
        again = glow_nb.compile(load_text(path), backend="interpreter")
        np.testing.assert_array_equal(again.run(x)["y"], net.run(x)["y"])


def test_files_of_an_earlier_compilation_go_and_others_stay(tmp_path: Path) -> None:
    for name in ("77-sink_transposes.glow", "77-sink_transposes.npz", "notes.txt", "7-a.glow"):
        (tmp_path / name).write_text("old")
    glow_nb.compile(graph(), backend="interpreter", observer=WriteIR(tmp_path))
    left = {path.name for path in tmp_path.iterdir() if path.read_text() == "old"}
    assert left == {"notes.txt", "7-a.glow"}


def test_a_second_compilation_goes_on_counting(tmp_path: Path) -> None:
    write = WriteIR(tmp_path)
    for _ in range(2):
        glow_nb.compile(graph(), backend="interpreter", observer=write)
    imports = [path.name for path in write.written if "import" in path.name]
    assert imports == ["00-import.glow", f"{len(write.written) // 2:02d}-import.glow"]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    for folder in (path, path / "below"):
        with pytest.raises(GlowError, match="cannot be written"):
            glow_nb.compile(graph(), backend="interpreter", observer=WriteIR(folder))


def test_the_steps_between_the_pipelines_are_observed() -> None:
    runs: list[PassRun] = []
    net = glow_nb.compile(graph(), backend="interpreter", observer=runs.append)
    names = [run.name for run in runs]
    order = [names.index(name) for name in ("lower", "schedule", "generate", "allocate")]
    assert order == sorted(order)
    for before, after in pairwise(runs):
        assert after.before is before.after
    (generate,) = (run for run in runs if run.name == "generate")
    assert isinstance(generate.before, Function)
    assert isinstance(generate.after, Program)
    assert runs[-1].after is net.program


def test_times_are_summed_and_sorted() -> None:
    timing = Timing()
    ir = graph()
    for name, seconds, after in (("quick", 0.001, ir), ("slow", 0.5, ir), ("slow", 0.25, graph())):
        timing(PassRun(name, ir, after, seconds))
    assert (timing.steps["slow"].runs, timing.steps["slow"].changes) == (2, 1)
    assert timing.seconds == pytest.approx(0.751)
    head, first, second = str(timing).splitlines()
    assert head.split() == ["step", "runs", "changes", "milliseconds"]
    assert first.split() == ["slow", "2", "1", "750.00"]
    assert second.split() == ["quick", "1", "0", "1.00"]


def test_the_module_is_there_without_an_import_of_its_own() -> None:
    assert glow_nb.observers.WriteIR is WriteIR


def test_what_steps_did_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    glow_nb.compile(graph(), backend="interpreter", observer=PrintDiff("sink_transposes"))
    printed = capsys.readouterr().out
    assert "sink_transposes: " in printed
    assert "-  %back = transpose(" in printed
    assert "eliminate_dead_nodes" not in printed
    glow_nb.compile(graph(), backend="interpreter", observer=PrintDiff())
    assert "eliminate_dead_nodes: " in capsys.readouterr().out


def test_a_step_that_is_misspelt_is_refused() -> None:
    with pytest.raises(OptionError, match="step 'sink_transpose'.*did you mean 'sink_transposes'?"):
        PrintDiff("sink_transpose")
    with pytest.raises(OptionError, match="step 'my_own'.*give the function"):
        PrintDiff("my_own")
    with pytest.raises(OptionError, match="step 3: give the name"):
        PrintDiff(3)  # type: ignore[arg-type]
    PrintDiff("select_packed_operators", "lower", "peephole")


def keep_everything(function: Function) -> Function:
    """Change nothing, in spite of its name."""
    return function


def test_a_step_that_showed_nothing_is_told_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    steps = ("sink_transposes", "fold_pads", "generate", "select_packed_operators", keep_everything)
    show = PrintDiff(*steps)
    pipeline = (*glow_nb.INFERENCE, keep_everything)
    for _ in range(2):
        glow_nb.compile(graph(), backend="interpreter", observer=each(show), pipeline=pipeline)
        lines = capsys.readouterr().out.splitlines()
        assert "-  %back = transpose(" in "\n".join(lines)
        assert lines[-4:] == [
            "fold_pads: nothing to show, it changed nothing",
            "generate: nothing to show, it makes a Program of a Function, which have no lines in "
            "common; WriteIR writes both",
            "select_packed_operators: nothing to show, it is no step of this compilation",
            "keep_everything: nothing to show, it changed nothing",
        ]


def test_observers_are_told_the_end_once() -> None:
    class Ending:
        ended = 0

        def __call__(self, run: PassRun, /) -> None:
            assert not self.ended

        def finish(self) -> None:
            self.ended += 1

    first, second = Ending(), Ending()
    glow_nb.compile(graph(), backend="interpreter", observer=each(first, each(second)))
    assert (first.ended, second.ended) == (1, 1)


def test_an_observer_that_fails_at_the_end_is_named() -> None:
    class Stumbling(Timing):
        def finish(self) -> None:
            raise LookupError

    with pytest.raises(GlowError, match="observer 'Stumbling', at the end: LookupError"):
        glow_nb.compile(graph(), backend="interpreter", observer=Stumbling())


@pytest.mark.jit
def test_the_times_of_the_steps_sum_to_that_of_the_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.onnx"
    nodes = [make_node("Tanh", ["x"], ["v0"])]
    nodes += [make_node("MatMul", [f"v{i}", f"v{i}"], [f"v{i + 1}"]) for i in range(400)]
    onnx.save(model(nodes, [value("x", (40, 40))], outputs=["v400"]), path)
    monkeypatch.setenv("GLOW_NB_CACHE_DIR", str(tmp_path / "cache"))
    # what other processes take of the cores belongs to no step
    monkeypatch.setattr(time, "perf_counter", time.process_time)
    steps: set[str] = set()
    parts = []
    for _ in range(3):  # the cache is empty only once
        timing = Timing()
        began = time.perf_counter()
        glow_nb.compile(path, threads=1, observer=timing)
        parts.append(timing.seconds / (time.perf_counter() - began))
        steps |= timing.steps.keys()
    assert 0.95 <= parts[0] <= 1, parts
    # nor does what the garbage collector happens to take between two steps
    assert 0.95 <= max(parts[1:]) <= 1, parts
    own = backend_named("cpu").compile_steps
    assert steps <= {*STEP_NAMES, *own, *GRAPH_PASSES.passes, *PROGRAM_PASSES.passes}
    wanted = {"import", "backend", "verify", "lower", "generate_source", "fill_constants"}
    assert wanted | {"compile_kernels", "load_code", "fold_constants", "peephole"} <= steps
