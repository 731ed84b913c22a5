"""``glow-nb bench`` and ``glow-nb machine``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from glow_nb.base.errors import OptionError
from glow_nb.base.machine_limits import DotRate, MachineLimits, MemoryLevel
from glow_nb.commands import bench, machine
from glow_nb.kernels.machine.rows import ROWS
from glow_nb.kernels.target import Target
from glow_nb.system.tile_registers import TileRegisters
from glow_nb.tools.duel.contest import Measurement
from glow_nb.tools.duel.engines import is_installed, require_installed
from tests.unit.commands.samples import call, fails, write_dense, write_graph


@pytest.mark.jit
def test_table(tmp_path: Path) -> None:
    result = call(
        "bench", write_dense(tmp_path, "n"), "--batch", 4, "--against", "onnxruntime", "--rounds",
        1, "--seconds", 0, "--threads", 1,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].endswith("dense.onnx: 1 thread, engines asked in turn")
    assert [line.split()[0] for line in lines[1:4]] == ["engine", "glow_nb", "onnxruntime"]
    assert lines[2].split()[1] == "float32"
    assert float(lines[2].split()[-1]) < 1e-6
    assert lines[2].split().count("1.00") == 2
    assert lines[-2] == "error: root mean square of the differences from float64, relative"
    assert lines[-1].startswith("ratio ")
    assert " in float32, of the medians " in lines[-1]


@pytest.mark.parametrize(
    "arguments",
    [
        ("MODEL", "--against", "onnxruntime", "openvino"),
        ("--against", "onnxruntime", "openvino", "MODEL", "--rounds", 1),
        ("MODEL", "--against", "onnxruntime", "--against", "openvino"),
        ("--against=onnxruntime", "openvino", "MODEL"),
    ],
)
def test_json_of_several_engines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...]
) -> None:
    asked: list[str] = []

    def duel(path: str, feeds: object, *, engines: tuple[str, ...], **_: object) -> object:
        asked.extend(engines)
        results = {engine: Measurement(times=[0.5, 1.0]) for engine in engines}
        results["onnxruntime"] = Measurement(times=[0.5, 2.5])
        results["openvino"] = Measurement(missing="it stopped")
        return results

    monkeypatch.setattr(bench, "duel", duel)
    monkeypatch.setattr(bench, "require_installed", lambda engines: None)
    model = write_dense(tmp_path)
    result = call("bench", *(model if a == "MODEL" else a for a in arguments), "--json")
    report = json.loads(result.stdout)
    assert asked == ["glow_nb", "onnxruntime", "openvino"]
    assert (report["ratio"], report["median_ratio"]) == (1.0, 2.0)
    assert report["engines"][1]["relative_median"] == 2.0
    assert [row["missing"] for row in report["engines"]] == ["", "", "it stopped"]
    assert report["engines"][1]["median_seconds"] == 1.5
    text = call("bench", *(model if a == "MODEL" else a for a in arguments)).stdout
    assert "openvino is left out: it stopped" in text


def test_precisions_have_rows_and_ratios(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who computes in other floats than asked is in the table, and not in that ratio."""

    def duel(_: str, feeds: object, *, precisions: tuple[str, ...], **__: object) -> object:
        assert precisions == ("bfloat16", "default")
        ones = [np.ones((2, 4), np.float32)]
        return {
            "glow_nb bfloat16": Measurement(times=[1.0], outputs=ones, computes="bfloat16"),
            "onnxruntime": Measurement(times=[0.5], outputs=ones, computes="float32"),
            "openvino bfloat16": Measurement(times=[3.0], outputs=ones, computes="bfloat16"),
            "glow_nb": Measurement(times=[2.0], outputs=ones, computes="float32"),
            "openvino default": Measurement(times=[4.0], outputs=ones, computes="bfloat16"),
        }

    monkeypatch.setattr(bench, "duel", duel)
    monkeypatch.setattr(bench, "require_installed", lambda engines: None)
    peers = ("--against", "onnxruntime", "openvino")
    model = write_dense(tmp_path)
    lines = call("bench", *peers, "--precision", "bfloat16", "default", model).stdout.splitlines()
    given = ("bench", model, *peers, "--precision", "bfloat16", "--precision", "default")
    assert lines[6].split()[:3] == ["openvino", "default:", "bfloat16"]
    assert "onnxruntime computes no float32 model in bfloat16: its row is of float32" in lines
    assert [line[:24] for line in lines[-2:]] == [
        "ratio 3.000 in bfloat16,",
        "ratio 0.250 with default",
    ]
    report = json.loads(call(*given, "--json").stdout)
    assert report["ratio"] == report["ratios"]["bfloat16"]["minima"] == 3.0
    assert report["ratios"]["default"] == {"minima": 0.25, "medians": 0.25}
    assert report["reference"] == "float64"
    rows = report["engines"]
    assert [row["relative_min"] for row in rows] == [1.0, 0.25, 3.0, 1.0, 2.0]
    assert len({row["error"] for row in rows}) == 1
    assert "'half' is not one of 'float32'" in fails(*given, "--precision", "half", code=2)
    message = fails(*given, "--precision", "bfloat16", "float", code=2)
    assert "and no precision (float32, bfloat16, default), and there is one MODEL" in message


def test_a_precision_that_no_peer_has_makes_no_ratio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def duel(*_: object, **__: object) -> object:
        return {"glow_nb bfloat16": Measurement(times=[1.0]), "onnxruntime": Measurement(times=[1])}

    monkeypatch.setattr(bench, "duel", duel)
    given = ("bench", write_dense(tmp_path), "--against", "onnxruntime", "--precision", "bfloat16")
    assert (
        call(*given).stdout.splitlines()[-1]
        == "no ratio in bfloat16: no other engine ran in this precision"
    )
    stopped = {"glow_nb bfloat16": Measurement(missing="killed")}
    monkeypatch.setattr(bench, "duel", lambda *_, **__: stopped)
    assert "glow_nb bfloat16 stopped: killed" in fails(*given)


def test_other_engines_get_a_model_that_needs_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is a link, and its data lie beside what it links to."""
    found: list[object] = []

    def duel(path: str, feeds: dict[str, object], **_: object) -> object:
        session = onnxruntime.InferenceSession(path)
        found.append(session.run(None, feeds)[0])
        return {engine: Measurement(times=[1.0]) for engine in ("glow_nb", "onnxruntime")}

    monkeypatch.setattr(bench, "duel", duel)
    folder, model = tmp_path / "models", onnx.load(write_dense(tmp_path))
    folder.mkdir()
    place = folder / "m.onnx"
    onnx.save(model, place, save_as_external_data=True, location="m.bin", size_threshold=0)
    link = tmp_path / "link.onnx"
    link.symlink_to(place)
    result = call("bench", link, "--against", "onnxruntime")
    assert result.exit_code == 0, result.output
    assert len(found) == 1


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = write_dense(tmp_path, "n")
    peer = ("--against", "onnxruntime")
    assert "--shape NAME=SIZE or --batch" in fails("bench", model, *peer)
    assert "no such input or dimension" in fails("bench", model, *peer, "--shape", "m=1")
    assert "run only ONNX files" in fails("bench", write_graph(tmp_path), *peer)
    assert "cannot be read" in fails("bench", tmp_path / "no.onnx", *peer)
    assert "not one of 'onnxruntime'" in fails("bench", model, "--against", "tvm", code=2)
    assert "'tvm' is no engine" in fails("bench", model, *peer, "tvm", code=2)
    assert "'more' is one argument too many" in fails("bench", model, "more", code=2)

    def missing(engines: object) -> None:
        raise OptionError("openvino: not installed")

    monkeypatch.setattr(bench, "require_installed", missing)
    assert "openvino: not installed" in fails("bench", model, "--against", "openvino")


def test_peers_that_are_not_installed_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "duel", lambda *_, **__: {"glow_nb": Measurement(times=[1.0])})
    monkeypatch.setattr(bench, "is_installed", lambda engine: engine != "openvino")
    result = call("bench", write_dense(tmp_path))
    assert "openvino is left out: not installed; pip install openvino" in result.stderr
    assert "onnxruntime" not in result.stderr


def test_other_outputs_are_pointed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def duel(*_: object, **__: object) -> object:
        return {
            "glow_nb": Measurement(times=[1.0], outputs=[np.ones(2)]),
            "onnxruntime": Measurement(times=[2.0], outputs=[np.zeros(2)]),
        }

    monkeypatch.setattr(bench, "duel", duel)
    text = call("bench", write_dense(tmp_path), "--against", "onnxruntime").stdout
    assert "onnxruntime computes something else" in text
    assert "ratio 2.000" in text


def test_a_difference_without_limit_is_null_in_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def duel(*_: object, **__: object) -> object:
        return {
            "glow_nb": Measurement(times=[1.0], outputs=[np.ones(2)]),
            "onnxruntime": Measurement(times=[2.0], outputs=[np.full(2, np.nan)]),
        }

    monkeypatch.setattr(bench, "duel", duel)
    model = write_dense(tmp_path)
    text = call("bench", model, "--against", "onnxruntime", "--json").stdout

    def refuse(word: str) -> None:
        raise AssertionError(word)

    report = json.loads(text, parse_constant=refuse)
    assert [row["largest_difference"] for row in report["engines"]] == [0.0, None]
    assert [row["differs"] for row in report["engines"]] == [False, True]


def test_packages_are_found() -> None:
    assert is_installed("glow_nb")
    assert not is_installed("no_engine_of_this_name")
    with pytest.raises(OptionError, match="not installed; pip install no_engine_of_this_name"):
        require_installed(["glow_nb", "no_engine_of_this_name"])


@pytest.mark.parametrize("cores", [0, 1])
def test_machine(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    from glow_nb.codegen import measure_limits

    level = MemoryLevel("L1", 32768, 2e11, 1e11, cores, 2)
    limits = MachineLimits(3, 1.5e11, (level, MemoryLevel("DRAM", 0, 3e10, 2e10, 0, 1, 4e10)))
    monkeypatch.setattr(measure_limits, "machine_limits", lambda threads, measure_again: limits)
    lines = call("machine").stdout.splitlines()
    assert lines[1].startswith("peak 150.00 GFLOP/s")
    table = [line.split() for line in lines[-3:]]
    assert table[0] == ["memory", "size", "cores", "caches", "read", "copy", "streamed"]
    assert table[1][:5] == (["L1", "32.00", "KiB"] + ["1"] * cores + ["2", "200.00"])[:5]
    assert table[2] == ["DRAM", "30.00", "GB/s", "20.00", "GB/s", "40.00", "GB/s"]
    assert any("assumed" in line for line in lines) == (cores == 0)
    row = Target.host().chosen_row
    assert any(line.startswith(f"row {row.machine.name}, ") for line in lines)
    document = json.loads(call("machine", "--json").stdout)
    assert document["levels"][0]["caches"] == 2
    assert document["row"] == row.machine.name


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (TileRegisters(exist=True, refusal=""), "yes"),
        (TileRegisters(exist=True, refusal="a sandbox"), "refused: a sandbox"),
        (TileRegisters(exist=False, refusal="the processor has none"), "none"),
    ],
)
def test_peaks_of_dots_and_the_right_to_tiles_are_shown(
    monkeypatch: pytest.MonkeyPatch, found: TileRegisters, said: str
) -> None:
    monkeypatch.setattr(machine, "tile_registers", lambda: found)
    dots = (DotRate("tile_dot_tdpbusd", 5e12), DotRate("tile_dot_own", 2e9))
    limits = MachineLimits(1, 1.5e11, (MemoryLevel("DRAM", 0, 3e10, 2e10),), dots)
    assert machine.describe_limits(limits)[2:5] == [
        "peak 5.00 Top/s bytes, in tiles (tdpbusd)",
        "peak 2.00 Gop/s own (own)",
        f"tiles {said}",
    ]


def test_numbers_of_a_row_are_printed_with_their_provenance() -> None:
    lines = call("machine", "--row", "zen4").stdout.splitlines()
    (line,) = (line for line in lines if "dram_filter_penalty" in line)
    assert " 1.5 " in line
    assert "Zen 4: 7 bytes a cycle" in line
    document = json.loads(call("machine", "--row", "zen4", "--json").stdout)
    assert document["numbers"]["fma_bytes"]["value"] == 32
    host = json.loads(call("machine", "--row", "host", "--json").stdout)
    assert host["name"] == Target.host().machine.name
    assert "no row is called 'zen9'" in fails("machine", "--row", "zen9")


def test_rows_are_listed() -> None:
    lines = call("machine", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(ROWS)
    documents = json.loads(call("machine", "--list", "--json").stdout)["rows"]
    assert [document["name"] for document in documents] == list(ROWS)
