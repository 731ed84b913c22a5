"""What the report of a network holds, for each kind of network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import FeedError, GlowError, ModelError, OptionError
from glow_nb.hlir.module import Module
from glow_nb.network.network import Network
from glow_nb.network.reporting.measuring import Subject, measured
from glow_nb.network.reporting.programs import programs_of
from glow_nb.quant.comparison import Drift
from glow_nb.quant.value_drift import ValueDrift
from glow_nb.report.data import Compilation, Item, Part, Report
from glow_nb.report.page import read_page
from tests.caches import SIZES, plain_step
from tests.unit.commands.samples import write_dense

GRAPH = """\
constant %w : float32<2 x 2> = dense [1.0, 0.0, 0.0, 2.0]
constant %unused : float32<2> = splat 1.0
func @main(%x : float32<3 x 2>) -> (%y : float32<3 x 2>) {
  %product = mat_mul(%x, %w) : float32<3 x 2>
  %twice = add(%product, %product) : float32<3 x 2>
  %positive = relu(%twice) : float32<3 x 2>
  %y_save = save(%positive, %y)
}
"""
INT8 = """\
constant %w : int8<2 x 2> = dense [1, 0, 0, 2]
constant %scale : float32<1 x 1> = splat 0.5
constant %offset : uint8<1 x 1> = splat 3
func @main(%x : float32<3 x 2>) -> (%y : float32<3 x 2>) {
  %steps = quantize_linear(%x, %scale, %offset) {kind = uint8} : uint8<3 x 2>
  %rounded = dequantize_linear(%steps, %scale, %offset) : float32<3 x 2>
  %floats = convert_to(%w) {kind = float32} : float32<2 x 2>
  %product = mat_mul(%rounded, %floats) : float32<3 x 2>
  %y_save = save(%product, %y)
}
"""
LOOKUP = """\
func @main(%x : uint8<2, scale = 0.5, offset = 3>) -> (%y : uint8<2, scale = 0.1, offset = 0>) {
  %floats = dequantize(%x) : float32<2>
  %smooth = sigmoid(%floats) : float32<2>
  %q = quantize(%smooth) {kind = uint8, scale = 0.1, offset = 0} : uint8<2, scale = 0.1, offset = 0>
  %y_save = save(%q, %y)
}
"""
WIDE = GRAPH.replace("dense [1.0, 0.0, 0.0, 2.0]", "splat 0.5").replace("x 2>", "x 64>")
WIDE = WIDE.replace("<2 x 64>", "<64 x 64>")
OPEN = """\
func @rows<n in 1..8 like 4>(%x : float32<n x 2>) -> (%y : float32<n x 2>) {
  %positive = relu(%x) : float32<n x 2>
  %y_save = save(%positive, %y)
}
"""
STAGED = """\
func @rows<found in 0..6 like 4>(%x : float32<6 x 2>, %m : float32<6>)
    -> (%y : float32<found x 2>) {
  %places = non_zero(%m) : int64<1 x 6>, int64<>
  %d = decide_size(%places#1) {size = found} : bool<found x 0>
  %first = slice(%places#0) {starts = [0, 0], stops = [1, found], steps = [1, 1]} : int64<1 x found>
  %row = reshape(%first) {shape = [found]} : int64<found>
  %taken = gather(%x, %row) {axis = 0} : float32<found x 2>
  %y_save = save(%taken, %y)
}
"""


def compiled(graph: object = GRAPH, **options: object) -> Network:
    chosen = {"backend": "interpreter", "threads": 1, **options}
    return glow_nb.compile(graph, **chosen)  # type: ignore[arg-type]


def written(network: Network, folder: Path, **options: object) -> Report:
    path = folder / "report.html"
    network.report(path, **{"runs": 0, **options})  # type: ignore[arg-type]
    assert path.stat().st_size < 10_000_000
    return read_page(path)


def only(report: Report) -> Compilation:
    (compilation,) = report.compilations
    return compilation


def items(part: Part, key: str) -> tuple[Item, ...]:
    return next(stage.items for stage in part.stages if stage.key == key)


def test_each_stage_knows_the_nodes_of_the_model(tmp_path: Path) -> None:
    path = write_dense(tmp_path)
    (part,) = only(written(compiled(str(path)), tmp_path)).parts
    model = items(part, "model")
    assert [item.kind for item in model] == ["MatMul", "Relu"]
    for key in ("graph", "lowered", "program", "kernels"):
        found = {model[n].kind for item in items(part, key) for n in item.origins}
        assert found == {"MatMul", "Relu"}, key
    for item in items(part, "program"):
        assert [items(part, "lowered")[n].name for n in item.made_of] == [item.name]


def test_a_graph_is_its_own_model_and_passes_show_what_they_changed(tmp_path: Path) -> None:
    function = glow_nb.load(GRAPH)
    (part,) = only(written(compiled(function), tmp_path)).parts
    assert [item.name for item in items(part, "model")] == [n.name for n in function]
    assert "lower" in [row.name for row in part.passes]
    assert all(row.does for row in part.passes)
    changed = [row for row in part.passes if row.changed]
    assert any(row.name == "allocate" and row.level == "program" for row in changed)
    for row in changed:
        assert row.removed == sum(line.startswith("-") for line in row.lines)
        assert row.added == sum(line.startswith("+") for line in row.lines)


def test_memory_and_weights_are_those_of_the_program(tmp_path: Path) -> None:
    net = compiled()
    (part,) = only(written(net, tmp_path)).parts
    assert part.memory.arena == net.memory.arena_bytes
    assert {life.offset + life.size <= part.memory.arena for life in part.memory.lives} == {True}
    (weight,) = part.weights
    assert weight.size == 16
    assert [items(part, "program")[n].kind for n in weight.readers] == ["mat_mul"]


def test_networks_with_open_sizes_show_their_variants_and_guards(tmp_path: Path) -> None:
    net = compiled(glow_nb.load(OPEN), sizes={"n": (1, 8)})
    compilation = only(written(net, tmp_path))
    (part,) = compilation.parts
    assert part.title == "for n in 1..8"
    assert "Variants" in [table.title for table in part.tables]
    assert any("n x 2" in item.type for item in items(part, "lowered"))
    assert dict(compilation.facts)["input x"] == "float32<n x 2>"


def test_networks_of_stages_show_each_stage_and_one_model(tmp_path: Path) -> None:
    net = compiled(glow_nb.load(STAGED))
    parts = only(written(net, tmp_path)).parts
    assert [part.title.split(",")[0] for part in parts] == ["stage 1 of 2", "stage 2 of 2"]
    assert len({items(part, "model") for part in parts}) == 1
    for part in parts:
        assert items(part, "program")
        assert part.passes, part.no_passes
    names = [item.name for item in items(parts[0], "model")]
    (gather,) = [item for item in items(parts[1], "program") if item.kind == "gather"]
    assert [names[n] for n in gather.origins] == ["taken"]


def test_networks_that_keep_caches_show_their_program(tmp_path: Path) -> None:
    net = compiled(plain_step().model, sizes=SIZES, caches={"past": "present"})
    (part,) = only(written(net, tmp_path, runs=2)).parts
    assert items(part, "program")
    assert part.passes, part.no_passes
    assert part.measurement is not None or part.unmeasured


def test_modules_show_each_function(tmp_path: Path) -> None:
    first, second = glow_nb.load(GRAPH), glow_nb.load(GRAPH.replace("@main", "@other"))
    module = Module((first, second))
    net = compiled(module)
    parts = only(written(net, tmp_path)).parts
    assert [part.title for part in parts] == ["function main", "function other"]
    assert all(part.passes for part in parts)


def test_networks_of_programs_have_no_graph(tmp_path: Path) -> None:
    program = compiled().program
    (part,) = only(written(compiled(program), tmp_path)).parts
    missing = {stage.key: stage.missing for stage in part.stages}
    assert missing["lowered"].startswith("A program was given")
    assert items(part, "program")


def test_a_model_that_is_gone_is_said(tmp_path: Path) -> None:
    net = compiled(glow_nb.load(GRAPH))  # nobody keeps the graph
    (part,) = only(written(net, tmp_path)).parts
    assert "was deleted" in part.no_passes
    assert {item.name for item in items(part, "model")} >= {"product", "positive"}
    assert not items(part, "graph")


def test_fewer_bits_show_which_layers_have_them_and_how_far_they_are(tmp_path: Path) -> None:
    low, full = compiled(WIDE, precision="bfloat16"), compiled(WIDE)
    report = written(low, tmp_path, against=full)
    assert report.comparison is not None
    (one, other) = report.compilations
    assert report.title == "main, precision float32 and main, precision bfloat16"
    assert [one.title, other.title] == ["main, precision float32", "main, precision bfloat16"]
    assert dict(one.facts)["precision"] == "float32"
    assert dict(other.facts)["precision"] == "bfloat16"
    assert any(table.title.startswith("Precision") for table in other.parts[0].tables)
    accuracy = report.comparison.accuracy
    assert accuracy is not None
    assert accuracy.rows[0][0] == "y"
    assert float(accuracy.rows[0][1]) < 0.01
    states = {match.same for match in report.comparison.stages["lowered"]}
    assert states == {True, False}


def test_instructions_with_integer_weights_are_counted_without_those_of_zero_points(
    tmp_path: Path,
) -> None:
    net = compiled(INT8, without=["fold_constants"])
    assert dict(only(written(net, tmp_path)).facts)["precision"] == (
        "float32; 1 instruction with integer weights"
    )
    assert repr(net.precision) == "<precision float32; 1 instruction with integer weights>"


def test_integer_weights_of_all_programs_are_counted(tmp_path: Path) -> None:
    other = INT8.replace("@main", "@other")
    module = Module((glow_nb.load(INT8), glow_nb.load(other)))
    net = compiled(module, without=["fold_constants"])
    assert dict(only(written(net, tmp_path)).facts)["precision"] == (
        "float32; 2 instructions with integer weights"
    )


def test_lookup_tables_are_no_integer_weights() -> None:
    net = compiled(LOOKUP)
    assert any(each.opcode == "int_lookup_table" for each in net.program.work)
    assert net.precision.title == "float32"


def test_drift_is_shown(tmp_path: Path) -> None:
    drift = Drift("main", (ValueDrift("product", "mat_mul", 41.5, 0.25, 0.01),), ())
    (part,) = only(written(compiled(), tmp_path, drift=drift)).parts
    (table,) = [table for table in part.tables if table.title.startswith("Drift")]
    assert dict(zip(table.columns, table.rows[0], strict=True))["#dB"] == "41.5"


def test_an_earlier_page_is_compared_with(tmp_path: Path) -> None:
    before = tmp_path / "before.html"
    compiled().report(before, runs=0, title="before")
    report = written(compiled(precision="bfloat16"), tmp_path, against=before, title="after")
    assert [one.title for one in report.compilations] == ["before", "after"]
    again = written(compiled(), tmp_path, against=tmp_path / "report.html")
    assert [one.title for one in again.compilations] == ["after", "main"]


def test_names_of_models_are_text_wherever_they_come_from(tmp_path: Path) -> None:
    wicked = "</script>\u2028<b>'\""
    text = GRAPH.replace("%product", '%"</script>\\u2028<b>\'\\""')
    (part,) = only(written(compiled(glow_nb.load(text)), tmp_path)).parts
    assert wicked in [item.name for item in items(part, "program")]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<b>" not in page.split("<script>")[0]
    assert "\u2028" not in page


def test_a_title_may_have_letters_that_are_none(tmp_path: Path) -> None:
    report = written(compiled(), tmp_path, title="\udc80")
    assert only(report).title == "\udc80"
    assert r"<title>\udc80" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_what_is_wrong_is_one_clear_error(tmp_path: Path) -> None:
    net = compiled()
    path = tmp_path / "report.html"
    with pytest.raises(OptionError, match="against=.*: give a compiled network, or the path"):
        net.report(path, against=net.program)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="drift=3: give what"):
        net.report(path, runs=0, drift=3)
    with pytest.raises(OptionError, match="runs"):
        net.report(path, runs=-1)
    with pytest.raises(OptionError, match="title=3: give a text"):
        net.report(path, runs=0, title=3)  # type: ignore[arg-type]
    with pytest.raises(FeedError, match="unknown input 'q'"):
        net.report(path, {"q": np.ones(2)}, runs=0, against=net)
    module = compiled(Module((glow_nb.load(GRAPH), glow_nb.load(GRAPH.replace("@main", "@other")))))
    with pytest.raises(OptionError, match="a module has several functions, .*; report one of them"):
        module.report(path, {"x": np.ones((3, 2), np.float32)})
    with pytest.raises(GlowError, match="there is no folder"):
        net.report(tmp_path / "no" / "report.html", runs=0)
    (tmp_path / "other.html").write_text("<html></html>")
    with pytest.raises(ModelError, match="it is no page that 'glow-nb report' wrote"):
        net.report(path, runs=0, against=tmp_path / "other.html")
    with pytest.raises(ModelError, match="cannot be read"):
        net.report(path, {"q": np.ones(2)}, against=tmp_path / "none.html")  # before it runs
    assert not path.exists()


def test_runs_on_random_numbers_that_fail_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    net = compiled()

    def fail(*_: object, **__: object) -> None:
        raise GlowError("index 7 is out of range")

    monkeypatch.setattr(net, "profile", fail)
    subject = Subject(net, programs_of(net))
    ((found,),) = measured([subject], None, 3)
    assert "index 7 is out of range" in found.reason
    with pytest.raises(GlowError, match="index 7"):
        measured([subject], {"x": np.ones((3, 2), np.float32)}, 3)


@pytest.mark.jit
def test_kernels_have_source_plans_and_times_below_limits(tmp_path: Path) -> None:
    path = write_dense(tmp_path)
    net = compiled(str(path), backend="cpu")
    (part,) = only(written(net, tmp_path, runs=2)).parts
    assert len(part.sources) == len(items(part, "kernels"))
    assert "def kernel(" in part.sources[0]
    (call,) = part.calls
    assert call.plan.startswith("direct")
    assert [each.chosen for each in call.alternatives].count(True) == 1
    assert call.time is not None
    assert 0 < call.time.minimum <= call.time.median
    assert part.measurement is not None
    assert part.measurement.roof is not None
    assert part.measurement.inputs == "random numbers"
    assert "From the program to code" in [table.title for table in part.tables]
    given = {"x": np.ones((2, 3), np.float32)}
    (fed,) = only(written(net, tmp_path, inputs=given, runs=2)).parts
    assert fed.measurement is not None
    assert fed.measurement.inputs == "given arrays"
