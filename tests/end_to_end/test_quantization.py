"""Networks of integers, as machine code, through ONNX and in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import onnx
import pytest

import glow_nb
from experiments.networks.mobile import mobilenet_v2
from experiments.networks.training import resnet18
from glow_nb import quant
from glow_nb.backends.cpu import Cpu
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Convolution, FullyConnected, QuantizedConvolution
from glow_nb.kernels.target import Target
from glow_nb.llir.program import Program
from glow_nb.network import compilation as compiler
from glow_nb.quant.ranges import profiled_values
from glow_nb.quant.schemas import KINDS
from glow_nb.quant.structure import structural_keys
from tests.exact_sessions import exact_session
from tests.in_turn import in_turn
from tests.unit.quant.networks import branching, convolutional, dense, random, residual

pytestmark = pytest.mark.jit

NETWORKS = (dense, convolutional, residual, branching)


def quantized(function: Function, **options: str) -> tuple[Function, list[Array]]:
    """Return *function* with integers, and samples for it."""
    shape = function.inputs[0].type.shape
    samples = [random(*shape, seed=seed) for seed in range(4)]
    ranges = quant.calibrate(function, samples, backend="interpreter")
    return quant.quantize(function, ranges, least_gain=0, **options), samples  # type: ignore[arg-type]


def decibels(wanted: Array, found: Array) -> float:
    noise = float(np.sum((wanted.astype(np.float64) - found) ** 2))
    return 10 * float(np.log10(np.sum(wanted.astype(np.float64) ** 2) / noise)) if noise else np.inf


@pytest.mark.parametrize(("network", "kind"), in_turn(NETWORKS, KINDS, only=[residual]))
def test_islands_compute_what_the_graph_of_integers_means(
    network: Callable[[], Function], kind: ElementKind
) -> None:
    """The slow run also has a branching network, which is compared with ONNX Runtime above."""
    function = network()
    integers, samples = quantized(function, activations=kind.value)
    compiled = glow_nb.compile(integers, threads=1)
    for sample in samples:
        (meant,) = glow_nb.evaluate(integers, {"x": sample}).values()
        (found,) = compiled.run(sample).values()
        # a number in the middle of two integers may become either
        assert decibels(meant, found) > 45


def test_no_product_of_floats_is_left() -> None:
    for network in (dense(), convolutional(), residual(), branching()):
        integers, _ = quantized(network)
        nodes = glow_nb.optimize(integers).nodes
        assert not any(isinstance(node, Convolution | FullyConnected) for node in nodes)
    integers, _ = quantized(convolutional())
    found = glow_nb.optimize(integers).nodes
    assert sum(isinstance(node, QuantizedConvolution) for node in found) == 2


@pytest.mark.parametrize(
    ("network", "activations"), in_turn(NETWORKS, ["uint8", "int8"], only=[branching])
)
def test_onnxruntime_computes_the_same(network: Callable[[], Function], activations: str) -> None:
    """The slow run also has a residual network, whose islands are compared with the graph below."""
    integers, samples = quantized(network(), activations=activations)
    model = glow_nb.export_onnx(integers)
    onnx.checker.check_model(model, full_check=True)
    session = exact_session(model.SerializeToString())
    compiled, again = glow_nb.compile(integers, threads=1), glow_nb.compile(model, threads=1)
    for sample in samples:
        fed = {session.get_inputs()[0].name: sample}
        (theirs,) = session.run(None, fed)
        (ours,) = compiled.run(sample).values()
        (read,) = again.run(sample).values()
        assert decibels(ours, theirs) > 40
        assert decibels(ours, read) > 45


def made_up_ranges(function: Function) -> quant.Ranges:
    """Return ranges of *function* as if all its values were between -1 and 2."""
    optimized = glow_nb.optimize(function)
    histogram = quant.Histogram.of(np.linspace(-1, 2, 50, dtype=np.float32), 16)
    keys = structural_keys(optimized)
    values = {
        keys[value]: quant.ValueRange(value.name, str(value.type), histogram)
        for value in profiled_values(optimized)
    }
    shapes = {input.name: input.type.shape for input in function.inputs}
    return quant.Ranges(function.name, shapes, 1, values)


SSE_TO_AVX2 = "+sse2,+avx,+avx2,+fma"
BACKENDS = {
    "VNNI": CpuBackend(
        replace(
            Target.host(16),
            features=f"{SSE_TO_AVX2},+avx512f,+avx512bw,+avx512vl,+avx512vnni",
        )
    ),
    "AVX2": CpuBackend(replace(Target.host(8), features=SSE_TO_AVX2), Cpu(winograd="off")),
}
"""Where products of bytes take a quarter of the instructions, most layers are summed up directly;
elsewhere, more of them are transformed, whose weights take eight times as many bytes."""


def program_of(function: Function, backend: CpuBackend) -> Program:
    return compiler.build_program(compiler.lower_for(function, backend), backend)


def constant_bytes(program: Program) -> int:
    return sum(weight.type.size_bytes for weight in program.weights)


LARGE = [mobilenet_v2, partial(resnet18, 1)]
"""The second is for the slow run; of both, most bytes are weights of convolutions."""


@pytest.mark.parametrize(("make", "backend"), in_turn(LARGE, BACKENDS, slow=LARGE[1:]))
def test_constants_and_arena_are_small(make: Callable[[], onnx.ModelProto], backend: str) -> None:
    function = glow_nb.load(make())
    integers = quant.quantize(function, made_up_ranges(function), least_gain=0)
    floats, program = (program_of(each, BACKENDS[backend]) for each in (function, integers))
    assert constant_bytes(program) < 0.27 * constant_bytes(floats)
    assert program.arena is not None
    assert floats.arena is not None
    assert program.arena.size_bytes == program.arena.lower_bound_bytes
    # values are four times as small, but a depthwise convolution of bytes may need a padded copy
    assert program.arena.size_bytes < 0.42 * floats.arena.size_bytes
