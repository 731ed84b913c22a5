"""``glow-nb calibrate`` and ``glow-nb quantize``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import glow_nb
from glow_nb import quant
from glow_nb.hlir.ops import Quantize
from tests.unit.commands.samples import call, fails, write_dense
from tests.unit.quant.networks import convolutional, random

pytestmark = pytest.mark.jit


def write(folder: Path) -> tuple[Path, Path]:
    """Write a model and samples for it; return their paths."""
    model, samples = folder / "model.onnx", folder / "samples.npz"
    glow_nb.export_onnx(convolutional(), model)
    image = random(6, 8, 8, 3)
    shape = onnx.load(model).graph.input[0].type.tensor_type.shape
    if shape.dim[1].dim_value == 3:
        image = np.ascontiguousarray(image.transpose(0, 3, 1, 2))
    np.savez(samples, x=image, labels=np.arange(6))
    return model, samples


def calibrated(folder: Path) -> tuple[Path, Path, Path]:
    model, samples = write(folder)
    ranges = folder / "ranges.yaml"
    options = ("--samples", samples, "--output", ranges, "--bins", 512, "--threads", 1)
    result = call("calibrate", model, *options)
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith(f"wrote {ranges}: ")
    assert result.stderr.endswith(" values, 6 samples\n")
    return model, samples, ranges


def test_a_model_is_calibrated_and_quantized(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    model, samples, ranges = calibrated(tmp_path)
    assert quant.Ranges.load(ranges).samples == 6
    output, picture = tmp_path / "out.glow", tmp_path / "drift.png"
    options: tuple[object, ...] = ("--ranges", ranges, "--output", output, "--report")
    options += ("--method", "mse", "--schema", "symmetric_unsigned", "--keep", "conv1*")
    options += ("--samples", samples, "--picture", picture, "--correct-biases")
    options += ("--least-gain", 0, "--threads", 1)
    result = call("quantize", model, *options)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].endswith(
        ": on integers: 1 convolution, 1 fully_connected, 1 max_pool, 1 reshape"
    )
    assert any(line.startswith("float convolution: keep='conv1*'") for line in lines)
    assert any(line.startswith("2 biases corrected: outputs from ") for line in lines)
    assert lines[-1].startswith("all kernels")
    titles = [line for line in lines if line.startswith(("values", "layers "))]
    assert titles == ["values", "layers of the networks for 1 thread"]
    assert any(line.split()[:2] == ["y", "output"] for line in lines)
    assert result.stderr == f"wrote {picture}\nwrote {output}\n"
    assert picture.stat().st_size > 1000
    function = glow_nb.load(output)
    assert sum(isinstance(node, Quantize) for node in function.nodes) >= 2


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    model, samples, ranges = calibrated(tmp_path)
    options = ("--ranges", ranges, "--output", tmp_path / "out.glow")
    message = fails("quantize", model, *options, "--picture", tmp_path / "drift.png")
    assert "--picture: it needs samples; give --samples" in message
    message = fails("quantize", model, *options, "--correct-biases")
    assert "--correct-biases: it needs samples; give --samples" in message
    message = fails("quantize", model, "--ranges", ranges, "--output", tmp_path / "out", code=2)
    assert "is named neither FILE.onnx nor FILE.glow" in message
    message = fails("quantize", model, "--ranges", samples, "--output", tmp_path / "out.glow")
    assert "cannot be read as ranges" in message
    np.savez(samples, labels=np.arange(6))
    message = fails("calibrate", model, "--samples", samples, "--output", ranges)
    assert "it holds ['labels'], but no array for the inputs ['x']" in message


def test_a_model_of_integers_is_written(tmp_path: Path) -> None:
    model, _, ranges = calibrated(tmp_path)
    output = tmp_path / "model.int8.onnx"
    options = ("--ranges", ranges, "--output", output, "--least-gain", 0)
    result = call("quantize", model, *options)
    assert result.exit_code == 0, result.output
    assert result.output == f"wrote {output}\n"
    kinds = {node.op_type for node in onnx.load(output).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear", "Conv"} <= kinds


def test_a_report_without_samples_predicts(tmp_path: Path) -> None:
    model, _, ranges = calibrated(tmp_path)
    options = ("--ranges", ranges, "--output", tmp_path / "out.glow", "--report")
    lines = call("quantize", model, *options, "--least-gain", 1e6).stdout.splitlines()
    assert lines[0].endswith(": on integers: nothing")
    assert any(line.startswith("float convolution: predicted gain ") for line in lines)
    assert "predicted gain of the network on one thread: 1.00" in lines
    assert "layers on 1 thread" in lines
    assert lines[-1].split()[:2] == ["all", "kernels"]
    assert "measured: float us" not in "\n".join(lines)


def test_equalized_networks_have_ranges_of_their_own(tmp_path: Path) -> None:
    model, samples, ranges = calibrated(tmp_path)
    options = ("--ranges", ranges, "--output", tmp_path / "out.glow", "--equalize")
    message = fails("quantize", model, *options)
    assert "is computed with other weights or attributes; calibrate this network" in message
    result = call("calibrate", model, "--samples", samples, "--output", ranges, "--equalize")
    assert result.exit_code == 0, result.output
    assert "pairs of layers equalized: 8-bit weights from " in result.stdout
    result = call("quantize", model, *options, "--per-tensor", "--least-gain", 0)
    assert result.exit_code == 0, result.output
    function = glow_nb.load(tmp_path / "out.glow")
    assert sum(isinstance(node, Quantize) for node in function.nodes) >= 2


def test_sizes_may_be_given(tmp_path: Path) -> None:
    model, samples, ranges = calibrated(tmp_path)
    message = fails(
        "calibrate", model, "--samples", samples, "--output", ranges, "--shape", "batch=3"
    )
    assert "batch" in message


def test_a_report_names_the_sizes_that_samples_fix(tmp_path: Path) -> None:
    samples, ranges = tmp_path / "samples.npz", tmp_path / "ranges.yaml"
    np.savez(samples, x=random(4, 3))
    for batch, is_told in (("batch", True), (2, False)):
        model = write_dense(tmp_path, batch)
        result = call("calibrate", model, "--samples", samples, "--output", ranges)
        assert result.exit_code == 0, result.output
        options = ("--ranges", ranges, "--output", tmp_path / "out.onnx", "--report")
        result = call("quantize", model, *options)
        assert result.exit_code == 0, result.output
        assert ("fixed by the samples: batch; to leave sizes open" in result.stdout) is is_told


def test_weights_alone_need_no_ranges(tmp_path: Path) -> None:
    model, samples = write(tmp_path)
    output = tmp_path / "out.onnx"
    options: tuple[object, ...] = ("--weights-only", "int4", "--block", 16, "--output", output)
    result = call("quantize", model, *options, "--report", "--samples", samples)
    assert result.exit_code == 0, result.output
    assert ": weights of 1 products: " in result.stdout.splitlines()[0]
    nodes = onnx.load(output).graph.node
    assert sum(node.op_type == "DequantizeLinear" for node in nodes) == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            (),
            "--ranges: it is missing; give the file that glow-nb calibrate writes, or --weights",
        ),
        (
            ("--ranges", "r.yaml", "--block", "8"),
            "--block: it has a meaning only with --weights-only",
        ),
        (
            ("--weights-only", "int8", "--schema", "symmetric", "--per-tensor"),
            "--weights-only int8: --schema, --per-tensor: activations stay floats",
        ),
    ],
)
def test_options_that_contradict_are_refused(
    options: tuple[str, ...], problem: str, tmp_path: Path
) -> None:
    model, _ = write(tmp_path)
    assert problem in fails("quantize", model, "--output", tmp_path / "out.onnx", *options)


def test_open_sizes_are_asked_for_by_the_option(tmp_path: Path) -> None:
    from tests.unit.runtime.serve.onnx_models import scaling

    scaling(tmp_path / "net.onnx", 2.0, ("batch", 2))
    out = str(tmp_path / "out.glow")
    command = ["quantize", str(tmp_path / "net.onnx"), "--weights-only", "int8", "--output", out]
    assert "give sizes: --shape batch=1" in fails(*command)
